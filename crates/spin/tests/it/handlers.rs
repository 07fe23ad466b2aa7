//! Handlers as programs, beside PsPIN's hardware description run cycle by cycle with its makers' handlers.

use super::{compile, program};
use narrows_portals::runs::Run;
use narrows_spin::{CommandKind, Cost, Handlers, Layout, Load, Outcome, Program, SpinConfig, SpinError};
use narrows_units::{ByteRate, Bytes, SimTime};
use std::sync::Arc;

fn asic(clusters: u32, hpus: u32) -> SpinConfig {
    SpinConfig { clusters, hpus, ..SpinConfig::preset("pspin-asic").unwrap() }
}

fn run(load: &Load, config: &SpinConfig, handlers: &Handlers) -> Outcome {
    let outcome = load.run(config, handlers, || true).unwrap();
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.packets.len() as u64, load.packets);
    outcome
}

/// Cycles of a handler for the second of two packets that come one after the other: the first brings the program.
fn warm(handlers: &Handlers, bytes: u64) -> u64 {
    let load = Load { packets: 2, messages: 1, rate: Some(ByteRate(10_000_000)), ..Load::new(Bytes(bytes)) };
    run(&load, &asic(1, 1), handlers).cycles[1]
}

/// Gbit/s on one cluster or four.
fn gbps(handlers: &Handlers, hpus: u32, bytes: u64) -> f64 {
    let config = if hpus <= 8 { asic(1, hpus) } else { asic(hpus / 8, 8) };
    let packets = if bytes > 512 { 512 } else { 2048 };
    run(&Load { packets, ..Load::new(Bytes(bytes)) }, &config, handlers).throughput() / 1e9
}

#[test]
fn cycles_of_warm_handlers_beside_the_published_ones() {
    // Ours, and those of the makers' handlers: fixed, and for each word of the payload. The fixed part of ours is less
    // where the makers' calls read descriptors that ours have in the task: commands by a third, filtering's key too.
    // Our histogram takes each value modulo the number of its counters, which is two cycles with its hazard.
    let table = [
        ("empty", 9, 0, 9, 0),
        ("host_write", 21, 0, 25, 0),
        ("copy_to_host", 20, 0, 23, 0),
        ("ping_pong", 25, 0, 35, 0),
        ("filtering", 102, 0, 138, 0),
        ("aggregate", 20, 6, 30, 6),
        ("reduce", 17, 8, 25, 8),
        ("histogram", 20, 10, 23, 8),
    ];
    for (name, fixed, word, published_fixed, published_word) in table {
        let handlers = program(name);
        for bytes in [64, 1024] {
            let words = (bytes - 28) / 4;
            let (cycles, published) = (warm(&handlers, bytes), published_fixed + words * published_word);
            println!("{name}, {bytes} B: {cycles} cycles, published {published}");
            assert_eq!(cycles, fixed + words * word, "{name}, {bytes} B");
        }
    }
    let from_host = program("copy_from_host");
    for bytes in [64, 1024] {
        println!("copy_from_host, {bytes} B: {} cycles, published {}", warm(&from_host, bytes), 64 + bytes / 64);
        assert_eq!(warm(&from_host, bytes), 44 + bytes / 64);
    }
}

#[test]
fn the_first_call_brings_its_lines() {
    for (name, more) in [("empty", 16), ("filtering", 160)] {
        let load = Load { packets: 2, messages: 1, rate: Some(ByteRate(10_000_000)), ..Load::new(Bytes(64)) };
        let cycles = run(&load, &asic(1, 1), &program(name)).cycles;
        assert_eq!(cycles[0] - cycles[1], more, "{name}: published 16 and 123");
    }
}

#[test]
fn stages_without_load() {
    // To the request 4 + s/64, from there to the feedback 26 + s/64 with an empty handler that is warm.
    let empty = program("empty");
    for bytes in [64, 256, 1024, 2048] {
        let load = Load { packets: 2, messages: 1, rate: Some(ByteRate(10_000_000)), ..Load::new(Bytes(bytes)) };
        let (arrived, freed) = run(&load, &asic(1, 1), &empty).packets[1];
        let beats = bytes / 64;
        assert_eq!(freed - arrived, SimTime::from_ns(4 + beats + 26 + beats), "{bytes} B");
    }
}

#[test]
fn throughput_beside_the_published_one() {
    // Handler, HPUs, bytes, Gbit/s published, and how far ours may be from it (per cent). Empty and copies are within
    // a few per cent where the machine limits them; where the HPUs do, handlers with fewer cycles are faster.
    let table = [
        ("empty", 8, 64, 256.0, 1.0),
        ("empty", 8, 128, 406.0, 1.0),
        ("empty", 8, 256, 512.0, 1.0),
        ("empty", 32, 64, 512.0, 1.0),
        ("copy_to_host", 1, 64, 20.5, 15.0),
        ("copy_to_host", 1, 1024, 228.0, 6.0),
        ("copy_to_host", 8, 128, 323.0, 16.0),
        ("copy_to_host", 8, 256, 512.0, 1.0),
        ("ping_pong", 8, 64, 104.0, 11.0),
        ("ping_pong", 8, 256, 288.0, 2.0),
        ("ping_pong", 8, 1024, 512.0, 1.0),
        ("copy_from_host", 8, 1024, 263.0, 3.0),
        ("filtering", 8, 64, 32.0, 24.0),
        ("filtering", 8, 512, 240.0, 32.0),
        ("aggregate", 8, 1024, 43.0, 1.0),
        ("reduce", 8, 1024, 32.0, 2.0),
        ("histogram", 8, 1024, 32.0, 20.0),
    ];
    for (name, hpus, bytes, published, tolerance) in table {
        let ours = gbps(&program(name), hpus, bytes);
        println!("{name}, {hpus} HPUs, {bytes} B: {ours:.1} Gbit/s, published {published}");
        assert!((ours / published - 1.0).abs() * 100.0 <= tolerance, "{name}, {hpus} HPUs, {bytes} B: {ours:.1}, published {published}");
    }
    for (block, published, tolerance) in [("32", 114.0, 5.0), ("128", 453.0, 2.0), ("256", 512.0, 1.0)] {
        let strided = Handlers::Program(compile("strided", &[&format!("-DBLOCK={block}")]));
        let ours = gbps(&strided, 8, 1024);
        println!("strided, 8 HPUs, blocks of {block} B: {ours:.1} Gbit/s, published {published}");
        assert!((ours / published - 1.0).abs() * 100.0 <= tolerance, "blocks of {block} B: {ours:.1}, published {published}");
    }
}

#[test]
fn reads_over_a_slow_bus_are_two_at_a_time() {
    let load = Load { packets: 256, bus: SimTime::from_ns(500), ..Load::new(Bytes(1024)) };
    let ours = run(&load, &asic(1, 8), &program("copy_from_host")).throughput() / 1e9;
    // 2 x 8192 bits in 500 + 15 + 16 ns; published 34.
    assert!((30.0..34.0).contains(&ours), "{ours}");
}

#[test]
fn a_function_agrees_with_the_program_that_it_was_fitted_to() {
    for (name, cost) in Cost::FITTED {
        let (handlers, cost) = (program(name), Handlers::Cost(cost));
        for bytes in [64, 1024] {
            assert_eq!(warm(&cost, bytes), warm(&handlers, bytes), "{name}, {bytes} B");
            let (program, function) = (gbps(&handlers, 8, bytes), gbps(&cost, 8, bytes));
            assert!((function / program - 1.0).abs() < 0.05, "{name}, {bytes} B: {program:.1} and {function:.1} Gbit/s");
        }
    }
}

/// Runs of a layout, as `unpack.c` has them.
fn unpacking(runs: &[Run], extent: i64) -> (Handlers, Handlers) {
    let mut start = 0;
    let texts = runs.iter().map(|run| {
        let text = format!("{{{start}u,{}u,{}u,{}u,{}u}}", run.place, run.bytes, run.count, run.stride);
        start += run.bytes * run.count;
        text
    });
    let runs_text = texts.collect::<Vec<_>>().join(",");
    let options = [format!("-DRUNS={runs_text}"), format!("-DSIZE={start}u"), format!("-DEXTENT={extent}u")];
    let program = compile("unpack", &[&options[0], &options[1], &options[2]]);
    (Handlers::Program(program), Handlers::Unpack(Arc::new(Layout::new(runs.to_vec(), extent).unwrap())))
}

#[test]
fn datatypes_take_as_long_as_the_program_that_unpacks_them() {
    let vector = |bytes: u64, count: u64| vec![Run { place: 0, bytes, count, stride: 2 * bytes as i64 }];
    let planes = |count: i64| (0..count).map(|plane| Run { place: plane * 4096, bytes: 64, count: 8, stride: 256 }).collect::<Vec<_>>();
    let types = [
        (vector(8, 1 << 20), 16 << 20),
        (vector(64, 1 << 10), 128 << 10),
        (vector(256, 16), 8192),
        (vector(1024, 1 << 10), 2 << 20),
        (planes(2), 8192),
        (planes(64), 64 * 4096),
        ((0..500).map(|at| Run { place: at * 100, bytes: 4 + 4 * (at as u64 % 7), count: 1, stride: 0 }).collect(), 50_000),
    ];
    for (runs, extent) in types {
        let (program, function) = unpacking(&runs, extent);
        for bytes in [64, 512, 2048] {
            let (wanted, ours) = (warm(&program, bytes) as f64, warm(&function, bytes) as f64);
            println!("{} runs of {} x {} B, packets of {bytes} B: {wanted} and {ours} cycles", runs.len(), runs[0].count, runs[0].bytes);
            assert!((ours / wanted - 1.0).abs() < 0.05, "{runs:?}, {bytes} B: {wanted} and {ours} cycles");
        }
    }
}

#[test]
fn what_handlers_compute_arrives() {
    let reads = run(&Load { packets: 8, ..Load::new(Bytes(64)) }, &asic(4, 8), &program("copy_from_host"));
    assert_eq!(reads.commands[CommandKind::Read as usize], 8);
    assert_eq!(reads.commands[CommandKind::Send as usize], 8);
    let filter = run(&Load { packets: 8, ..Load::new(Bytes(64)) }, &asic(4, 8), &program("filtering"));
    assert_eq!(filter.passed, 0, "contents are random: no flow was seen before");
}

#[test]
fn a_load_can_be_interrupted_and_a_function_keeps_to_the_budget() {
    let cost = |fixed| Handlers::Cost(Cost { fixed, ..Cost::FITTED[0].1 });
    let asked = std::cell::Cell::new(0);
    let a_while = || asked.replace(asked.get() + 1) < 100;
    let load = Load::new(Bytes(64));
    assert_eq!(load.run(&asic(1, 1), &cost(9), a_while), Err(SpinError::Interrupted));
    assert_eq!(asked.get(), 101, "it stopped at once");
    let config = SpinConfig { budget: 1000, ..asic(1, 1) };
    assert!(load.run(&config, &cost(1000), || true).is_ok());
    let refused = load.run(&config, &cost(1001), || true);
    assert_eq!(refused, Err(SpinError::Budget { cycles: 1001, packet: Bytes(2048), budget: 1000 }));
}

#[test]
fn two_runs_are_the_same() {
    let load = Load { packets: 300, messages: 7, ..Load::new(Bytes(300)) };
    let aggregate = program("aggregate");
    assert_eq!(run(&load, &asic(4, 8), &aggregate), run(&load, &asic(4, 8), &aggregate));
}

#[test]
fn files_that_are_no_handlers_are_refused_with_what_would_be_right() {
    let error = Program::from_elf(b"not an ELF file").unwrap_err().to_string();
    assert!(error.contains("riscv64-unknown-elf-gcc"), "{error}");
}
