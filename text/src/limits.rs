//! Runs work on untrusted text, such as a chat template, within limits on its stack, its memory and
//! its time. It runs on the caller's thread, on a separate stack. Every allocation checks the limits; if one is
//! exceeded, the work is abandoned: the caller continues, and that stack is leaked. Nothing can be unwound from
//! inside an allocation or a deep recursion; what is leaked is bounded by the limits. Knows nothing of templates.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
pub struct Limits {
    pub stack_bytes: usize,
    pub memory_bytes: usize,
    pub time: Duration,
}

#[derive(Clone, Copy, PartialEq)]
enum Limit {
    Stack,
    Memory,
    Time,
}

/// Stack reserve for recursion that does not allocate.
const RESERVE_BYTES: usize = 1 << 20;
/// Allocations between two checks of the clock.
const UNTIMED: u32 = 256;

struct Watch {
    memory_left: Cell<isize>,
    lowest_address: usize,
    deadline: Instant,
    allocations: Cell<u32>,
    left: Cell<Option<Limit>>,
    work: UnsafeCell<libc::ucontext_t>,
    caller: UnsafeCell<libc::ucontext_t>,
}

thread_local! {
    static WATCH: Cell<*const Watch> = const { Cell::new(null()) };
    /// What the next context calls, since makecontext passes no pointers.
    static ENTRY: Cell<(fn(*mut ()), *mut ())> = const { Cell::new((|_| (), null_mut())) };
    /// The last stack that was used: most work needs one of the same size.
    static STACK: RefCell<Option<Stack>> = const { RefCell::new(None) };
}

impl Watch {
    /// Called inside allocations: allocates nothing, and does not return if a limit is exceeded.
    fn check(&self, bytes: isize) {
        let here = &self as *const _ as usize;
        self.memory_left.set(self.memory_left.get() - bytes);
        self.allocations.set(self.allocations.get().wrapping_add(1));
        let timed = self.allocations.get() % UNTIMED == 0;
        let limit = if here < self.lowest_address {
            Limit::Stack
        } else if self.memory_left.get() < 0 {
            Limit::Memory
        } else if timed && Instant::now() > self.deadline {
            Limit::Time
        } else {
            return;
        };
        self.left.set(Some(limit));
        WATCH.set(null());
        unsafe { libc::swapcontext(self.work.get(), self.caller.get()) };
        std::process::abort(); // never resumed
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

/// Memory that is committed page by page as it is used, with a guard page below it.
struct Stack {
    base: *mut libc::c_void,
    bytes: usize,
}

impl Stack {
    fn of(bytes: usize) -> Result<Self, String> {
        if let Some(kept) = STACK.take() {
            if kept.bytes == bytes {
                return Ok(kept);
            }
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        let base = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(format!("cannot be worked on: no memory for its stack: {}", std::io::Error::last_os_error()));
        }
        unsafe { libc::mprotect(base, RESERVE_BYTES / 16, libc::PROT_NONE) };
        Ok(Stack { base, bytes })
    }

    /// A large one is freed at once.
    fn keep(self) {
        const LARGEST_KEPT: usize = 32 << 20;
        if self.bytes <= LARGEST_KEPT {
            STACK.set(Some(self));
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        unsafe { libc::munmap(self.base, self.bytes) };
    }
}

fn text_of(limit: Limit, limits: &Limits) -> String {
    match limit {
        Limit::Stack => "is nested or recurses too deeply".to_string(),
        Limit::Memory => format!("takes more than {} MiB of memory", limits.memory_bytes >> 20),
        Limit::Time => format!("takes longer than {} seconds", limits.time.as_secs()),
    }
}

struct Job<T, W> {
    work: Option<W>,
    result: Option<std::thread::Result<T>>,
}

fn run<T, W: FnOnce() -> T>(job: *mut ()) {
    let job = unsafe { &mut *(job as *mut Job<T, W>) };
    let work = job.work.take().expect("it runs once");
    job.result = Some(catch_unwind(AssertUnwindSafe(work)));
}

/// The first function on the other stack. It has nothing to drop when it leaves that stack.
extern "C" fn enter() {
    let (run, job) = ENTRY.get();
    let watch = WATCH.get();
    run(job);
    WATCH.set(null());
    unsafe { libc::setcontext((*watch).caller.get()) };
    std::process::abort();
}

/// The result of `work`, or which limit it exceeded; its panic is resumed here.
pub fn within<T, W: FnOnce() -> T>(limits: &Limits, work: W) -> Result<T, String> {
    let stack = Stack::of(limits.stack_bytes)?;
    let job = Box::into_raw(Box::new(Job { work: Some(work), result: None }));
    let watch = Box::into_raw(Box::new(Watch {
        memory_left: Cell::new(limits.memory_bytes as isize),
        lowest_address: stack.base as usize + RESERVE_BYTES,
        deadline: Instant::now() + limits.time,
        allocations: Cell::new(0),
        left: Cell::new(None),
        work: UnsafeCell::new(unsafe { std::mem::zeroed() }),
        caller: UnsafeCell::new(unsafe { std::mem::zeroed() }),
    }));
    unsafe {
        let context = (*watch).work.get();
        libc::getcontext(context);
        (*context).uc_stack.ss_sp = stack.base;
        (*context).uc_stack.ss_size = stack.bytes;
        libc::makecontext(context, enter, 0);
        ENTRY.set((run::<T, W>, job as *mut ()));
        WATCH.set(watch);
        libc::swapcontext((*watch).caller.get(), context);
        if let Some(limit) = (*watch).left.get() {
            std::mem::forget(stack); // with its contents, which refer to the job and the watch
            return Err(text_of(limit, limits));
        }
        stack.keep();
        drop(Box::from_raw(watch));
        match Box::from_raw(job).result.expect("finished work has stored its result") {
            Ok(result) => Ok(result),
            Err(panic) => resume_unwind(panic),
        }
    }
}
