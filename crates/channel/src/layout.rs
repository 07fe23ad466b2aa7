//! What lies where in the shared file. Both sides are built from the same sources;
//! [`Header::magic`] and [`Header::version`] refuse a mixture.

use narrows_cycles::Core;
use narrows_portals::NiLimits;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// First word of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"narrows\0");
/// Raised with every change of this file or of [`crate::record`].
pub const VERSION: u32 = 22;

/// Simulated time starts here, ps: one second. What ranks do during MPI_Init lies before it.
pub const EPOCH_PS: u64 = 1_000_000_000_000;

/// Bytes of commands that a rank may give before it must hand over.
pub const COMMAND_BYTES: usize = 256 * 1024;
/// Bytes of notices that a rank finds when it is woken.
pub const NOTICE_BYTES: usize = 256 * 1024;
/// Payloads up to this size arrive inside the records; larger ones are copied from process to
/// process. Measured: below about 8 KiB one `process_vm_writev` costs more than two copies.
pub const INLINE_PAYLOAD: usize = 8192;
/// The longest payload that a rank can give with its command, as it must when its buffer is free at once.
pub const COMMAND_PAYLOAD: usize = 65536;

/// Values of [`RankHeader::state`].
pub mod state {
    /// No process yet.
    pub const ABSENT: u32 = 0;
    /// The rank runs and owns its region.
    pub const RUNNING: u32 = 1;
    /// The rank sleeps; the simulator owns the region.
    pub const PARKED: u32 = 2;
    /// The rank is busy with things outside the simulated network (MPI_Init, MPI_Finalize); the
    /// simulator owns the region.
    pub const OUTSIDE: u32 = 3;
    /// A rank that was outside waits to be let in.
    pub const WANTS_IN: u32 = 4;
    /// The run is over: the rank must end itself.
    pub const KILLED: u32 = 5;
    /// All threads of the rank that run only wait for its memory to change, and are stopped: the simulator has taken
    /// the region.
    pub const TAKEN: u32 = 6;
    /// The rank runs and owns its region, and the simulator does not wait for it.
    pub const APART: u32 = 7;
}

/// Values of [`RankHeader::reason`]: why a rank parked.
pub mod reason {
    /// Nothing to do before the next notice or [`super::RankHeader::deadline`].
    pub const POLL: u32 = 0;
    /// MPI_Init is done; all ranks start together.
    pub const INIT: u32 = 1;
    /// MPI_Finalize was called.
    pub const FINALIZE: u32 = 2;
    /// The command area is full.
    pub const FULL: u32 = 3;
    /// The library waits for the reply to a command.
    pub const REPLY: u32 = 4;
    /// A barrier of all ranks over their launcher (PMI, PMIx): they go on together.
    pub const BARRIER: u32 = 5;
    /// It did not: the simulator has found that it waits for its memory to change, has stopped it, and has taken the
    /// region.
    pub const SPIN: u32 = 6;
    /// As [`POLL`], but it does not look at its network: it sleeps, or lets others get on.
    pub const PAUSE: u32 = 7;
    /// It waits until its access to a file is through, see [`super::RankHeader::accessed`].
    pub const STORAGE: u32 = 8;
}

/// Values of [`Header::phase`].
pub mod phase {
    /// Ranks are in MPI_Init; simulated time has not started.
    pub const PROLOGUE: u32 = 0;
    /// The run.
    pub const RUN: u32 = 1;
    /// All ranks are in MPI_Finalize; simulated time has ended.
    pub const EPILOGUE: u32 = 2;
}

/// Values of [`RankHeader::mode`]: what made the process a rank.
pub mod mode {
    /// Nothing yet: it has neither called MPI_Init nor PtlInit.
    pub const NONE: u32 = 0;
    /// MPI_Init: simulated time runs from its return to MPI_Finalize.
    pub const MPI: u32 = 1;
    /// PtlInit, before any MPI_Init: simulated time runs from its return to the end of the process.
    pub const PORTALS: u32 = 2;
}

/// What every rank must know of the machine; written once before the ranks start.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Simulated duration of a barrier over the launcher, ps.
    pub launcher_barrier_ps: u64,
    /// From a write to a real socket or pipe until another rank can read it, ps.
    pub socket_latency_ps: u64,
    /// Simulated time of an access to a file, beside that of its bytes, ps.
    pub storage_latency_ps: u64,
    /// Bytes per second of the file system.
    pub storage_rate: u64,
    /// Longest eager message, bytes.
    pub eager_limit: u64,
    /// Longest message that completes at once, bytes.
    pub inject_limit: u64,
    /// Bytes of an overflow block.
    pub overflow_block: u64,
    /// Longest Portals message, bytes.
    pub max_portals_message: u64,
    /// Overflow blocks kept posted.
    pub overflow_blocks: u32,
    /// 1: rendezvous by put; 0: by get.
    pub rendezvous_put: u32,
    /// 1: one-sided operations of libfabric go as messages, since there are gateways, which pass nothing else.
    pub one_sided_messages: u32,
    /// 1: what calls of messages take depends on their protocol's queues, and the simulator counts it.
    pub simulator_counts: u32,
    /// Largest volatile put, bytes (PIO).
    pub pio_limit: u32,
    /// 1: ranks say when their MPI calls were, see [`crate::record::Request::Ended`].
    pub calls: u32,
    /// Nodes of a board whose NICs do allreduces; 0: no accelerator.
    pub offload_board: u32,
    /// What takes the place of CPU time: a number of [`crate::counter::Event`]; 0: nothing does.
    pub counter: u32,
    /// Limits of a network interface.
    pub limits: NiLimits,
}

/// What a rank must know of the processor that it is on; written once before it starts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor {
    /// Simulated cost of giving a command to the NIC, ps.
    pub post_ps: u64,
    /// Simulated cost of taking a completion, ps.
    pub completion_ps: u64,
    /// Simulated cost of an empty poll, ps.
    pub poll_ps: u64,
    /// Simulated cost of copying 1,024 bytes inside a process, ps.
    pub copy_ps_per_kib: u64,
    /// Simulated cost of reading the clock, ps.
    pub clock_read_ps: u64,
    /// CPU time to simulated time, in millionths; zero: work is free (`--compute none`), on all nodes.
    pub compute_ppm: u64,
    /// 1: computing between the same two calls takes its running median (`--compute sampled`), 2: the one of all ranks
    /// (`--compute pooled`).
    pub sampled: u64,
    /// The rank begins so late, ps.
    pub late_ps: u64,
    /// Its cores.
    pub cores: u32,
    /// Its number on the node: 0 is the host's.
    pub number: u32,
    /// `--compute cycles`: the core; without a clock, CPU time counts.
    pub core: Core,
}

/// Bytes of a page: ranks can write some pages and not others.
pub const PAGE: usize = 4096;

/// The start of the file. Ranks cannot write its first page.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// Distance between regions.
    pub region_bytes: u64,
    /// The simulator's process.
    pub simulator: u32,
    /// See [`phase`].
    pub phase: AtomicU32,
    /// The machine.
    pub settings: Settings,
    rest: [u8; PAGE - HEADER_FIXED],
    /// Ranks that run; the one that takes it to zero rings the bell.
    pub running: AtomicU32,
    /// The futex that the simulator sleeps on: rung when nobody runs and when somebody wants in, see
    /// [`crate::handover`].
    pub bell: AtomicU32,
    /// How often a thread has ended or wanted to interrupt the waiting of its process, see [`RankHeader::interrupted`]
    /// and [`RankHeader::wanted`].
    pub interrupts: AtomicU32,
    /// 1: a rank has said that a call of the program is not simulated.
    pub refused: AtomicU32,
    /// How often a rank has written to a socket or pipe, see [`RankHeader::written`].
    pub writes: AtomicU32,
    /// `--compute instructions`, `--compute cycles`: threads that cannot be counted; they take their CPU time.
    pub uncounted: AtomicU32,
    /// So many instructions take one second; 0: that is not known yet.
    pub instructions_per_s: AtomicU64,
    /// Instructions that the ranks have computed.
    pub instructions: AtomicU64,
    /// Their CPU time meanwhile, ns.
    pub instructions_ns: AtomicU64,
}

/// Bytes of [`Header`] before `rest`.
const HEADER_FIXED: usize = 32 + size_of::<Settings>();
const _: () = assert!(std::mem::offset_of!(Header, running) == PAGE);

/// Descriptors that the threads of a rank can wait at together.
pub const WATCHED: usize = 64;
/// Writes to sockets and pipes that a rank can tell one by one before the simulator looks at them.
pub const WRITTEN: usize = 32;

/// A [`Watched::key`]: it stands for a simulated socket.
pub const SIMULATED: u64 = u64::MAX;

/// A real descriptor that a thread of the rank waits at.
#[repr(C)]
#[derive(Debug)]
pub struct Watched {
    /// Its number plus one; 0: this place is free.
    pub file: AtomicU32,
    /// What is waited for: events of poll(2).
    pub events: AtomicU32,
    /// What is read there, as in [`Written::key`]; 0: anybody's writes.
    pub key: AtomicU64,
    /// The thread's clock when it began to wait, ps.
    pub since: AtomicU64,
    /// Until when it waits, ps; `u64::MAX`: for ever.
    pub until: AtomicU64,
    /// When it was ready, ps, as the simulator has found; 0: it is not.
    pub ready: AtomicU64,
}

/// Threads of a rank that the simulator can have followed and that have not looked since.
pub const FOLLOWED: usize = 16;

/// A thread that the simulator has followed for a while, instruction by instruction, or has stopped.
#[repr(C)]
#[derive(Debug)]
pub struct Followed {
    /// Its number in the kernel; 0: this place is free.
    pub thread: AtomicU32,
    /// 1 while it is stopped, because all that it does is to wait for memory to change.
    pub stopped: AtomicU32,
    /// CPU time that following it has taken, which is no computing, ns.
    pub ns: AtomicU64,
    /// Its CPU time when it was last seen to do something else than wait, ns.
    pub worked_ns: AtomicU64,
    /// When it was let go, ps; 0: it was not stopped.
    pub until: AtomicU64,
}

/// The last write of a rank to a socket or pipe.
#[repr(C)]
#[derive(Debug)]
pub struct Written {
    /// Where it can be read: a hash of the pipe, the ports of the connection and the like; 0: not known.
    pub key: AtomicU64,
    /// The clock of the thread that wrote, ps.
    pub time: AtomicU64,
}

impl RankHeader {
    /// What ranks that can share memory have in common: those on one processor, as memory belongs to a processor.
    pub fn memory_color(&self) -> u32 {
        // Nodes have 20 bits, processors of a node 8.
        self.processor.number << 20 | self.node
    }
}

/// The start of a rank's region. The rank can write all pages of its region but the first one, and those of no other.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct RankHeader {
    /// Node of the rank, index.
    pub node: u32,
    /// Its `nid`.
    pub nid: u32,
    /// Its `pid` in Portals' sense.
    pub ptl_pid: u32,
    /// Bytes of `host` in use.
    pub host_length: u32,
    /// Name of the simulated host.
    pub host: [u8; 64],
    /// What it is on.
    pub processor: Processor,
    rest: [u8; PAGE - PLACED],
    /// See [`state`]; the futex of the rank.
    pub state: AtomicU32,
    /// [`MARK`], unless somebody has written over it.
    pub mark: AtomicU32,
    /// The rank's process: the one that has called MPI_Init or PtlInit.
    pub pid: AtomicU32,
    /// The process that the launcher has started for this rank: the same, or a wrapper that has started it.
    pub root: AtomicU32,
    /// The last one of these two that the simulator watches; it waits for that, because nobody would notice its death
    /// before.
    pub watched: AtomicU32,
    /// See [`mode`].
    pub mode: AtomicU32,
    /// How often PtlInit was called without PtlFini.
    pub initialised: AtomicU32,
    /// 1 when the rank's process has become another program (execve(2)), which is no rank.
    pub replaced: AtomicU32,
    /// 1 when the program asked for MPI_THREAD_MULTIPLE and was given less.
    pub threads_refused: AtomicU32,
    /// 1 when the program has closed a descriptor of ours, as one does that closes all.
    pub closes_all: AtomicU32,
    /// See [`decided`]: bits.
    pub decided: AtomicU32,
    /// Threads that may call MPI and run, although the rank is parked: they have computed for too long to be waited
    /// for.
    pub running: AtomicU32,
    /// There is something for a rank that is outside.
    pub mail: AtomicU32,
    /// 1 when the libfabric provider has an enabled endpoint.
    pub endpoint: AtomicU32,
    /// See [`reason`].
    pub reason: AtomicU32,
    /// MPI function the rank is in: index into the table of calls plus one; 0: none.
    pub call: AtomicU32,
    /// When that call began, ps.
    pub entered: AtomicU64,
    /// MPI function the rank was in last: as `call`, but stays.
    pub last_call: AtomicU32,
    /// 1 from the return of MPI_Finalize on.
    pub finalized: AtomicU32,
    /// Exit status plus one, when the process said it; 0: it did not.
    pub exit_status: AtomicU32,
    /// The same of `root`, if that is another process.
    pub root_status: AtomicU32,
    /// Code plus one with which the rank has ended the job, by MPI_Abort or by asking the launcher; 0: it has not.
    pub abort_code: AtomicU32,
    /// 1 when a thread of the process, which need not own the region, has ended all waiting in it.
    pub interrupted: AtomicU32,
    /// Threads of the process that want the rank while another one waits with it.
    pub wanted: AtomicU32,
    /// 1 while other ranks of the node look into memory of this one.
    pub shares: AtomicU32,
    /// 1 when the simulator has given the region back to a rank that it had taken it from, see [`reason::SPIN`].
    pub resumed: AtomicU32,
    /// Not 0 while a thread of the rank uses the region, see [`crate::handover::enter`].
    pub busy: AtomicU32,
    /// Threads of `followed` that are stopped.
    pub stopped: AtomicU32,
    /// Threads of `followed` that were let go and have not looked since.
    pub let_go: AtomicU32,
    /// When a thread of a rank whose region was taken wants it back, ps; 0: none does.
    pub wants_at: AtomicU64,
    /// Why the rank could not push a payload (an errno value), 0: it could.
    pub push_error: AtomicU32,
    /// Whose memory it could not write then.
    pub push_to: AtomicU32,
    /// Where in that memory.
    pub push_address: AtomicU64,
    /// How many bytes.
    pub push_length: AtomicU64,
    /// Peer of that call (-1: none, -2: any).
    pub peer: AtomicU64,
    /// Tag of that call (-1: none, -2: any).
    pub tag: AtomicU64,
    /// The rank's clock, ps.
    pub clock: AtomicU64,
    /// CPU time of the thread up to which work has become simulated time, ns.
    pub cpu_mark_ns: AtomicU64,
    /// CPU time of the thread when it began to compute, at `clock`, ns; 0: it is inside a call, or computing does not
    /// take what is measured.
    pub computes_since_ns: AtomicU64,
    /// It computes at least until then, ps; 0: it is inside a call, or nobody knows.
    pub computes_until: AtomicU64,
    /// It sets itself apart ([`crate::handover::go_apart`]) when it is expected to compute for at least so long, ps;
    /// `u64::MAX`: never.
    pub apart_from: AtomicU64,
    /// Nothing that is not in the region yet happens before this time, ps.
    pub horizon: AtomicU64,
    /// When the first of what its endpoints have not looked at yet happened, ps; `u64::MAX`: nothing. A poll at that
    /// time or later goes to the simulator.
    pub news: AtomicU64,
    /// As `horizon`, if the rank gives no command; 0 when it has given one.
    pub quiet_until: AtomicU64,
    /// When a parked rank wants to run again at the latest, ps; `u64::MAX`: at the next notice.
    pub deadline: AtomicU64,
    /// Bytes plus one of the access to a file that the rank waits for, see [`reason::STORAGE`]; 0: the simulator has
    /// seen it.
    pub accessed: AtomicU64,
    /// Bytes of commands.
    pub commands: AtomicU64,
    /// Bytes of notices.
    pub notices: AtomicU64,
    /// Simulated time outside MPI calls, ps.
    pub compute_ps: AtomicU64,
    /// Of that what had its like before, and so a median, ps.
    pub alike_ps: AtomicU64,
    /// How far it was from its median, up or down, in sum, ps.
    pub spread_ps: AtomicU64,
    /// Simulated time in MPI calls without waiting, ps.
    pub mpi_ps: AtomicU64,
    /// Simulated time of waiting, ps.
    pub wait_ps: AtomicU64,
    /// MPI calls.
    pub calls: AtomicU64,
    /// MPI calls that may block.
    pub blocking_calls: AtomicU64,
    /// Places of `files` in use.
    pub watching: AtomicU32,
    /// Writes to sockets and pipes that the simulator has not looked at; those beyond [`WRITTEN`] have the last place.
    pub writes: AtomicU32,
    /// Descriptors that are waited at.
    pub files: [Watched; WATCHED],
    /// Writes.
    pub written: [Written; WRITTEN],
    /// Threads that were followed or stopped.
    pub followed: [Followed; FOLLOWED],
}

/// Bytes of [`RankHeader`] before `rest`.
const PLACED: usize = 80 + size_of::<Processor>();
const _: () = assert!(std::mem::offset_of!(RankHeader, state) == PAGE);

/// [`RankHeader::mark`]: no number that a program stores everywhere.
pub const MARK: u32 = 0x5ca1_ab1e;

/// The latest time that a rank can say, ps: 53 days. Sums with it do not overflow.
pub const LATEST_PS: u64 = 1 << 62;

/// What the host has decided about the threads of a rank: bits of [`RankHeader::decided`]. Where computing takes no
/// time, results may not repeat then, if several threads call.
pub mod decided {
    /// Several threads have called MPI, or Portals. Without it the others have no effect.
    pub const CALLERS: u32 = 1;
    /// Which thread takes a lock of the program first.
    pub const LOCK: u32 = 1 << 1;
    /// When a thread calls that has computed for so long that the others did not wait for it.
    pub const WORK: u32 = 1 << 2;
    /// How often a thread takes a lock and gives it back until another one has come.
    pub const LOOKS: u32 = 1 << 3;
    /// How often a thread looks at the clock until another one has come.
    pub const CLOCK: u32 = 1 << 4;
    /// How far the simulation is when a thread sleeps, or wants something, for reasons that are not known.
    pub const SLEEP: u32 = 1 << 5;
    /// When a thread calls that was not waited for, because it did not seem to run.
    pub const LATE: u32 = 1 << 6;
    /// Which thread of a Portals program calls first.
    pub const PORTALS: u32 = 1 << 7;
    /// With computing times from a file: how long threads compute that do not call MPI.
    pub const BESIDE: u32 = 1 << 8;
}

/// Bytes of a [`Card`]'s text. MPICH's business cards over our provider take some 90 with their names.
pub const CARD_BYTES: usize = 500;

/// Values of [`Card::state`], which are set one after the other and not taken back.
pub mod card {
    /// A rank writes the text, or has written it.
    pub const TAKEN: u32 = 1;
    /// The text is there.
    pub const THERE: u32 = 2;
    /// It is not the last word: only the launcher knows.
    pub const STALE: u32 = 4;
}

/// What a rank has put for others into the key-value space of its launcher, see [`crate::Mapping::put_card`].
#[repr(C)]
#[derive(Debug)]
pub struct Card {
    /// See [`card`].
    pub state: AtomicU32,
    /// Bytes of the name.
    pub name: AtomicU32,
    /// Bytes of the value, which follows the name.
    pub value: AtomicU32,
    /// Both.
    pub text: UnsafeCell<[u8; CARD_BYTES]>,
}

const fn round_up(bytes: usize, to: usize) -> usize {
    bytes.div_ceil(to) * to
}

/// Offset of the cards, one for each rank side by side: who looks at all of them touches few pages.
pub const CARDS_AT: usize = round_up(size_of::<Header>(), size_of::<Card>());
/// Offset of the first region among so many, in whole pages.
pub const fn first_region(ranks: usize) -> usize {
    round_up(CARDS_AT + ranks * size_of::<Card>(), PAGE)
}
/// Offset of the region of `rank` among so many.
pub const fn region_at(ranks: u32, rank: u32) -> usize {
    first_region(ranks as usize) + rank as usize * REGION_BYTES
}
/// Offset of the commands in a region.
pub const COMMANDS_AT: usize = round_up(size_of::<RankHeader>(), PAGE);
/// Offset of the notices in a region.
pub const NOTICES_AT: usize = COMMANDS_AT + COMMAND_BYTES;
/// Bytes of a region.
pub const REGION_BYTES: usize = NOTICES_AT + NOTICE_BYTES;

/// Bytes of the file for `ranks` ranks.
pub const fn file_bytes(ranks: usize) -> usize {
    first_region(ranks) + ranks * REGION_BYTES
}
