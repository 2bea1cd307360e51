//! What is to be done, as the benchmark wrote it: see `plans.py`.

use std::fs;
use std::path::Path;

use crate::Result;

/// How the bytes of a chunk are stored.
pub const RAW: u32 = 0;
pub const ZSTD: u32 = 1;
pub const BLOSC: u32 = 2;

/// Bytes of a file that are read together, and the copies made of them: `copies[first..last]`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Chunk {
    pub file: u32,
    pub codec: u32,
    pub offset: u64,
    pub length: u64,
    pub decoded: u64,
    pub first: u64,
    pub last: u64,
}

/// `rows` runs of `length` bytes, at equal distances in the decoded chunk and in the output.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Copy {
    pub target: u64,
    pub source: u32,
    pub length: u32,
    pub rows: u32,
    pub source_stride: u32,
    pub target_stride: u32,
    pub unused: u32,
}

pub struct Plan {
    pub files: Vec<String>,
    pub chunks: Vec<Chunk>,
    pub copies: Vec<Copy>,
    /// Bytes of the output.
    pub length: usize,
}

impl Plan {
    /// Load a plan, and check that its copies stay inside the chunks and the output, which `work` relies on.
    pub fn load(folder: &Path) -> Result<Self> {
        let text = fs::read_to_string(folder.join("files.txt"))?;
        let mut lines = text.lines().map(str::to_owned);
        let length = lines.next().ok_or("files.txt is empty")?.parse()?;
        let files: Vec<String> = lines.collect();
        let chunks: Vec<Chunk> = records(&fs::read(folder.join("chunks.bin"))?)?;
        let copies: Vec<Copy> = records(&fs::read(folder.join("copies.bin"))?)?;
        for chunk in &chunks {
            let own = copies.get(chunk.first as usize..chunk.last as usize).ok_or("a chunk names missing copies")?;
            let fits = own.iter().all(|copy| {
                let rows = u64::from(copy.rows).saturating_sub(1);
                let source = u64::from(copy.source) + rows * u64::from(copy.source_stride) + u64::from(copy.length);
                let target = copy.target + rows * u64::from(copy.target_stride) + u64::from(copy.length);
                copy.rows > 0 && source <= chunk.decoded && target <= length as u64
            });
            if !fits || chunk.file as usize >= files.len() || chunk.codec > BLOSC {
                return Err("a chunk or a copy of the plan is out of bounds".into());
            }
        }
        Ok(Self { files, chunks, copies, length })
    }

    /// Chunks of the array, of which an uncompressed one may be read in several parts.
    pub fn chunk_count(&self) -> usize {
        let same = |a: &Chunk, b: &Chunk| a.codec == RAW && b.codec == RAW && a.file == b.file;
        self.chunks.chunk_by(same).count()
    }

    /// Bytes that one run reads.
    pub fn stored_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.length).sum()
    }
}

/// Records of plain integers without padding, little-endian as all of zarrow's targets are.
fn records<T: std::marker::Copy>(bytes: &[u8]) -> Result<Vec<T>> {
    let size = size_of::<T>();
    if !bytes.len().is_multiple_of(size) {
        return Err(format!("got {} bytes, expected a multiple of {size}", bytes.len()).into());
    }
    // SAFETY: `T` is `Chunk` or `Copy`: integers, for which any bytes are valid; the read is unaligned.
    Ok(bytes.chunks_exact(size).map(|record| unsafe { record.as_ptr().cast::<T>().read_unaligned() }).collect())
}
