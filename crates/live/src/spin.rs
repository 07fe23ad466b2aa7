//! Ranks that wait for their memory to change without calling anybody: `while (!flag);`.
//!
//! Such a rank never gives its region back, and simulated time would stand still for it. So a rank that has run for
//! some time is looked at more closely: its thread is stopped (ptrace(2)) and run instruction by instruction, until it
//! is where it has been before, with the same registers, and all memory that it wrote on the way holds what it held.
//! From there on it can only do the same again, until somebody else changes what it reads: that it spins is proved, not
//! guessed, however long it takes to find it out.
//!
//! It stays stopped then, and is run through its loop again when something has been written into its memory. Where
//! ptrace is forbidden nobody is ever found to spin.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::path::Path;

/// The most instructions that a thread is followed for.
pub const STEPS: u32 = 2048;
/// Longest x86 instruction, bytes.
const LONGEST_INSTRUCTION: usize = 15;
/// NT_X86_XSTATE of elf.h: vector and floating-point registers.
const NT_X86_XSTATE: usize = 0x202;
/// The flag of single steps. A debugger's own does not show in the registers that it reads: where it does the program
/// has set it, and gets a signal at each instruction (`--check=memory`).
const TRAP_FLAG: u64 = 0x100;

/// A process that is stopped because all that its threads do is to wait for memory to change. Goes on when it is
/// dropped.
#[derive(Debug)]
pub struct Spinning {
    threads: Vec<Stopped>,
}

impl Spinning {
    /// Stops process `pid` if it spins: if it has threads that want to run, and each of them can only repeat itself.
    /// They are followed for so many `steps`, of 5 to 50 us; loops of up to half as many instructions are found.
    /// Threads that are not in one of the `loops` are not followed, if such are given. The CPU time that this takes of
    /// a thread, ns, is told to `spent`, with its number, while it is stopped.
    pub fn find(pid: u32, loops: Option<&BTreeSet<u64>>, steps: u32, spent: impl Fn(i32, u64)) -> Option<Spinning> {
        let mut threads = Vec::new();
        for id in running_threads(pid) {
            let mut thread = Stopped::stop(id, pid as i32)?;
            let registers = thread.registers()?;
            if sleeps(&registers) {
                continue;
            }
            let known = |at: u64| loops.is_none_or(|loops| loops.contains(&at));
            if !known(registers.rip) {
                return None;
            }
            let before = thread_cpu_ns(pid, id);
            let repeats = thread.repeats(None, steps);
            if let (Some(before), Some(after)) = (before, thread_cpu_ns(pid, id)) {
                spent(id, after.saturating_sub(before));
            }
            if !repeats {
                return None;
            }
            threads.push(thread);
        }
        let mut found = Spinning { threads };
        // What one thread did before it was looked at, another one may have been waiting for.
        let one = found.threads.len() == 1;
        (one || (!found.threads.is_empty() && found.still())).then_some(found)
    }

    /// Whether it would still only repeat itself, with its memory as it is now. When it would not it is at most at the
    /// first instruction outside its loop.
    pub fn still(&mut self) -> bool {
        self.threads.iter_mut().all(|thread| {
            let within = std::mem::take(&mut thread.repeated);
            thread.repeats(Some(&within), STEPS)
        })
    }

    /// And these threads of the same process.
    pub fn join(&mut self, other: Spinning) {
        self.threads.extend(other.threads);
    }

    /// Numbers of its threads.
    pub fn threads(&self) -> impl Iterator<Item = i32> {
        self.threads.iter().map(|thread| thread.id)
    }

    /// Addresses of the instructions that it repeats.
    pub fn loops(&self) -> impl Iterator<Item = u64> {
        self.threads.iter().flat_map(|thread| thread.repeated.iter().copied())
    }

    /// How many threads the process has besides those that spin: they are asleep, and may change its memory when they
    /// wake.
    pub fn others(&self, pid: u32) -> usize {
        thread_numbers(pid).len().saturating_sub(self.threads.len())
    }
}

fn thread_numbers(pid: u32) -> Vec<i32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whether process `pid` has that thread.
pub(crate) fn has_thread(pid: u32, id: i32) -> bool {
    Path::new("/proc").join(pid.to_string()).join("task").join(id.to_string()).exists()
}

/// Threads that run, or would if they had a core.
pub(crate) fn running_threads(pid: u32) -> Vec<i32> {
    // The state stands behind the name, which is in parentheses: proc(5).
    let runs = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'));
    let path = |id: &i32| Path::new("/proc").join(pid.to_string()).join("task").join(id.to_string()).join("stat");
    thread_numbers(pid).into_iter().filter(|id| std::fs::read_to_string(path(id)).is_ok_and(runs)).collect()
}

/// CPU time of the first thread of `pid`, ns; `None` where the system does not say.
pub fn cpu_ns(pid: u32) -> Option<u64> {
    thread_cpu_ns(pid, pid as i32)
}

/// CPU time of thread `id` of `pid`, ns; `None` where the system does not say.
pub fn thread_cpu_ns(pid: u32, id: i32) -> Option<u64> {
    std::fs::read_to_string(format!("/proc/{pid}/task/{id}/schedstat")).ok()?.split(' ').next()?.parse().ok()
}

/// A thread that this one has stopped, and lets go when it is dropped.
#[derive(Debug)]
struct Stopped {
    id: i32,
    pid: i32,
    /// A signal that came while it was stopped, to be delivered when it goes on; 0: none.
    signal: i32,
    gone: bool,
    /// Addresses of the instructions that it was last seen to repeat.
    repeated: BTreeSet<u64>,
}

/// All that a thread has besides memory.
#[derive(PartialEq)]
struct State {
    registers: [u64; 27],
    vectors: Vec<u8>,
}

impl Stopped {
    fn stop(id: i32, pid: i32) -> Option<Stopped> {
        request(libc::PTRACE_SEIZE, id, 0, 0).ok()?;
        let mut thread = Stopped { id, pid, signal: 0, gone: false, repeated: BTreeSet::new() };
        request(libc::PTRACE_INTERRUPT, id, 0, 0).ok()?;
        thread.await_stop(|stop, _| stop == libc::PTRACE_EVENT_STOP).then_some(thread)
    }

    /// Runs one instruction; false if that cannot be seen. A signal that comes first stops the thread where it is:
    /// SIGTRAP that another process or the program sends must not pass for a step. The kernel's codes are above 0
    /// (sigaction(2)).
    fn step(&mut self) -> bool {
        let step = |stop, code: Option<i32>| stop == 0 && code.is_some_and(|code| code > 0);
        request(libc::PTRACE_SINGLESTEP, self.id, 0, 0).is_ok() && self.await_stop(step)
    }

    /// Waits until it stops with SIGTRAP, as stops of the debugger's own show; whether that is as `expected`, by the
    /// kind of stop (0: before a signal is delivered) and by the signal's code.
    fn await_stop(&mut self, expected: impl Fn(i32, Option<i32>) -> bool) -> bool {
        let mut status = 0;
        // SAFETY: `status` is valid for writing.
        while unsafe { libc::waitpid(self.id, &raw mut status, libc::__WALL) } < 0 {
            if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                self.gone = true;
                return false;
            }
        }
        if !libc::WIFSTOPPED(status) {
            self.gone = true;
            return false;
        }
        let (signal, stop) = (libc::WSTOPSIG(status), status >> 16);
        let is_expected = signal == libc::SIGTRAP && expected(stop, self.code());
        // A stop of the whole process is no signal that could be delivered.
        if !is_expected && stop == 0 {
            self.signal = signal;
        }
        is_expected
    }

    /// `si_code` of the signal before which it has stopped.
    fn code(&self) -> Option<i32> {
        let mut signal = MaybeUninit::<libc::siginfo_t>::zeroed();
        request(libc::PTRACE_GETSIGINFO, self.id, 0, signal.as_mut_ptr() as usize).ok()?;
        // SAFETY: plain numbers.
        Some(unsafe { signal.assume_init() }.si_code)
    }

    fn registers(&self) -> Option<libc::user_regs_struct> {
        let mut registers = MaybeUninit::<libc::user_regs_struct>::zeroed();
        request(libc::PTRACE_GETREGS, self.id, 0, registers.as_mut_ptr() as usize).ok()?;
        // SAFETY: plain numbers.
        Some(unsafe { registers.assume_init() })
    }

    fn vectors(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0u8; 16 * 1024];
        let mut area = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        request(libc::PTRACE_GETREGSET, self.id, NT_X86_XSTATE, &raw mut area as usize).ok()?;
        bytes.truncate(area.iov_len);
        Some(bytes)
    }

    fn state(&self, registers: &libc::user_regs_struct) -> Option<State> {
        Some(State { registers: comparable(registers), vectors: self.vectors()? })
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mine = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let theirs = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: the local bytes are valid for writing, the kernel checks the others.
        unsafe { libc::process_vm_readv(self.pid, &raw const mine, 1, &raw const theirs, 1, 0) }.max(0) as usize
    }

    /// Runs the thread until it repeats itself; false when it does not, when it comes to an instruction that is not
    /// `within`, or when that cannot be seen.
    ///
    /// The state that it is compared with is taken anew after 1, 2, 4, 8 ... steps (Brent's way to find a cycle).
    fn repeats(&mut self, within: Option<&BTreeSet<u64>>, steps: u32) -> bool {
        self.follow(within, steps).unwrap_or(false)
    }

    fn follow(&mut self, within: Option<&BTreeSet<u64>>, steps: u32) -> Option<bool> {
        if self.gone || self.signal != 0 {
            return Some(false);
        }
        let mut seen = BTreeMap::new();
        let mut info = InstructionInfoFactory::new();
        let mut registers = self.registers()?;
        let mut start = self.state(&registers)?;
        // What memory held at `start` that was written since.
        let mut written: BTreeMap<u64, u8> = BTreeMap::new();
        let mut renewal = 1;
        self.repeated.clear();
        for step in 0..steps {
            if registers.eflags & TRAP_FLAG != 0 || within.is_some_and(|within| !within.contains(&registers.rip)) {
                return Some(false);
            }
            let instruction = match seen.get(&registers.rip) {
                Some(&known) => known,
                None => {
                    let instruction = self.instruction(registers.rip)?;
                    seen.insert(registers.rip, instruction);
                    instruction
                }
            };
            if !depends_on_memory_alone(&instruction, &registers) {
                return Some(false);
            }
            for memory in info.info(&instruction).used_memory() {
                use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
                if !matches!(memory.access(), Write | CondWrite | ReadWrite | ReadCondWrite) {
                    continue;
                }
                let address = memory.virtual_address(0, |register, _, _| value_of(register, &registers))?;
                let size = memory.memory_size().size();
                if size == 0 {
                    return None;
                }
                let mut bytes = vec![0; size];
                if self.read(address, &mut bytes) != size {
                    return None;
                }
                for (at, byte) in (address..).zip(bytes) {
                    written.entry(at).or_insert(byte);
                }
            }
            self.repeated.insert(registers.rip);
            if !self.step() {
                return Some(false);
            }
            registers = self.registers()?;
            if comparable(&registers) == start.registers && self.vectors()? == start.vectors && self.holds(&written) {
                return Some(true);
            }
            if step + 1 == renewal {
                renewal *= 2;
                start = self.state(&registers)?;
                written.clear();
                self.repeated.clear();
            }
        }
        Some(false)
    }

    fn instruction(&self, at: u64) -> Option<Instruction> {
        let mut code = [0; LONGEST_INSTRUCTION];
        // The page behind it may not be there.
        let mut length = self.read(at, &mut code);
        if length == 0 {
            let rest = 4096 - (at % 4096) as usize;
            length = self.read(at, &mut code[..rest.min(LONGEST_INSTRUCTION)]);
        }
        let instruction = Decoder::with_ip(64, &code[..length], at, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// Memory holds these bytes.
    fn holds(&self, bytes: &BTreeMap<u64, u8>) -> bool {
        bytes.iter().all(|(&address, &byte)| {
            let mut now = [0];
            self.read(address, &mut now) == 1 && now[0] == byte
        })
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if !self.gone && request(libc::PTRACE_DETACH, self.id, 0, self.signal as usize).is_err() {
            // It was killed: its parent hears of that only when the tracer has.
            // SAFETY: a null status is allowed.
            unsafe { libc::waitpid(self.id, std::ptr::null_mut(), libc::__WALL) };
        }
    }
}

fn request(what: libc::c_uint, id: i32, address: usize, data: usize) -> std::io::Result<()> {
    // SAFETY: the callers give numbers, or addresses of places that are as long as the request says.
    match unsafe { libc::ptrace(what, id, address, data) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The thread was stopped inside a system call that it will go on with: it has fallen asleep since it was seen to run.
/// (The kernel's numbers ERESTARTSYS to ERESTART_RESTARTBLOCK, which programs never see.)
fn sleeps(registers: &libc::user_regs_struct) -> bool {
    registers.orig_rax as i64 >= 0 && (-516..=-512).contains(&(registers.rax as i64))
}

/// What must be equal for a thread to be where it was. The number of the last system call is not seen by the program.
fn comparable(registers: &libc::user_regs_struct) -> [u64; 27] {
    let seen = libc::user_regs_struct { orig_rax: 0, ..*registers };
    // SAFETY: 27 numbers of 64 bits, without gaps.
    unsafe { std::mem::transmute(seen) }
}

/// The instruction has the same result whenever registers and memory are the same. Of system calls that is true of
/// sched_yield(2).
fn depends_on_memory_alone(instruction: &Instruction, registers: &libc::user_regs_struct) -> bool {
    if instruction.code() == Code::Syscall {
        return registers.rax == libc::SYS_sched_yield as u64;
    }
    use Mnemonic::{Cpuid, Int, Int1, Int3, Rdpid, Rdpmc, Rdrand, Rdseed, Rdtsc, Rdtscp, Sysenter, Xbegin, Xgetbv};
    !matches!(
        instruction.mnemonic(),
        Cpuid | Int | Int1 | Int3 | Rdpid | Rdpmc | Rdrand | Rdseed | Rdtsc | Rdtscp | Sysenter | Xbegin | Xgetbv
    )
}

/// What a general register holds, or where a segment begins.
fn value_of(register: Register, registers: &libc::user_regs_struct) -> Option<u64> {
    let r = registers;
    let whole = match register.full_register() {
        Register::RAX => r.rax,
        Register::RBX => r.rbx,
        Register::RCX => r.rcx,
        Register::RDX => r.rdx,
        Register::RSI => r.rsi,
        Register::RDI => r.rdi,
        Register::RBP => r.rbp,
        Register::RSP => r.rsp,
        Register::R8 => r.r8,
        Register::R9 => r.r9,
        Register::R10 => r.r10,
        Register::R11 => r.r11,
        Register::R12 => r.r12,
        Register::R13 => r.r13,
        Register::R14 => r.r14,
        Register::R15 => r.r15,
        Register::RIP => r.rip,
        Register::FS => return Some(r.fs_base),
        Register::GS => return Some(r.gs_base),
        Register::CS | Register::DS | Register::ES | Register::SS => return Some(0),
        _ => return None,
    };
    Some(if register.size() == 4 { whole & 0xffff_ffff } else { whole })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::{Relaxed, SeqCst};
    use std::sync::atomic::{AtomicU32, AtomicU64};

    /// Words that parent and child share.
    struct Shared {
        ready: AtomicU32,
        flag: AtomicU32,
        lock: AtomicU32,
    }

    /// A child process that does `work` for ever, or until it returns.
    struct Child {
        pid: i32,
        shared: &'static Shared,
    }

    impl Child {
        fn new(work: impl FnOnce(&'static Shared)) -> Child {
            // SAFETY: a fresh mapping of zeros, which are valid; the child makes no call that is not allowed after
            // fork.
            unsafe {
                let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
                let area = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
                assert_ne!(area, libc::MAP_FAILED);
                let shared: &'static Shared = &*area.cast::<Shared>();
                let pid = libc::fork();
                if pid == 0 {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                    shared.ready.store(1, SeqCst);
                    work(shared);
                    libc::_exit(0);
                }
                while shared.ready.load(SeqCst) == 0 {
                    std::thread::yield_now();
                }
                Child { pid, shared }
            }
        }

        /// What is found in one of many looks: at first it may still be on its way to its loop.
        fn found(&self) -> Option<Spinning> {
            (0..20).find_map(|_| look(self.pid, None))
        }

        fn ends_with(&self) -> i32 {
            let mut status = 0;
            // SAFETY: the child was not waited for yet.
            unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
            status
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            // SAFETY: plain system calls.
            unsafe {
                libc::kill(self.pid, libc::SIGKILL);
                libc::waitpid(self.pid, std::ptr::null_mut(), 0);
            }
        }
    }

    fn look(pid: i32, loops: Option<&BTreeSet<u64>>) -> Option<Spinning> {
        let spent = AtomicU64::new(0);
        let found = Spinning::find(pid as u32, loops, STEPS, |id, ns| {
            assert_eq!(id, pid);
            spent.fetch_add(ns, Relaxed);
        });
        assert!(found.is_none() || spent.load(Relaxed) > 0);
        found
    }

    /// It is found to spin, also after a change that it does not wait for, and goes on after the one that it does.
    fn spins(work: impl FnOnce(&'static Shared)) {
        let child = Child::new(work);
        let mut spinning = child.found().expect("it spins");
        assert_eq!(spinning.others(child.pid as u32), 0);
        assert!(spinning.still());
        let loops: BTreeSet<u64> = spinning.loops().collect();
        drop(spinning);
        assert!(look(child.pid, Some(&BTreeSet::from([4096]))).is_none());
        let mut spinning = look(child.pid, Some(&loops)).expect("it is there again");
        child.shared.ready.store(7, SeqCst);
        assert!(spinning.still());
        child.shared.flag.store(1, SeqCst);
        assert!(!spinning.still());
        drop(spinning);
        assert_eq!(child.ends_with(), 0);
    }

    #[test]
    fn loops_that_only_memory_ends_are_found() {
        spins(|shared| while shared.flag.load(Relaxed) == 0 {});
        spins(|shared| {
            while shared.flag.load(Relaxed) == 0 {
                std::hint::spin_loop();
            }
        });
        // What is stored is what is there already.
        spins(|shared| {
            while shared.flag.load(Relaxed) == 0 {
                shared.lock.swap(1, SeqCst);
            }
        });
        spins(|shared| {
            while shared.flag.load(Relaxed) == 0 {
                // SAFETY: no arguments.
                unsafe { libc::sched_yield() };
            }
        });
        // Through several functions, with local variables, over four words.
        spins(|shared| {
            let sum = |shared: &Shared| (0..4u32).map(|word| std::hint::black_box(shared).flag.load(Relaxed) & !(word & 1)).max();
            while std::hint::black_box(sum)(shared) == Some(0) {}
        });
    }

    /// It is never found to spin.
    fn works(work: impl FnOnce(&'static Shared)) {
        let child = Child::new(work);
        for _ in 0..4 {
            assert!(look(child.pid, None).is_none());
        }
    }

    #[test]
    fn work_is_not_mistaken_for_waiting() {
        // It counts in a register, in memory, or only after 500 steps.
        works(|_| {
            for at in 0..u64::MAX {
                std::hint::black_box(at);
            }
        });
        works(|shared| while shared.lock.fetch_add(1, Relaxed) != u32::MAX - 1 || shared.flag.load(Relaxed) == 0 {});
        works(|shared| {
            let word = AtomicU64::new(0);
            while shared.flag.load(Relaxed) == 0 {
                for at in 0..500u64 {
                    std::hint::black_box(at);
                }
                word.fetch_add(1, Relaxed);
            }
        });
        // It adds floating-point numbers.
        works(|shared| {
            let mut sum = 0.0;
            while sum < 1e18 && shared.flag.load(Relaxed) == 0 {
                sum += 0.5;
            }
        });
        // It looks at the clock.
        // SAFETY: reads a counter.
        works(|shared| while unsafe { std::arch::x86_64::_rdtsc() } != 0 && shared.flag.load(Relaxed) == 0 {});
        // It sleeps, again and again.
        works(|_| {
            let moment = libc::timespec { tv_sec: 0, tv_nsec: 1000 };
            loop {
                // SAFETY: a valid record.
                unsafe { libc::nanosleep(&raw const moment, std::ptr::null_mut()) };
            }
        });
    }

    /// Its thread gets SIGTRAP at each instruction, as under `--check=memory`: one that waits when it is stopped comes
    /// before the next instruction, and is no step that has led nowhere.
    #[test]
    fn a_program_that_traps_its_own_instructions_is_not_mistaken_for_waiting() {
        extern "C" fn on_trap(_: libc::c_int) {}
        let child = Child::new(|shared| {
            // SAFETY: the handler does nothing; the flag of single steps changes nothing else.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_trap as *const () as usize;
                action.sa_flags = libc::SA_NODEFER;
                libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut());
                std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
            }
            while shared.lock.fetch_add(1, Relaxed) != u32::MAX - 1 || shared.flag.load(Relaxed) == 0 {}
        });
        for _ in 0..200 {
            assert!(look(child.pid, None).is_none(), "it counts");
        }
        let before = child.shared.lock.load(SeqCst);
        while child.shared.lock.load(SeqCst) == before {
            std::thread::yield_now();
        }
    }

    /// SIGTRAP that somebody sends is delivered when the thread goes on.
    #[test]
    fn a_trap_that_is_sent_is_no_step() {
        let child = Child::new(|shared| while shared.flag.load(Relaxed) == 0 {});
        let mut spinning = child.found().expect("it spins");
        // SAFETY: a plain system call.
        unsafe { libc::kill(child.pid, libc::SIGTRAP) };
        assert!(!spinning.still(), "it has something else to do");
        drop(spinning);
        assert_eq!(child.ends_with() & 0x7f, libc::SIGTRAP);
    }

    #[test]
    fn signals_come_through_and_a_killed_process_is_let_go() {
        let child = Child::new(|shared| while shared.flag.load(Relaxed) == 0 {});
        let mut spinning = child.found().expect("it spins");
        // SAFETY: a plain system call.
        unsafe { libc::kill(child.pid, libc::SIGTERM) };
        assert!(!spinning.still(), "it has something else to do");
        drop(spinning);
        assert_eq!(child.ends_with(), libc::SIGTERM);

        let child = Child::new(|shared| while shared.flag.load(Relaxed) == 0 {});
        let mut spinning = child.found().expect("it spins");
        // SAFETY: a plain system call.
        unsafe { libc::kill(child.pid, libc::SIGKILL) };
        assert!(!spinning.still());
    }
}
