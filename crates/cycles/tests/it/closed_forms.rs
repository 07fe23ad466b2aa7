//! Programs whose cycles a sum gives.

use narrows_cycles::{Block, Class, Core, End, Instruction, Known, LEVELS, Level, NAMES, Pages, Running, UNIT, cycles_of, preset};
use std::sync::atomic::Ordering::Relaxed;

fn core(name: &str) -> Core {
    preset(name).expect("a preset")
}

fn adds(number: usize, chained: bool) -> Vec<Instruction> {
    let add = |to: u32| Instruction::of(Class::Integer).reads(if chained { 1 } else { 30 }).writes(if chained { 1 } else { to });
    (0..number as u32).map(|at| add(at % 16)).collect()
}

#[test]
fn additions_take_their_number_over_the_width() {
    // Units of integers: two of three slots of an A72 (I0, I1), and all of the others'.
    for (name, a_cycle) in [("cortex-a53", 2), ("u740", 2), ("cva6", 1), ("cortex-a72", 2), ("skylake", 4), ("zen2", 4)] {
        assert_eq!(cycles_of(&core(name), &adds(60, false)), 60 * UNIT / a_cycle, "{name}");
    }
}

#[test]
fn a_chain_takes_the_sum_of_its_latencies() {
    for name in NAMES {
        let core = core(name);
        assert_eq!(cycles_of(&core, &adds(60, true)), 60 * UNIT, "{name}");
        let fused = Instruction::of(Class::FpFused).reads(40).reads(41).writes(40);
        assert_eq!(cycles_of(&core, &[fused; 4]), 4 * u64::from(core.cost(Class::FpFused).latency), "{name}");
        let divide = Instruction::of(Class::FpDivide).reads(40).writes(42);
        assert_eq!(cycles_of(&core, &[divide; 4]), 4 * u64::from(core.cost(Class::FpDivide).interval), "{name}");
    }
}

#[test]
fn only_a_core_in_order_waits_for_what_others_could_do_meanwhile() {
    // A load, its use, and 20 additions of something else: 22 slots, and a wait for the load in order.
    let mut block = vec![Instruction::of(Class::Load).at(9).writes(10), Instruction::of(Class::Integer).reads(10).writes(11)];
    block.extend(adds(6, false));
    assert_eq!(cycles_of(&core("cva6"), &block), (8 + 2) * UNIT);
    // Two integers a cycle.
    assert_eq!(cycles_of(&core("cortex-a72"), &block), 7 * UNIT / 2);
}

/// One block in a loop, with an access of each turn at an address.
fn run(core: Core, block: &[Instruction], turns: u64, accesses: impl Fn(u64) -> Vec<(u64, bool)>, warm: u64) -> (Running, f64) {
    let mut running = Running::new(core);
    let chases = narrows_cycles::chases(block).iter().any(|&chases| chases);
    let known = Known::new(Block { begin: 64, behind: 64 + 4 * block.len() as u64, end: End::Conditional, instructions: block.to_vec() });
    running.count().counts.store(1, Relaxed);
    let mut before = 0;
    for turn in 0..warm + turns {
        if turn == warm {
            before = running.count().units();
        }
        running.executes(&known);
        for (address, written) in accesses(turn) {
            running.accesses(address, 8, written, chases);
        }
    }
    let cycles = (running.count().units() - before) as f64 / UNIT as f64 / turns as f64;
    (running, cycles)
}

/// `p = *p`, and nothing else.
fn chase() -> [Instruction; 1] {
    [Instruction::of(Class::Load).at(1).writes(1)]
}

#[test]
fn a_pointer_chase_takes_the_latency_of_the_level_that_has_it() {
    for name in NAMES {
        let mut core = core(name);
        core.taken = 0;
        let line = u64::from(core.line);
        let around = |bytes: u64| move |turn: u64| vec![((turn * line * 17) % bytes, false)];
        let there: Vec<Level> = core.levels.into_iter().filter(|level| level.bytes != 0).collect();
        for (at, level) in there.iter().enumerate() {
            // Half of its size, which is more than twice that of the one before it.
            let bytes = level.bytes / 2;
            assert!(at == 0 || bytes >= 2 * there[at - 1].bytes, "{name}");
            let lines = bytes / line;
            let (_, cycles) = run(core, &chase(), 3 * lines, around(bytes), lines);
            assert_eq!(cycles, f64::from(level.latency), "{name}, level {at}");
        }
        let memory = core.memory_ps as f64 * core.clock_hz as f64 / 1e12;
        let far = |turn: u64| vec![(turn * 4096, false)];
        let (_, cycles) = run(core, &chase(), 2000, far, 10);
        assert!((cycles / memory - 1.0).abs() < 0.01, "{name}: {cycles} of {memory}");
    }
}

#[test]
fn a_stream_takes_the_bandwidth_of_the_memory_or_of_its_misses() {
    // Loads of 8 bytes one behind the other, of which a miss may be in flight beside others.
    let block = [Instruction::of(Class::Load).at(1).writes(2), Instruction::of(Class::Integer).reads(1).writes(1)];
    let next = |turn: u64| vec![(8 * turn, false)];
    for name in NAMES {
        let core = Core { taken: 0, ..core(name) };
        let in_flight = f64::from(core.misses) * f64::from(core.line) / (core.memory_ps as f64 * 1e-12);
        for busy in [1, 64] {
            let shared = core.share(busy);
            let (_, cycles) = run(shared, &block, 200_000, next, 100_000);
            let rate = 8.0 / (cycles / core.clock_hz as f64);
            let (memory, hits) = (shared.memory_rate as f64, 8.0 * core.clock_hz as f64 / 3.0);
            let bound = memory.min(in_flight);
            assert!(rate <= 1.01 * bound, "{name}: {rate:e} of {bound:e}");
            // The core's own time comes beside that of misses, and within that of the memory.
            let least = memory.min(1.0 / (1.0 / in_flight + 1.0 / hits));
            assert!(rate > 0.9 * least, "{name}: {rate:e} of {least:e}");
        }
    }
}

#[test]
fn what_was_written_goes_back_to_memory() {
    let block = [Instruction::of(Class::Store).at(1).reads(2), Instruction::of(Class::Integer).reads(1).writes(1)];
    let slow = Core { memory_rate: 100_000_000, ..core("cortex-a53") };
    let (next, read) = (|turn: u64| vec![(64 * turn, true)], |turn: u64| vec![(64 * turn, false)]);
    let (_, written) = run(slow, &block, 100_000, next, 100_000);
    let (_, read) = run(slow, &block, 100_000, read, 100_000);
    assert!((written / read - 2.0).abs() < 0.01, "each line comes and goes: {written} and {read}");
}

#[test]
fn a_branch_costs_more_where_its_way_is_new() {
    let core = core("cortex-a53");
    let known = |begin, behind, end| Known::new(Block { begin, behind, end, instructions: adds(2, false) });
    let (head, next, other) = (known(0, 8, End::Conditional), known(8, 16, End::Jump), known(100, 108, End::Jump));
    let run = |ways: &[bool]| {
        let mut running = Running::new(core);
        running.count().counts.store(1, Relaxed);
        for &taken in ways {
            running.executes(&head);
            running.executes(if taken { &other } else { &next });
        }
        running.count().units() / UNIT
    };
    // Two blocks of a cycle, the jump back (not after the last one), and the branch itself.
    let (taken, mispredict) = (1, 9);
    assert_eq!(run(&[true; 10]), 20 + 9 * taken + 10 * taken);
    // The counter begins at weakly taken.
    assert_eq!(run(&[false; 10]), 20 + 9 * taken + mispredict);
    // A loop of four turns is known from the turns before, when the counters have learnt it.
    let fours: Vec<bool> = (0..4000).map(|turn| turn % 4 != 3).collect();
    let wrong = (run(&fours) - (8000 + 3999 * taken + 3000 * taken)) / mispredict;
    assert!((1..=60).contains(&wrong), "{wrong} of 1,000 ends of a loop");
    // What nothing shows is wrong half of the time.
    let mut state = 1_u64;
    let chance: Vec<bool> = (0..4000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 63 == 1
        })
        .collect();
    let ways = chance.iter().filter(|&&way| way).count() as u64;
    let wrong = (run(&chance) - (8000 + (3999 + ways) * taken)) / mispredict;
    assert!((1700..=2300).contains(&wrong), "{wrong} of 4,000 by chance");
}

#[test]
fn nothing_counts_that_is_not_to_be_counted() {
    let mut running = Running::new(core("cortex-a53"));
    let known = Known::new(Block { begin: 0, behind: 4, end: End::Conditional, instructions: adds(1, false) });
    for at in 0..1000 {
        running.executes(&known);
        running.accesses(at * 64, 8, true, false);
    }
    assert_eq!(running.count().units(), 0);
}

#[test]
fn addresses_do_not_depend_on_where_the_host_has_put_the_program() {
    let accesses = |from: u64, stack: u64| {
        let mut pages = Pages::default();
        pages.stack_is(stack);
        let of_heap = (0..100).map(|at| from + at * 5000).collect::<Vec<_>>();
        let of_stack = (0..100).map(|at| stack - at * 100);
        of_heap.into_iter().chain(of_stack).map(|address| pages.place(address)).collect::<Vec<_>>()
    };
    assert_eq!(accesses(0x40_0000_0000, 0x40_7fff_e120), accesses(0x55_5555_0000, 0x7f_ffff_1f50));
}

#[test]
fn ranks_have_equal_parts_of_what_they_share() {
    let core = core("cortex-a53");
    let (two, eight) = (core.share(2), core.share(8));
    assert_eq!((two.levels[0], two.levels[1].bytes), (core.levels[0], 512 << 10));
    assert_eq!(eight.levels[1].bytes, 256 << 10, "four cores at most");
    assert_eq!((two.memory_rate, eight.memory_rate), (core.memory_rate / 2, core.memory_rate / 8));
    assert_eq!(LEVELS, 3);
}
