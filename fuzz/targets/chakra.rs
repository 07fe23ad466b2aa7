//! Any bytes as the two files of a Chakra trace (cut at the first two zeros): refused with a place, or read and run on
//! the ideal machine.
#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_output::Meter;
use narrows_trace::{TraceError, chakra, ideal};
use std::io::{BufRead, Cursor};
use std::path::PathBuf;

fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.windows(2).position(|pair| pair == [0, 0]).unwrap_or(bytes.len());
    let files = [bytes[..cut].to_vec(), bytes.get(cut + 1..).unwrap_or_default().to_vec()];
    let mut open = |rank: u32| -> Result<(PathBuf, Box<dyn BufRead>), TraceError> {
        Ok((PathBuf::from(format!("fuzz.{rank}.et")), Box::new(Cursor::new(files[rank as usize].clone()))))
    };
    let read = chakra::read_ranks(2, 1e9, &mut open, &mut |_| Ok(()), &Meter::default());
    if let Ok(mut program) = read {
        let _ = ideal::run(&mut program, &mut ideal::Nobody);
    }
});
