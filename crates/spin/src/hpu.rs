//! A handler processing unit: runs a handler's instructions with the cycles of a RI5CY core.

use crate::decode::{Instruction, Op};

/// Where a handler finds what: its context and its packet, and nothing of others.
pub mod map {
    /// The packet's copy in L1.
    pub const PACKET: u32 = 0x1000_0000;
    /// The stack of the HPU; it begins at its end.
    pub const STACK: u32 = 0x1010_0000;
    /// What the handler is told ([`super::Told`]).
    pub const TASK: u32 = 0x1020_0000;
    /// The context's scratchpad of cluster 0; those of others follow, [`SCRATCHPAD_STEP`] apart.
    pub const SCRATCHPAD: u32 = 0x1100_0000;
    /// From one cluster's scratchpad to the next.
    pub const SCRATCHPAD_STEP: u32 = 0x0010_0000;
    /// Registers of the HPU ([`super::device`]).
    pub const DEVICE: u32 = 0x1b00_0000;
    /// The context's memory in L2.
    pub const HANDLER: u32 = 0x1c00_0000;
    /// The program's text and constants.
    pub const PROGRAM: u32 = 0x1d00_0000;
}

/// Registers at [`map::DEVICE`]: the operands of a command, and what starts it; `include/narrows_spin.h` uses them.
pub mod device {
    /// The first of five operands: a place in the context (the source of a send or a write, the target of a read); the
    /// two halves of one in the host's window (of a copy, the source); bytes, or the low half of a direct write's data;
    /// their high half.
    pub const LOCAL: u32 = 0x00;
    /// The last of them.
    pub const DATA_HIGH: u32 = 0x10;
    /// Starts the command of this number ([`crate::CommandKind`]).
    pub const START: u32 = 0x20;
    /// Waits for the command of this id.
    pub const WAIT: u32 = 0x24;
    /// Lets the packet go on to the host.
    pub const PASS: u32 = 0x28;
    /// Reads the id of the last command.
    pub const LAST: u32 = 0x2c;
    /// Reads the low 32 bits of the cycle counter.
    pub const CYCLE: u32 = 0x30;
}

/// Words at [`map::TASK`], in this order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told(pub [u32; 16]);

/// Why a handler was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not in RV32IMAC.
    #[error("no instruction of RV32IMAC")]
    Illegal,
    /// Execution left the program.
    #[error("jumped to {0:#010x}, outside of the program")]
    Fetch(u32),
    /// Read where its context has nothing.
    #[error("read {0:#010x}, outside of its context")]
    Read(u32),
    /// Wrote where its context has nothing to write to.
    #[error("wrote to {0:#010x}, outside of its context")]
    Write(u32),
    /// An atomic operation at an address that is no multiple of four.
    #[error("atomic operation at {0:#010x}, no multiple of 4")]
    Misaligned(u32),
    /// It took all cycles that it may.
    #[error("ran for longer than its budget of cycles")]
    Budget,
    /// A command that there is not, or with operands out of range.
    #[error("command {kind} with {bytes} bytes at {local:#010x}: not within its context")]
    Command {
        /// The number written to `START`.
        kind: u32,
        /// Where in the context.
        local: u32,
        /// How many.
        bytes: u32,
    },
}

/// Why an HPU gives up control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Before an access that others may see, later than the horizon.
    Shared,
    /// It starts the command of this number.
    Start(u32),
    /// It waits for the command of this id.
    Wait(u32),
    /// The handler has returned.
    Done,
    /// The handler is wrong.
    Fault(Fault),
}

/// Cycles of RI5CY in PsPIN, from its hardware description: docs/spin.md. The manual is that of RI5CY's successor
/// (docs.openhwgroup.org, CV32E40P), "Pipeline details".
mod cycles {
    pub const BRANCH_TAKEN: u64 = 3;
    /// The manual.
    pub const JUMP: u64 = 2;
    /// The instruction behind a load waits for what it loads: the manual, "Hazards".
    pub const HAZARD: u64 = 1;
    pub const MULTIPLY_HIGH: u64 = 5;
    /// L2, blocking.
    pub const L2: u64 = 21;
    pub const L2_ATOMIC: u64 = 27;
    /// A line of the instruction cache comes from L2.
    pub const LINE: u64 = 16;
    /// The second access of a misaligned one: the manual.
    pub const MISALIGNED: u64 = 1;

    /// The serial divider: two cycles beside one for each bit of the dividend.
    pub fn division(dividend: u32) -> u64 {
        2 + u64::from(32 - dividend.leading_zeros()).max(1)
    }
}

/// A cluster's instruction cache: 4 KiB in four ways of lines of 16 bytes.
#[derive(Clone, Debug)]
pub struct Cache {
    sets: Vec<([u32; 4], u8)>,
}

impl Cache {
    /// Nothing is in it.
    pub fn new() -> Cache {
        Cache { sets: vec![([u32::MAX; 4], 0); 64] }
    }

    /// Whether the line was there; it is from now on, in place of the one that came first.
    fn fetch(&mut self, line: u32) -> bool {
        let (ways, next) = &mut self.sets[line as usize % 64];
        let found = ways.contains(&line);
        if !found {
            ways[usize::from(*next)] = line;
            *next = (*next + 1) % 4;
        }
        found
    }
}

/// The memory that a running handler reaches.
pub struct Memory<'a> {
    /// The packet in L1.
    pub packet: &'a mut [u8],
    /// The HPU's stack.
    pub stack: &'a mut [u8],
    /// The context's scratchpads of all clusters, each `scratchpad` long.
    pub scratchpads: &'a mut [u8],
    /// Length of one of them.
    pub scratchpad: usize,
    /// The cluster of this HPU.
    pub cluster: usize,
    /// The context's memory in L2.
    pub handler: &'a mut [u8],
    /// The program.
    pub text: &'a [u8],
    /// The same, decoded.
    pub code: &'a [Instruction],
}

/// What an access costs, and whether others may see it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Distance {
    Own,
    Cluster,
    L2,
}

impl Memory<'_> {
    /// What may be written, with its distance.
    fn writable(&mut self, address: u32, bytes: usize) -> Option<(&mut [u8], Distance)> {
        let low = (address & 0xf_ffff) as usize;
        let (memory, from, distance) = match address >> 20 {
            0x100 => (&mut *self.packet, low, Distance::Own),
            0x101 => (&mut *self.stack, low, Distance::Own),
            page @ 0x110..0x120 => {
                let cluster = (page - 0x110) as usize;
                if low + bytes > self.scratchpad {
                    return None;
                }
                let distance = if cluster == self.cluster { Distance::Cluster } else { Distance::L2 };
                (&mut *self.scratchpads, cluster * self.scratchpad + low, distance)
            }
            0x1c0..0x1d0 => (&mut *self.handler, (address - map::HANDLER) as usize, Distance::L2),
            _ => return None,
        };
        memory.get_mut(from..from + bytes).map(|memory| (memory, distance))
    }

    /// The bytes at an address, if all of them belong to the context and may be written.
    pub fn range(&mut self, address: u32, bytes: u32) -> Option<&mut [u8]> {
        self.writable(address, bytes as usize).map(|(memory, _)| memory)
    }
}

/// An HPU: its registers, and how far it is.
#[derive(Clone, Debug)]
pub struct Hpu {
    registers: [u32; 64],
    pc: u32,
    /// The cycle up to which it has run.
    pub time: u64,
    /// When the handler has had too many.
    deadline: u64,
    line: u32,
    /// What the last instruction loaded; 0: nothing.
    loaded: u8,
    reserved: Option<(u32, u32)>,
    /// Operands of the next command.
    pub operands: [u32; 5],
    /// The id of the last command.
    pub last: u32,
    /// The handler lets the packet go on.
    pub pass: bool,
    told: Told,
    /// Instructions since the machine began.
    pub instructions: u64,
}

impl Hpu {
    /// It has nothing to do.
    pub fn new() -> Hpu {
        let (registers, told) = ([0; 64], Told::default());
        let idle = Hpu {
            registers,
            pc: 0,
            time: 0,
            deadline: 0,
            line: 0,
            loaded: 0,
            reserved: None,
            operands: [0; 5],
            last: 0,
            pass: false,
            told,
            instructions: 0,
        };
        Hpu { line: u32::MAX, ..idle }
    }

    /// Begins a handler at `entry`, which may run until `deadline`.
    pub fn call(&mut self, entry: u32, told: Told, stack: u32, time: u64, deadline: u64) {
        self.registers = [0; 64];
        self.registers[2] = map::STACK + stack;
        self.registers[10] = map::TASK;
        (self.pc, self.time, self.deadline, self.told) = (entry, time, deadline, told);
        (self.line, self.loaded, self.reserved, self.pass) = (u32::MAX, 0, None, false);
    }

    /// Where it is.
    pub fn pc(&self) -> u32 {
        self.pc
    }

    /// Runs until it needs the machine. What others may see happens before `horizon`, or not in this call.
    pub fn run(&mut self, memory: &mut Memory, cache: &mut Cache, horizon: u64) -> Stop {
        use Op::*;
        loop {
            // The return address of a handler is 0.
            if self.pc == 0 {
                return Stop::Done;
            }
            let Some(&instruction) = memory.code.get((self.pc.wrapping_sub(map::PROGRAM) >> 1) as usize) else {
                return Stop::Fault(Fault::Fetch(self.pc));
            };
            if self.pc >> 4 != self.line {
                self.line = self.pc >> 4;
                if !cache.fetch(self.line) {
                    self.time += cycles::LINE;
                }
            }
            if self.time >= self.deadline {
                return Stop::Fault(Fault::Budget);
            }
            let Instruction { op, rd, rs1, rs2, imm, bytes } = instruction;
            let a = self.registers[usize::from(rs1 & 63)];
            let b = self.registers[usize::from(rs2 & 63)];
            let mut next = self.pc.wrapping_add(bytes.into());
            let mut cost = 1;
            let mut loaded = 0;
            let hazard = if self.loaded != 0 && (rs1 == self.loaded || rs2 == self.loaded) { cycles::HAZARD } else { 0 };
            let mut branch = |taken: bool| {
                if taken {
                    next = self.pc.wrapping_add(imm as u32);
                    cost = cycles::BRANCH_TAKEN;
                }
                None
            };
            let result = match op {
                Lui => Some(imm as u32),
                Auipc => Some(self.pc.wrapping_add(imm as u32)),
                Jal | Jalr => {
                    let link = next;
                    next = if op == Jal { self.pc.wrapping_add(imm as u32) } else { a.wrapping_add(imm as u32) & !1 };
                    cost = cycles::JUMP;
                    Some(link)
                }
                Beq => branch(a == b),
                Bne => branch(a != b),
                Blt => branch((a as i32) < b as i32),
                Bge => branch(a as i32 >= b as i32),
                Bltu => branch(a < b),
                Bgeu => branch(a >= b),
                Lb | Lh | Lw | Lbu | Lhu => match self.load(memory, op, a.wrapping_add(imm as u32), horizon) {
                    Ok((value, took)) => {
                        (cost, loaded) = (took, rd);
                        Some(value)
                    }
                    Err(stop) => return stop,
                },
                Sb | Sh | Sw => match self.store(memory, op, a.wrapping_add(imm as u32), b, horizon) {
                    Ok(took) => {
                        cost = took;
                        None
                    }
                    // The machine does the rest; the handler goes on behind the store.
                    Err(stop @ (Stop::Start(_) | Stop::Wait(_))) => {
                        self.time += 1 + hazard;
                        self.pc = next;
                        self.loaded = 0;
                        self.instructions += 1;
                        return stop;
                    }
                    Err(stop) => return stop,
                },
                Addi => Some(a.wrapping_add(imm as u32)),
                Slti => Some(u32::from((a as i32) < imm)),
                Sltiu => Some(u32::from(a < imm as u32)),
                Xori => Some(a ^ imm as u32),
                Ori => Some(a | imm as u32),
                Andi => Some(a & imm as u32),
                Slli => Some(a << (imm & 31)),
                Srli => Some(a >> (imm & 31)),
                Srai => Some((a as i32 >> (imm & 31)) as u32),
                Add => Some(a.wrapping_add(b)),
                Sub => Some(a.wrapping_sub(b)),
                Sll => Some(a << (b & 31)),
                Slt => Some(u32::from((a as i32) < b as i32)),
                Sltu => Some(u32::from(a < b)),
                Xor => Some(a ^ b),
                Srl => Some(a >> (b & 31)),
                Sra => Some((a as i32 >> (b & 31)) as u32),
                Or => Some(a | b),
                And => Some(a & b),
                Mul => Some(a.wrapping_mul(b)),
                Mulh | Mulhsu | Mulhu => {
                    cost = cycles::MULTIPLY_HIGH;
                    let (a, b) = match op {
                        Mulh => (i64::from(a as i32), i64::from(b as i32)),
                        Mulhsu => (i64::from(a as i32), i64::from(b)),
                        _ => (i64::from(a), i64::from(b)),
                    };
                    Some((a.wrapping_mul(b) as u64 >> 32) as u32)
                }
                Div | Divu | Rem | Remu => {
                    let sign = matches!(op, Div | Rem);
                    cost = cycles::division(if sign { (a as i32).unsigned_abs() } else { a });
                    Some(divide(op, a, b))
                }
                Lr | Sc | Swap | AmoAdd | AmoXor | AmoAnd | AmoOr | Min | Max | Minu | Maxu => match self.atomic(memory, op, a, b, horizon)
                {
                    Ok((value, took)) => {
                        (cost, loaded) = (took, rd);
                        Some(value)
                    }
                    Err(stop) => return stop,
                },
                Fence => None,
                Illegal => return Stop::Fault(Fault::Illegal),
            };
            if let Some(value) = result {
                self.registers[usize::from(rd & 63)] = value;
            }
            self.pc = next;
            self.loaded = loaded;
            self.time += cost + hazard;
            self.instructions += 1;
        }
    }

    #[inline]
    fn load(&self, memory: &mut Memory, op: Op, address: u32, horizon: u64) -> Result<(u32, u64), Stop> {
        let bytes = match op {
            Op::Lb | Op::Lbu => 1,
            Op::Lh | Op::Lhu => 2,
            _ => 4,
        };
        let (value, cost) = match memory.writable(address, bytes) {
            Some((place, distance)) => {
                let cost = self.cost(address, bytes, distance, cycles::L2, horizon)?;
                (little(place), cost)
            }
            None => self.read_only(memory, address, bytes).ok_or(Stop::Fault(Fault::Read(address)))?,
        };
        let value = match op {
            Op::Lb => value as i8 as u32,
            Op::Lh => value as i16 as u32,
            _ => value,
        };
        Ok((value, cost))
    }

    #[inline]
    fn cost(&self, address: u32, bytes: usize, distance: Distance, far: u64, horizon: u64) -> Result<u64, Stop> {
        if distance != Distance::Own && self.time >= horizon {
            return Err(Stop::Shared);
        }
        let misaligned = if address as usize & (bytes - 1) == 0 { 0 } else { cycles::MISALIGNED };
        Ok(misaligned + if distance == Distance::L2 { far } else { 1 })
    }

    /// What cannot be written: the task, the program, registers.
    #[cold]
    #[inline(never)]
    fn read_only(&self, memory: &Memory, address: u32, bytes: usize) -> Option<(u32, u64)> {
        match address >> 20 {
            0x102 => {
                let told = self.told.0.map(u32::to_le_bytes);
                let from = (address - map::TASK) as usize;
                told.as_flattened().get(from..from + bytes).map(|place| (little(place), 1))
            }
            0x1d0 => {
                let from = (address - map::PROGRAM) as usize;
                memory.text.get(from..from + bytes).map(|place| (little(place), cycles::L2))
            }
            0x1b0 if bytes == 4 => match address - map::DEVICE {
                device::LAST => Some((self.last, 1)),
                device::CYCLE => Some((self.time as u32, 1)),
                _ => None,
            },
            _ => None,
        }
    }

    #[inline]
    fn store(&mut self, memory: &mut Memory, op: Op, address: u32, value: u32, horizon: u64) -> Result<u64, Stop> {
        let bytes = match op {
            Op::Sb => 1,
            Op::Sh => 2,
            _ => 4,
        };
        match memory.writable(address, bytes) {
            Some((place, distance)) => {
                let cost = self.cost(address, bytes, distance, cycles::L2, horizon)?;
                place.copy_from_slice(&value.to_le_bytes()[..bytes]);
                Ok(cost)
            }
            None => self.register(address, value, bytes),
        }
    }

    fn register(&mut self, address: u32, value: u32, bytes: usize) -> Result<u64, Stop> {
        let wrong = Err(Stop::Fault(Fault::Write(address)));
        if address >> 20 != 0x1b0 || bytes != 4 {
            return wrong;
        }
        match address - map::DEVICE {
            device::START => return Err(Stop::Start(value)),
            device::WAIT => return Err(Stop::Wait(value)),
            device::PASS => self.pass = true,
            place @ device::LOCAL..=device::DATA_HIGH if place & 3 == 0 => self.operands[place as usize / 4] = value,
            _ => return wrong,
        }
        Ok(1)
    }

    fn atomic(&mut self, memory: &mut Memory, op: Op, address: u32, b: u32, horizon: u64) -> Result<(u32, u64), Stop> {
        if address & 3 != 0 {
            return Err(Stop::Fault(Fault::Misaligned(address)));
        }
        let (place, distance) = memory.writable(address, 4).ok_or(Stop::Fault(Fault::Write(address)))?;
        let cost = self.cost(address, 4, distance, cycles::L2_ATOMIC, horizon)?;
        let old = little(place);
        let new = match op {
            Op::Lr => {
                self.reserved = Some((address, old));
                return Ok((old, cost));
            }
            // It succeeds if the word is what it was: nobody can tell.
            Op::Sc if self.reserved.take() == Some((address, old)) => b,
            Op::Sc => return Ok((1, cost)),
            Op::Swap => b,
            Op::AmoAdd => old.wrapping_add(b),
            Op::AmoXor => old ^ b,
            Op::AmoAnd => old & b,
            Op::AmoOr => old | b,
            Op::Min => (old as i32).min(b as i32) as u32,
            Op::Max => (old as i32).max(b as i32) as u32,
            Op::Minu => old.min(b),
            _ => old.max(b),
        };
        place.copy_from_slice(&new.to_le_bytes());
        Ok((if op == Op::Sc { 0 } else { old }, cost))
    }
}

/// As the instruction set has it for zero and overflow too.
fn divide(op: Op, a: u32, b: u32) -> u32 {
    let (x, y) = (a as i32, b as i32);
    match op {
        Op::Div if b == 0 => u32::MAX,
        Op::Div => x.wrapping_div(y) as u32,
        Op::Divu => a.checked_div(b).unwrap_or(u32::MAX),
        Op::Rem if b == 0 => a,
        Op::Rem => x.wrapping_rem(y) as u32,
        _ => a.checked_rem(b).unwrap_or(a),
    }
}

/// Up to four bytes as a number.
#[inline]
fn little(bytes: &[u8]) -> u32 {
    match *bytes {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a] => a.into(),
        _ => 0,
    }
}
