//! The little of ELF that is needed: is it for this machine, and which dynamic linker loads it? Offsets: elf(5).

use crate::foreign::Processor;

/// What kind of file the first bytes show.
#[derive(Debug, PartialEq, Eq)]
pub enum File {
    /// Dynamically linked; the path of its dynamic linker.
    Dynamic(String),
    /// The same for another processor that we know.
    Foreign(&'static Processor, String),
    /// Statically linked.
    Static,
    /// The same for another processor that we know.
    ForeignStatic,
    /// ELF with addresses of 32 bits.
    Narrow,
    /// ELF with the highest byte first.
    BigEndian,
    /// ELF for a processor that we do not know, with its number.
    OtherMachine(u16),
    /// A script; its first line without `#!`.
    Script(String),
    /// Anything else.
    Other,
}

const HEADER: usize = 64;
const PT_INTERP: u32 = 3;
const PT_HEADER: usize = 56;

fn integer<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    integer(bytes, at).map(u16::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<usize> {
    integer(bytes, at).map(u64::from_le_bytes).and_then(|value| usize::try_from(value).ok())
}

/// An entry of the dynamic symbol table.
pub struct Symbol<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Not only wanted.
    pub defined: bool,
    /// Where the entry begins in the file.
    pub entry: usize,
}

const SECTION_HEADER: usize = 64;
const SHT_DYNSYM: u32 = 11;
const SYMBOL: usize = 24;
/// Where the section's index, 16 bits, and the value, 64 bits, are in an entry.
const SYMBOL_SECTION: usize = 6;
const SYMBOL_VALUE: usize = 8;

/// The dynamic symbol table; of a file that has none, or a broken one, nothing.
pub fn dynamic_symbols(bytes: &[u8]) -> impl Iterator<Item = Symbol<'_>> {
    let (start, length, names) = symbol_table(bytes).unwrap_or_default();
    (start..start.saturating_add(length)).step_by(SYMBOL).map_while(move |entry| {
        let name = names.checked_add(integer(bytes, entry).map(u32::from_le_bytes)? as usize)?;
        let name = bytes.get(name..)?.split(|byte| *byte == 0).next()?;
        let defined = u16_at(bytes, entry + SYMBOL_SECTION)? != 0 && u64_at(bytes, entry + SYMBOL_VALUE)? != 0;
        Some(Symbol { name, defined, entry })
    })
}

/// Start and length of the dynamic symbol table, and the start of its names.
fn symbol_table(bytes: &[u8]) -> Option<(usize, usize, usize)> {
    let table = u64_at(bytes, 40)?;
    let section = |index: usize| table.checked_add(index.checked_mul(SECTION_HEADER)?);
    for index in 0..usize::from(u16_at(bytes, 60)?) {
        let header = section(index)?;
        if integer(bytes, header.checked_add(4)?).map(u32::from_le_bytes)? == SHT_DYNSYM {
            let names = section(integer(bytes, header + 40).map(u32::from_le_bytes)? as usize)?;
            return Some((u64_at(bytes, header + 24)?, u64_at(bytes, header + 32)?, u64_at(bytes, names.checked_add(24)?)?));
        }
    }
    None
}

/// Makes an entry of the symbol table one that is only wanted.
pub fn empty_symbol(entry: &mut [u8]) {
    entry[SYMBOL_SECTION..SYMBOL_VALUE + 8].fill(0);
}

/// Looks at the content of a file.
pub fn classify(bytes: &[u8]) -> File {
    if let Some(rest) = bytes.strip_prefix(b"#!") {
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or(rest);
        return File::Script(String::from_utf8_lossy(line).trim().to_owned());
    }
    if bytes.len() < HEADER || !bytes.starts_with(b"\x7fELF") {
        return File::Other;
    }
    match (bytes[4], bytes[5]) {
        (2, 1) => {}
        (1, _) => return File::Narrow,
        _ => return File::BigEndian,
    }
    let machine = u16_at(bytes, 18).unwrap_or(0);
    let Some(processor) = Processor::of(machine) else { return File::OtherMachine(machine) };
    match interpreter(bytes) {
        Some(path) if processor.is_ours() => File::Dynamic(path),
        Some(path) => File::Foreign(processor, path),
        None if processor.is_ours() => File::Static,
        None => File::ForeignStatic,
    }
}

fn interpreter(bytes: &[u8]) -> Option<String> {
    let table = u64_at(bytes, 32)?;
    let size = usize::from(u16_at(bytes, 54)?).max(PT_HEADER);
    for index in 0..usize::from(u16_at(bytes, 56)?) {
        let entry = table.checked_add(index.checked_mul(size)?)?;
        if integer(bytes, entry).map(u32::from_le_bytes)? == PT_INTERP {
            let start = u64_at(bytes, entry + 8)?;
            let text = bytes.get(start..start.checked_add(u64_at(bytes, entry + 32)?)?)?;
            let text = text.split(|byte| *byte == 0).next()?;
            return Some(String::from_utf8_lossy(text).into_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_dynamic() {
        let bytes = std::fs::read(std::env::current_exe().expect("path")).expect("readable");
        match classify(&bytes) {
            File::Dynamic(linker) => assert!(std::path::Path::new(&linker).exists(), "{linker}"),
            other => panic!("{other:?}"),
        }
        // Cut anywhere it is never taken for dynamic, and nothing panics.
        for length in 0..1024 {
            if let File::Dynamic(linker) = classify(&bytes[..length]) {
                assert!(length > 700, "{linker} in {length} bytes");
            }
        }
    }

    #[test]
    fn other_files() {
        assert_eq!(classify(b"#! /usr/bin/env python3 \nimport x"), File::Script("/usr/bin/env python3".to_owned()));
        assert_eq!(classify(b"#!/bin/sh"), File::Script("/bin/sh".to_owned()));
        assert_eq!(classify(b""), File::Other);
        assert_eq!(classify(b"MZ"), File::Other);
        let mut header = [0u8; 64];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(classify(&header), File::OtherMachine(0));
        header[18] = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        assert_eq!(classify(&header), File::Static);
        header[4] = 1;
        assert_eq!(classify(&header), File::Narrow);
        header[4] = 2;
        header[5] = 2;
        assert_eq!(classify(&header), File::BigEndian);
        header[5] = 1;
        header[32..40].fill(0xff); // program headers beyond the end of the address space
        header[56] = 200;
        assert_eq!(classify(&header), File::Static);
    }
    /// A header with one program header, which names the dynamic linker.
    fn dynamic(machine: u16) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        (bytes[32], bytes[54], bytes[56]) = (64, 56, 1);
        bytes[64] = 3; // PT_INTERP
        (bytes[72], bytes[96]) = (128, 16);
        bytes[128..135].copy_from_slice(b"/lib/ld");
        bytes
    }

    #[test]
    fn programs_of_other_processors() {
        let (own, other) = if cfg!(target_arch = "aarch64") { (183, 62) } else { (62, 183) };
        assert_eq!(classify(&dynamic(own)), File::Dynamic(String::from("/lib/ld")));
        let File::Foreign(processor, linker) = classify(&dynamic(other)) else { panic!("{:?}", classify(&dynamic(other))) };
        assert_eq!((processor.machine, linker.as_str()), (other, "/lib/ld"));
        assert_eq!(classify(&dynamic(21)), File::OtherMachine(21));
        let mut header = dynamic(other);
        header[64] = 1;
        assert_eq!(classify(&header), File::ForeignStatic);
    }
}
