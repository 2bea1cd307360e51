//! Fresh pages for a result.

use std::ptr;

/// Memory that no one has touched yet, on huge pages where the system grants them.
pub struct Output {
    start: *mut u8,
    length: usize,
}

impl Output {
    pub fn fresh(length: usize) -> Self {
        // SAFETY: an anonymous mapping at an address of the system's choice; `madvise` gets that mapping.
        let start = unsafe {
            let start = libc::mmap(
                ptr::null_mut(),
                length.max(1),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert!(start != libc::MAP_FAILED, "no memory for the output");
            #[cfg(target_os = "linux")]
            libc::madvise(start, length.max(1), libc::MADV_HUGEPAGE);
            start.cast()
        };
        Self { start, length }
    }

    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// The bytes, once all threads are done.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as `self`, and its pages read as zeros until they are written.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // SAFETY: the mapping of `fresh`, unmapped once.
        unsafe { libc::munmap(self.start.cast(), self.length.max(1)) };
    }
}
