//! The threads, and what they do with a chunk.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::output::Output;
use crate::plan::{BLOSC, Chunk, Copy, Plan, RAW, ZSTD};

struct Shared {
    plan: Plan,
    read_only: bool,
    next: AtomicUsize,
    output: AtomicPtr<u8>,
    stop: AtomicBool,
    barrier: Barrier,
}

/// Threads that wait for runs.
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub fn start(plan: Plan, threads: usize, read_only: bool) -> Self {
        let shared = Arc::new(Shared {
            plan,
            read_only,
            next: AtomicUsize::new(0),
            output: AtomicPtr::default(),
            stop: AtomicBool::new(false),
            barrier: Barrier::new(threads + 1),
        });
        let spawn = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || Worker::default().serve(&shared))
        };
        let threads = (0..threads).map(spawn).collect();
        Self { shared, threads }
    }

    /// One run: its seconds, and its output.
    pub fn run(&mut self) -> (f64, Output) {
        let shared = &self.shared;
        shared.next.store(0, Ordering::Relaxed);
        let begin = Instant::now();
        let output = Output::fresh(if shared.read_only { 0 } else { shared.plan.length });
        shared.output.store(output.start(), Ordering::Relaxed);
        shared.barrier.wait();
        shared.barrier.wait();
        (begin.elapsed().as_secs_f64(), output)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.barrier.wait();
        for thread in self.threads.drain(..) {
            thread.join().expect("a worker does not panic");
        }
    }
}

/// What a thread keeps from chunk to chunk and from run to run.
#[derive(Default)]
struct Worker {
    stored: Vec<u8>,
    decoded: Vec<u8>,
    zstd: zstd_safe::DCtx<'static>,
}

impl Worker {
    fn serve(mut self, shared: &Shared) {
        loop {
            shared.barrier.wait();
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
            // A chunk that cannot be read or decoded leaves nothing to measure: better no answer than a wrong one.
            if let Err(error) = self.run(shared) {
                eprintln!("limit: {error}");
                std::process::exit(1);
            }
            shared.barrier.wait();
        }
    }

    fn run(&mut self, shared: &Shared) -> Result<(), String> {
        let plan = &shared.plan;
        let output = shared.output.load(Ordering::Relaxed);
        let mut open: Option<(u32, File)> = None;
        loop {
            let Some(chunk) = plan.chunks.get(shared.next.fetch_add(1, Ordering::Relaxed)) else {
                return Ok(());
            };
            if open.as_ref().is_none_or(|(file, _)| *file != chunk.file) {
                let path = &plan.files[chunk.file as usize];
                open = Some((chunk.file, File::open(path).map_err(|error| format!("{path}: {error}"))?));
            }
            let file = &open.as_ref().expect("opened above").1;
            let copies = &plan.copies[chunk.first as usize..chunk.last as usize];
            self.chunk(chunk, copies, file, output, shared.read_only)
                .map_err(|error| format!("{} at {}: {error}", plan.files[chunk.file as usize], chunk.offset))?;
        }
    }

    fn chunk(
        &mut self,
        chunk: &Chunk,
        copies: &[Copy],
        file: &File,
        output: *mut u8,
        read_only: bool,
    ) -> Result<(), String> {
        let read = |buffer: &mut [u8]| file.read_exact_at(buffer, chunk.offset).map_err(|error| error.to_string());
        let (length, size) = (chunk.length as usize, chunk.decoded as usize);
        // The one piece that is the whole chunk is made in its place.
        let whole = match copies {
            [copy] if copy.rows == 1 && copy.source == 0 && copy.length as usize == size && !read_only => {
                // SAFETY: `Plan::load` checked the bounds, and no other copy has this place in the output.
                Some(unsafe { std::slice::from_raw_parts_mut(output.add(copy.target as usize), size) })
            }
            _ => None,
        };
        let direct = whole.is_some();
        if chunk.codec == RAW || read_only {
            read(whole.unwrap_or_else(|| room(&mut self.decoded, length)))?;
        } else {
            read(room(&mut self.stored, length))?;
            let stored = &self.stored[..length];
            let target = whole.unwrap_or_else(|| room(&mut self.decoded, size));
            match chunk.codec {
                ZSTD => {
                    let got = self.zstd.decompress(target, stored).map_err(zstd_safe::get_error_name)?;
                    if got != size {
                        return Err(format!("decoded {got} bytes, expected {size}"));
                    }
                }
                BLOSC if direct => blosc_all(stored, target)?,
                _ => blosc_wanted(stored, target, copies)?,
            }
        }
        if direct || read_only {
            return Ok(());
        }
        for copy in copies {
            // SAFETY: `Plan::load` checked both bounds; pieces do not overlap in the output.
            unsafe { place(copy, self.decoded.as_ptr(), output) };
        }
        Ok(())
    }
}

/// The first `length` bytes of a buffer that grows when it must.
fn room(buffer: &mut Vec<u8>, length: usize) -> &mut [u8] {
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    &mut buffer[..length]
}

unsafe fn place(copy: &Copy, source: *const u8, target: *mut u8) {
    for row in 0..copy.rows as usize {
        // SAFETY: the caller's.
        unsafe {
            let from = source.add(copy.source as usize + row * copy.source_stride as usize);
            let to = target.add(copy.target as usize + row * copy.target_stride as usize);
            match copy.length {
                1 => *to = *from,
                2 => to.cast::<u16>().write_unaligned(from.cast::<u16>().read_unaligned()),
                4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
                8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
                length => to.copy_from_nonoverlapping(from, length as usize),
            }
        }
    }
}

fn blosc_all(stored: &[u8], target: &mut [u8]) -> Result<(), String> {
    // SAFETY: `stored` is a whole buffer as blosc wrote it, and no more than `target.len()` bytes are written.
    let got =
        unsafe { blosc_src::blosc_decompress_ctx(stored.as_ptr().cast(), target.as_mut_ptr().cast(), target.len(), 1) };
    if got == target.len() as i32 { Ok(()) } else { Err(format!("blosc gave {got}, expected {}", target.len())) }
}

/// Decode the blocks that hold wanted bytes, each once.
fn blosc_wanted(stored: &[u8], target: &mut [u8], copies: &[Copy]) -> Result<(), String> {
    let (mut size, mut length, mut block) = (0, 0, 0);
    let (mut item, mut flags) = (0, 0);
    // SAFETY: the header of a blosc buffer has 16 bytes; the file was written by this benchmark.
    unsafe {
        blosc_src::blosc_cbuffer_sizes(stored.as_ptr().cast(), &mut size, &mut length, &mut block);
        blosc_src::blosc_cbuffer_metainfo(stored.as_ptr().cast(), &mut item, &mut flags);
    }
    if size != target.len() || block == 0 || item == 0 {
        return Err(format!("blosc's header says {size} bytes, expected {}", target.len()));
    }
    let mut wanted = vec![false; size.div_ceil(block)];
    for copy in copies {
        let bytes = (copy.rows as usize - 1) * copy.source_stride as usize + copy.length as usize;
        wanted[copy.source as usize / block..=(copy.source as usize + bytes - 1) / block].fill(true);
    }
    if wanted.iter().all(|&wanted| wanted) {
        return blosc_all(stored, target);
    }
    for (index, _) in wanted.iter().enumerate().filter(|(_, wanted)| **wanted) {
        let (start, stop) = (index * block, size.min((index + 1) * block));
        // SAFETY: as above; the items of one block are written to the bytes of that block.
        let got = unsafe {
            blosc_src::blosc_getitem(
                stored.as_ptr().cast(),
                (start / item) as i32,
                ((stop - start) / item) as i32,
                target[start..stop].as_mut_ptr().cast(),
            )
        };
        if got != (stop - start) as i32 {
            return Err(format!("blosc gave {got} for a block, expected {}", stop - start));
        }
    }
    Ok(())
}
