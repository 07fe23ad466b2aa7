//! Any bytes as the file that `narrows run` is to start, and as a quantity of a machine file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_units::{ByteRate, Bytes, SimTime};

fuzz_target!(|bytes: &[u8]| {
    let _ = narrows_launch::classify(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(size) = text.parse::<Bytes>() {
            assert_eq!(size.to_string().parse(), Ok(size), "what is printed reads back");
        }
        let _ = text.parse::<SimTime>();
        let _ = text.parse::<ByteRate>();
    }
});
