//! Handlers from an ELF file.

use crate::decode::{self, Instruction};
use crate::hpu::map;
use object::elf::{EM_RISCV, FileHeader32};
use object::read::elf::{ElfFile32, FileHeader};
use object::{Endianness, Object, ObjectSegment, ObjectSymbol};

/// Header, payload and completion handler.
pub const NAMES: [&str; 3] = ["header_handler", "payload_handler", "completion_handler"];

/// Program memory of PsPIN: 32 KiB.
pub const TEXT_MAX: usize = 32 << 10;

/// Handlers as instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub(crate) text: Vec<u8>,
    pub(crate) code: Vec<Instruction>,
    /// What the context's memory in L2 begins with.
    pub(crate) data: Vec<u8>,
    /// Where each of [`NAMES`] begins, if it is there.
    pub(crate) entries: [Option<u32>; 3],
}

/// Why a file is no handlers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// It is something else.
    #[error("no ELF file of RV32: expected what riscv64-unknown-elf-gcc -march=rv32imac -mabi=ilp32 -nostdlib links")]
    NoElf,
    /// It is one, but broken.
    #[error("the ELF file is broken: {0}")]
    Broken(String),
    /// It was linked for other addresses.
    #[error(
        "a segment of {bytes} bytes at {address:#x}: expected 32 KiB at most at {:#x}, or data at {:#x}; link with -T narrows_spin.ld",
        map::PROGRAM,
        map::HANDLER
    )]
    Segment {
        /// Where.
        address: u64,
        /// How long.
        bytes: u64,
    },
    /// It defines no handler.
    #[error("no handler: expected a function {}, {} or {}", NAMES[0], NAMES[1], NAMES[2])]
    NoHandler,
    /// A handler begins outside of the text.
    #[error("{name} is at {address:#x}, outside of the program")]
    Entry {
        /// Its name.
        name: &'static str,
        /// Where.
        address: u64,
    },
}

impl Program {
    /// Takes the segments and the handlers of a linked ELF file.
    ///
    /// # Errors
    /// It is none, is broken, was linked for other addresses, or has no handler.
    pub fn from_elf(file: &[u8]) -> Result<Program, ProgramError> {
        let broken = |error: object::read::Error| ProgramError::Broken(error.to_string());
        let header = FileHeader32::<Endianness>::parse(file).map_err(|_| ProgramError::NoElf)?;
        if header.endian() != Ok(Endianness::Little) || header.e_machine(Endianness::Little) != EM_RISCV {
            return Err(ProgramError::NoElf);
        }
        let elf = ElfFile32::<Endianness>::parse(file).map_err(broken)?;
        let (mut text, mut data) = (Vec::new(), Vec::new());
        for segment in elf.segments() {
            let (address, bytes) = (segment.address(), segment.size());
            let wrong = ProgramError::Segment { address, bytes };
            let (memory, from, most) = match address as u32 & 0xfff0_0000 {
                map::PROGRAM => (&mut text, map::PROGRAM, TEXT_MAX),
                map::HANDLER => (&mut data, map::HANDLER, DATA_MAX),
                _ if bytes == 0 => continue,
                _ => return Err(wrong),
            };
            let from = (address - u64::from(from)) as usize;
            let end =
                usize::try_from(bytes).ok().and_then(|bytes| from.checked_add(bytes)).filter(|end| *end <= most).ok_or(wrong.clone())?;
            let content = segment.data().map_err(broken)?;
            if content.len() > end - from {
                return Err(wrong);
            }
            memory.resize(memory.len().max(end), 0);
            memory[from..from + content.len()].copy_from_slice(content);
        }
        let mut entries = [None; 3];
        for symbol in elf.symbols().filter(|symbol| symbol.is_definition()) {
            let Some(which) = symbol.name().ok().and_then(|found| NAMES.iter().position(|name| *name == found)) else { continue };
            let address = symbol.address();
            let inside = address.checked_sub(map::PROGRAM.into()).is_some_and(|place| place < text.len() as u64);
            if !inside || address & 1 != 0 {
                return Err(ProgramError::Entry { name: NAMES[which], address });
            }
            entries[which] = Some(address as u32);
        }
        if entries == [None; 3] {
            return Err(ProgramError::NoHandler);
        }
        Ok(Program { code: decode::program(&text), text, data, entries })
    }

    /// A program of instructions alone, whose payload handler is the first of them.
    pub fn from_text(text: &[u8]) -> Program {
        let text = text[..text.len().min(TEXT_MAX)].to_vec();
        Program { code: decode::program(&text), text, data: Vec::new(), entries: [None, Some(map::PROGRAM), None] }
    }
}

/// Most of a context's memory that a program may fill at its start: what one page of the map shows.
const DATA_MAX: usize = 1 << 20;
