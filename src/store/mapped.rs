//! Files mapped into memory, so that scattered bytes are copied without those that lie between them.
//!
//! Beyond the end of a file that others cut off meanwhile, and where the disk fails, a mapping has no memory: the system
//! sends who touches it a bus error, which kills the process. Here a handler puts zeros in the place of the mapping
//! instead, and whoever copied finds out ([`Mapped::is_intact`]), so that it can read again in the usual way and get the
//! error. Bus errors of anybody else go to the handler that was there before, or to the system.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::IoSliceMut;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};
use memmap2::{MmapOptions, MmapRaw};
use rustix::io::{ReadWriteFlags, preadv2};

/// So many bytes of what will be copied are looked for in the page cache.
const SAMPLES: usize = 8;

/// What mappings there may be at once.
const SLOTS: usize = 64;

/// So many handlers of others may be put in the place of this one.
const HANDLERS: usize = 8;

/// So often a thread lets others run while one of them installs the handler.
const PATIENCE: usize = 1000;

/// Bytes of a file, for the thread that mapped them.
///
/// Others may write to the file meanwhile, so there is never a reference to the bytes.
pub(crate) struct Mapped {
    map: MmapRaw,
    slot: &'static Slot,
    /// A bus error is one of the thread that copies: the handler looks for that.
    of_this_thread: PhantomData<*const u8>,
}

impl Mapped {
    /// Maps the bytes from `start` on that `ranges`, sorted and not empty, span together. `None` if the system cannot do
    /// that, if they are not in its page cache, or a bus error could not be handled: then they are better read.
    pub(crate) fn new(file: &File, start: u64, ranges: &[Range<usize>]) -> Option<Self> {
        let (first, last) = (ranges.first()?.start, ranges.last()?.end);
        if first >= last || !are_cached(file, start, ranges) || !handles_bus_errors() {
            return None;
        }
        let slot = Slot::take()?;
        let offset = start.saturating_add(first as u64);
        let Ok(map) = MmapOptions::new().offset(offset).len(last - first).map_raw_read_only(file) else {
            slot.give_back();
            return None;
        };
        slot.watch(map.as_ptr() as usize, map.len());
        Some(Self { map, slot, of_this_thread: PhantomData })
    }

    /// The first byte.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.map.as_ptr()
    }

    /// How many bytes there are to read, from the first on. They may change at any time.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether all bytes that were read so far were those of the file.
    pub(crate) fn is_intact(&self) -> bool {
        !self.slot.is_broken.load(Ordering::Relaxed)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // Before the mapping goes: then the same addresses may be anybody's.
        self.slot.give_back();
    }
}

/// Whether some bytes of `ranges`, spread over them evenly, are in the page cache. Others are fetched when they are
/// touched, with what lies around them.
fn are_cached(file: &File, start: u64, ranges: &[Range<usize>]) -> bool {
    let bytes: usize = ranges.iter().map(Range::len).sum();
    let step = (bytes / SAMPLES).max(1);
    let (mut next, mut before) = (step / 2, 0);
    for range in ranges {
        while next < before + range.len() {
            let at = start.saturating_add((range.start + next - before) as u64);
            let mut byte = [0];
            if preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) != Ok(1) {
                return false;
            }
            next += step;
        }
        before += range.len();
    }
    true
}

/// A mapping that is being copied from. Only the thread that owns it looks at its pages, also in the handler.
struct Slot {
    /// The system's number of a thread.
    owner: AtomicI32,
    /// Where its first page starts.
    start: AtomicUsize,
    /// One past the last byte.
    end: AtomicUsize,
    is_broken: AtomicBool,
}

static WATCHED: [Slot; SLOTS] = [const {
    Slot {
        owner: AtomicI32::new(0),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        is_broken: AtomicBool::new(false),
    }
}; SLOTS];

impl Slot {
    fn take() -> Option<&'static Self> {
        let me = thread();
        let is_free = |slot: &&Self| slot.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
        WATCHED.iter().find(is_free)
    }

    fn watch(&self, start: usize, len: usize) {
        self.is_broken.store(false, Ordering::Relaxed);
        let page = rustix::param::page_size();
        self.start.store(start / page * page, Ordering::Relaxed);
        self.end.store(start + len, Ordering::Relaxed);
    }

    fn give_back(&self) {
        self.end.store(0, Ordering::Relaxed);
        self.owner.store(0, Ordering::Release);
    }

    /// Puts pages of zeros in the place of the mapping, if `address` lies in it.
    fn mend(&self, address: usize) -> bool {
        let (start, end) = (self.start.load(Ordering::Relaxed), self.end.load(Ordering::Relaxed));
        if !(start..end).contains(&address) {
            return false;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: the pages are those of the mapping that `Mapped::new` made on this thread and that `Mapped` has not let
        // go of, as `owner` and `end` say; only this thread copies from it, by raw pointers, and any bytes will do.
        let pages = unsafe { libc::mmap(start as *mut c_void, end - start, libc::PROT_READ, flags, -1, 0) };
        let is_mended = pages != libc::MAP_FAILED;
        self.is_broken.store(is_mended, Ordering::Relaxed);
        is_mended
    }
}

fn thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// What was done about bus errors before the handler here was there, the oldest first.
static BEFORE: [AtomicPtr<libc::sigaction>; HANDLERS] = [const { AtomicPtr::new(null_mut()) }; HANDLERS];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// How many handlers of others are running that the handler here has called.
static CALLED: AtomicUsize = AtomicUsize::new(0);

/// Sees to it that the handler here is the one that the system calls. `false` if it cannot be.
fn handles_bus_errors() -> bool {
    static BUSY: AtomicBool = AtomicBool::new(false);
    let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: without a new set, this only writes the present one of this thread to `blocked`, which has room for it.
    let is_blocked = unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, null(), blocked.as_mut_ptr()) != 0
            || libc::sigismember(blocked.as_ptr(), libc::SIGBUS) != 0
    };
    if is_blocked {
        return false;
    }
    // Not for ever: in a process that was forked, who is busy may not be there.
    for _ in 0..PATIENCE {
        if action().is_some_and(|now| is_ours(&now)) {
            return true;
        }
        if !BUSY.swap(true, Ordering::Acquire) {
            // Another may just have done it.
            let is_installed = action().is_some_and(|now| is_ours(&now) || install(now));
            BUSY.store(false, Ordering::Release);
            return is_installed;
        }
        std::thread::yield_now();
    }
    false
}

/// What the system does about bus errors now.
fn action() -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action, this only writes the present one to `action`, which has room for it; that it did is
    // checked.
    unsafe { (libc::sigaction(libc::SIGBUS, null(), action.as_mut_ptr()) == 0).then(|| action.assume_init()) }
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == on_bus_error as *const () as usize
}

/// Puts the handler here in the place of `before`. By one thread at a time.
fn install(before: libc::sigaction) -> bool {
    let count = COUNT.load(Ordering::Relaxed);
    let known = BEFORE[..count].iter().position(|known| {
        // SAFETY: what stands in `BEFORE` up to `COUNT` was made here and is never freed.
        let known = unsafe { &*known.load(Ordering::Acquire) };
        (known.sa_sigaction, known.sa_flags) == (before.sa_sigaction, before.sa_flags)
    });
    if let Some(at) = known {
        // It is the last now. Who looks meanwhile sees one of them twice, and none of them never.
        let last = BEFORE[at].load(Ordering::Relaxed);
        for at in at + 1..count {
            BEFORE[at - 1].store(BEFORE[at].load(Ordering::Relaxed), Ordering::Release);
        }
        BEFORE[count - 1].store(last, Ordering::Release);
    } else {
        let Some(place) = BEFORE.get(count) else { return false };
        // Never freed: a handler may look at it at any time.
        place.store(Box::into_raw(Box::new(before)), Ordering::Release);
        COUNT.store(count + 1, Ordering::Release);
    }
    // SAFETY: all zeros are a valid `sigaction`; the fields that matter are set below.
    let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
    ours.sa_sigaction = on_bus_error as *const () as usize;
    // On the stack that there may be for signals; and not held back while the handler runs, because the handler of
    // another may raise the signal again to have the process killed.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    // SAFETY: `ours` is filled in, and its handler has the signature that `SA_SIGINFO` asks for and calls only what may be
    // called in a handler.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, null_mut()) == 0 }
}

/// Mends the mapping of this thread in which the bus error is, or has others see to it.
extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system hands a valid `siginfo_t` to a handler that was installed with `SA_SIGINFO`, and its address may
    // be looked at for this signal; `errno` is this thread's own.
    let (code, address, errno) = unsafe { ((*info).si_code, (*info).si_addr() as usize, libc::__errno_location()) };
    // What processes send to each other has no address.
    if code > 0 {
        let me = thread();
        // SAFETY: as above.
        let kept = unsafe { *errno };
        let is_mended = WATCHED.iter().any(|slot| slot.owner.load(Ordering::Relaxed) == me && slot.mend(address));
        // SAFETY: as above.
        unsafe { *errno = kept };
        if is_mended {
            return;
        }
    }
    let depth = CALLED.fetch_add(1, Ordering::Relaxed);
    let before = COUNT.load(Ordering::Acquire).checked_sub(depth + 1).and_then(|at| BEFORE.get(at));
    let before = before.map_or(null_mut(), |before| before.load(Ordering::Acquire));
    // SAFETY: what stands in `BEFORE` is null, or was made by `install` and is never freed.
    let before = unsafe { before.as_ref() };
    match before {
        Some(before) if before.sa_sigaction == libc::SIG_IGN && code <= 0 => {}
        Some(before) if ![libc::SIG_DFL, libc::SIG_IGN].contains(&before.sa_sigaction) => {
            let handler = before.sa_sigaction as *const ();
            // SAFETY: `sigaction` gave this as a handler, of the kind that its flags tell; the arguments are those that
            // the system would give it.
            unsafe {
                if before.sa_flags & libc::SA_SIGINFO == 0 {
                    std::mem::transmute::<*const (), extern "C" fn(c_int)>(handler)(signal);
                } else {
                    type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
                    std::mem::transmute::<*const (), Handler>(handler)(signal, info, context);
                }
            }
        }
        _ => {
            // SAFETY: both may be called in a handler, and the system does what it would have done without one.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
    }
    CALLED.fetch_sub(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn file(len: usize) -> File {
        let file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..len).map(|at| (at / 7) as u8).collect();
        file.write_all_at(&bytes, 0).unwrap();
        file
    }

    /// The byte at `at`, read as copies read it.
    fn byte(mapped: &Mapped, at: usize) -> u8 {
        assert!(at < mapped.len());
        // SAFETY: the byte lies in the mapping, as checked just above.
        unsafe { mapped.as_ptr().add(at).read_volatile() }
    }

    #[test]
    fn bytes_of_a_file() {
        let file = file(100_000);
        let mapped = Mapped::new(&file, 5_000, &[10..20, 80_000..90_000]).unwrap();
        assert_eq!(mapped.len(), 89_990);
        for at in [0, 1, 50_000, 89_989] {
            assert_eq!(byte(&mapped, at), ((5_010 + at) / 7) as u8);
        }
        assert!(mapped.is_intact());
    }

    #[test]
    fn nothing_is_mapped_that_is_not_there() {
        let file = file(100_000);
        assert!(Mapped::new(&file, 0, &[]).is_none());
        assert!(Mapped::new(&file, 0, std::slice::from_ref(&(5..5))).is_none());
        assert!(Mapped::new(&file, 99_000, &[0..10, 5_000..6_000]).is_none());
        assert!(Mapped::new(&file, u64::MAX - 5, &[0..10, 5_000..6_000]).is_none());
        assert!(Mapped::new(&file, 1 << 62, &[0..10, 5_000..6_000]).is_none());
    }

    #[test]
    fn a_file_that_is_cut_off_shows() {
        // Twice on one thread, and on several at once.
        let cut_off = || {
            for _ in 0..2 {
                let (file, other) = (file(1 << 20), file(1 << 20));
                let mapped = Mapped::new(&file, 1_000, std::slice::from_ref(&(0..1_000_000))).unwrap();
                let whole = Mapped::new(&other, 1_000, std::slice::from_ref(&(0..1_000_000))).unwrap();
                assert_eq!(byte(&mapped, 0), (1_000 / 7) as u8);
                file.set_len(500).unwrap();
                assert!(mapped.is_intact());
                assert_eq!([0, 3_000, 999_999].map(|at| byte(&mapped, at)), [0; 3]);
                assert!(!mapped.is_intact() && whole.is_intact());
                assert_eq!(byte(&whole, 900_000), (901_000 / 7) as u8);
                drop(mapped);
                let again = Mapped::new(&other, 0, std::slice::from_ref(&(0..1_000_000))).unwrap();
                assert!(again.is_intact());
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(cut_off);
            }
        });
    }

    #[test]
    fn who_holds_bus_errors_back_maps_nothing() {
        let file = file(100_000);
        std::thread::spawn(move || {
            let mut set = MaybeUninit::uninit();
            // SAFETY: `set` is made empty before it is used, and the mask is that of this thread alone, which ends here.
            unsafe {
                libc::sigemptyset(set.as_mut_ptr());
                libc::sigaddset(set.as_mut_ptr(), libc::SIGBUS);
                assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), null_mut()), 0);
            }
            assert!(Mapped::new(&file, 0, &[0..10, 80_000..90_000]).is_none());
        })
        .join()
        .unwrap();
    }
}
