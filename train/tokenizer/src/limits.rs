//! Work on a text that anybody may have written, such as a chat template, within limits: of its stack, its memory and
//! its time. It runs on a thread of its own; when it leaves a limit that thread is parked for good and the caller is
//! told which. Nothing can be unwound from inside an allocation or a deep recursion, so the thread is left where it is;
//! what it holds is bounded by the limits. Knows nothing of templates.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::null;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
pub struct Limits {
    pub stack_bytes: usize,
    pub memory_bytes: usize,
    pub time: Duration,
}

const WITHIN: u8 = 0;
const STACK: u8 = 1;
const MEMORY: u8 = 2;
const TIME: u8 = 3;
const PARKED: u8 = 128;
/// Of the stack, for what allocates nothing on its way further down.
const RESERVE_BYTES: usize = 1 << 20;

struct Watch {
    memory_left: AtomicIsize,
    lowest_address: AtomicUsize,
    left: AtomicU8, // the limit that was left, with PARKED once the thread touches nothing any more
    done: AtomicBool,
    caller: Thread,
}

thread_local! {
    static WATCH: Cell<*const Watch> = const { Cell::new(null()) };
}

impl Watch {
    /// Called inside allocations: allocates nothing, and does not return where a limit is left.
    fn check(&self, bytes: isize) {
        let here = &self as *const _ as usize;
        let memory_left = self.memory_left.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        let limit = if here < self.lowest_address.load(Ordering::Relaxed) {
            STACK
        } else if memory_left < 0 {
            MEMORY
        } else {
            self.left.load(Ordering::Relaxed)
        };
        if limit != WITHIN {
            self.left.store(limit | PARKED, Ordering::Release);
            self.caller.unpark();
            loop {
                std::thread::park();
            }
        }
    }
}

fn watch(bytes: isize) {
    let watch = WATCH.try_with(Cell::get).unwrap_or(null());
    if let Some(watch) = unsafe { watch.as_ref() } {
        watch.check(bytes);
    }
}

struct Watched;

unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        watch(layout.size() as isize);
        System.alloc(layout)
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        watch(layout.size() as isize);
        System.alloc_zeroed(layout)
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        watch(-(layout.size() as isize));
        System.dealloc(memory, layout)
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        watch(size as isize - layout.size() as isize);
        System.realloc(memory, layout, size)
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

fn text_of(limit: u8, limits: &Limits) -> String {
    match limit {
        STACK => "is nested or recurses too deeply".to_string(),
        MEMORY => format!("takes more than {} MiB of memory", limits.memory_bytes >> 20),
        _ => format!("takes longer than {} seconds", limits.time.as_secs()),
    }
}

type Slot<T> = Arc<Mutex<Option<std::thread::Result<T>>>>;

/// On the thread itself.
fn run<T>(watch: &Watch, room_bytes: usize, slot: &Slot<T>, work: impl FnOnce() -> T) {
    let here = &room_bytes as *const _ as usize;
    watch.lowest_address.store(here - room_bytes, Ordering::Relaxed); // the stack grows downwards
    WATCH.set(watch);
    let result = catch_unwind(AssertUnwindSafe(work));
    WATCH.set(null());
    *slot.lock().expect("nobody panics with it") = Some(result);
    watch.done.store(true, Ordering::Release);
    watch.caller.unpark();
}

/// The result of `work`, or which limit it left. `work` touches nothing that it borrows once this has returned; a
/// panic of its goes on here.
pub fn within<T: Send>(limits: &Limits, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    let slot: Slot<T> = Arc::default();
    let watch = Arc::new(Watch {
        memory_left: AtomicIsize::new(limits.memory_bytes as isize),
        lowest_address: AtomicUsize::new(0),
        left: AtomicU8::new(WITHIN),
        done: AtomicBool::new(false),
        caller: std::thread::current(),
    });
    let (filled, watched, room_bytes) = (slot.clone(), watch.clone(), limits.stack_bytes - RESERVE_BYTES);
    let thread = std::thread::Builder::new().stack_size(limits.stack_bytes);
    // Safe though it borrows: this function returns when the thread has ended, or when it is parked for good.
    let handle = unsafe { thread.spawn_unchecked(move || run(&watched, room_bytes, &filled, work)) }
        .map_err(|error| format!("cannot be worked on: no thread could be started: {error}"))?;
    let start = Instant::now();
    while !watch.done.load(Ordering::Acquire) {
        let left = watch.left.load(Ordering::Acquire);
        if left & PARKED != 0 {
            return Err(text_of(left & !PARKED, limits));
        }
        if start.elapsed() > limits.time {
            // It stops at its next allocation; loops that allocate nothing are counted by the template's own steps.
            let _ = watch.left.compare_exchange(WITHIN, TIME, Ordering::AcqRel, Ordering::Relaxed);
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
    let _ = handle.join();
    let result = slot.lock().expect("nobody panics with it").take();
    match result.expect("a thread that is done has left its result") {
        Ok(result) => Ok(result),
        Err(panic) => resume_unwind(panic),
    }
}
