//! The page cache of files.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;

/// Write a file, or all files below a folder, to disk and put them out of the page cache. Gives the bytes of the
/// files, and how many of them are still in memory afterwards: more than a few mean that the drop did not work.
pub fn drop(path: &Path) -> io::Result<(u64, u64)> {
    if path.is_dir() {
        let (mut total, mut resident) = (0, 0);
        for entry in fs::read_dir(path)? {
            let (bytes, left) = drop(&entry?.path())?;
            total += bytes;
            resident += left;
        }
        return Ok((total, resident));
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len() as usize;
    if length == 0 {
        return Ok((0, 0));
    }
    file.sync_all()?; // pages that are not on disk yet stay
    // SAFETY: the descriptor is open; a length of 0 means all of the file.
    let code = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    Ok((length as u64, resident(&file, length)?))
}

/// Bytes of a file that are in the page cache.
fn resident(file: &File, length: usize) -> io::Result<u64> {
    // SAFETY: asks for the size of a page.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let mut pages = vec![0_u8; length.div_ceil(page)];
    // SAFETY: a mapping of the file that is only asked about, never read; `pages` has a byte for each page.
    let code = unsafe {
        let start = libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let code = libc::mincore(start, length, pages.as_mut_ptr().cast());
        libc::munmap(start, length);
        code
    };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(pages.iter().filter(|&&page| page & 1 == 1).count() as u64 * page as u64)
}
