//! Any bytes as an ELF file of handlers, and as their instructions: refused, or run until each packet is free again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_spin::{Handlers, Load, Program, SpinConfig};
use narrows_units::Bytes;

fuzz_target!(|bytes: &[u8]| {
    let config = SpinConfig { budget: 5_000, ..SpinConfig::preset("pspin-asic").expect("a preset") };
    let small = SpinConfig { clusters: 2, l2_packets: Bytes(64 << 10), ..config };
    let load = Load { packets: 4, messages: 2, ..Load::new(Bytes(256)) };
    for program in [Program::from_elf(bytes).ok(), Some(Program::from_text(bytes))].into_iter().flatten() {
        let outcome = load.run(&small, &Handlers::Program(program), || true).expect("there is room");
        assert_eq!(outcome.packets.len(), 4, "all packets are freed");
    }
});
