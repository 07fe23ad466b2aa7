//! Named cores. Clock, caches and memory are those of the chip that is named; a machine file may have others
//! (`core.clock`, `core.l1` and so on).
//!
//! Sources, named behind each constant:
//! * `[LLVM F]`: the scheduling model in llvm/lib/Target, file F, LLVM 17. Its load latency is that of a hit in the
//!   first cache, `MicroOpBufferSize` is the window, `ResourceCycles` of units that are not pipelined are intervals.
//! * `[SOG C]`: Arm's Software Optimization Guide of core C, tables of section 3. A72: UAN 0016A. A78: PJDOC 102160.
//!   V2: PJDOC 466751330.
//! * `[TRM C]`: Arm's Technical Reference Manual of core C.
//! * `[U740]`: SiFive FU740-C000 Manual v1p6, chapters 3 and 13. `[U74]`: SiFive U74 Core Complex Manual 21G1.01.00.
//! * `[CVA6]`: F. Zaruba and L. Benini, "The cost of application-class processing", IEEE TVLSI 27(11), 2019, and the
//!   core's documentation (docs.openhwgroup.org).
//! * `[AF C]`: A. Fog, "Instruction tables" and "The microarchitecture of Intel, AMD and VIA CPUs", 2022, for core C.
//! * `[7CPU C]`: measurements of 7-cpu.com for core C. `[WC C]`: WikiChip's page of C.
//! * `[assumed]`: no source was found: our own choice, with the reason.

use crate::{Class, Core, Cost, LEVELS, Level, UNIT};

/// The cores that there are.
pub const NAMES: [&str; 9] = ["cortex-a53", "cortex-a72", "cortex-a78", "cva6", "neoverse-v2", "skylake", "thunderx2", "u740", "zen2"];

/// The core of that name; `None`: there is none.
pub fn preset(name: &str) -> Option<Core> {
    match name {
        "cortex-a53" => Some(cortex_a53()),
        "cortex-a72" => Some(cortex_a72()),
        "cortex-a78" => Some(cortex_a78()),
        "cva6" => Some(cva6()),
        "neoverse-v2" => Some(neoverse_v2()),
        "skylake" => Some(skylake()),
        "thunderx2" => Some(thunderx2()),
        "u740" => Some(u740()),
        "zen2" => Some(zen2()),
        _ => None,
    }
}

/// A latency in cycles, on so many units that take one instruction a cycle each.
fn on(units: u64, latency: u64) -> Cost {
    Cost { latency: (latency * UNIT) as u32, interval: (UNIT / units) as u32 }
}

/// A latency in cycles, on a unit that takes the next instruction after so many.
fn every(cycles: u64, latency: u64) -> Cost {
    Cost { latency: (latency * UNIT) as u32, interval: (cycles * UNIT) as u32 }
}

fn cycles(number: u64) -> u32 {
    (number * UNIT) as u32
}

fn costs(of: [(Class, Cost); Class::ALL.len()]) -> [Cost; Class::ALL.len()] {
    let mut costs = [Cost::default(); Class::ALL.len()];
    of.into_iter().for_each(|(class, cost)| costs[class as usize] = cost);
    costs
}

const fn level(kib: u64, ways: u32, latency: u32, cores: u32) -> Level {
    Level { bytes: kib << 10, ways, latency, cores, zero: 0 }
}

const NONE: Level = level(0, 0, 0, 0);

fn levels(l1: Level, l2: Level, llc: Level) -> [Level; LEVELS] {
    [l1, l2, llc]
}

/// Cortex-A53 as in the Zynq UltraScale+ ZU9EG.
fn cortex_a53() -> Core {
    use Class::*;
    Core {
        clock_hz: 1_300_000_000, // ExaNeSt's MPSoCs: ICS-FORTH technical report 488, 3.1
        width: 2,                // [LLVM AArch64SchedA53.td] IssueWidth
        window: 0,               // [LLVM AArch64SchedA53.td] MicroOpBufferSize: in order
        taken: cycles(1),        // [assumed] a bubble of the fetch of an eight-stage pipeline
        mispredict: cycles(9),   // [LLVM AArch64SchedA53.td] MispredictPenalty
        misses: 3,               // [TRM A53] 6.1: three linefill requests of a core at a time
        line: 64,                // [TRM A53] 6.1
        costs: costs([
            (Integer, on(2, 1)),       // [LLVM AArch64SchedA53.td] A53UnitALU x 2; 1 with forwarding (WriteI 3 less ReadI 2)
            (Multiply, on(1, 3)),      // [LLVM AArch64SchedA53.td] WriteIM 4 less forwarding
            (Divide, every(4, 4)),     // [LLVM AArch64SchedA53.td] WriteID 4: the least; grows with the quotient
            (FpAdd, on(1, 4)),         // [assumed] dependent FADD 4: [LLVM AArch64SchedA53.td] has 6 with no forwarding
            (FpMultiply, on(1, 4)),    // [assumed] as FADD
            (FpFused, on(1, 8)),       // [LLVM AArch64SchedA53.td] FMADD 10 less 2 of forwarding
            (FpDivide, every(29, 33)), // [LLVM AArch64SchedA53.td] WriteFDiv double
            (FpRoot, every(28, 32)),   // [LLVM AArch64SchedA53.td] WriteFSqrt double
            (Simd, on(1, 4)),          // [LLVM AArch64SchedA53.td] WriteV 6 less forwarding
            (Load, on(1, 3)),          // [LLVM AArch64SchedA53.td] LoadLatency
            (Store, on(1, 1)),         // [LLVM AArch64SchedA53.td] A53UnitLdSt x 1
            (Branch, on(1, 1)),        // [LLVM AArch64SchedA53.td] A53UnitB x 1
            (Atomic, every(6, 6)),     // [assumed] a load and a store that wait for each other
            (System, every(10, 10)),   // [assumed] drains the pipeline
        ]),
        levels: levels(
            level(32, 4, 3, 1),     // [TRM A53] 6.1; latency: that of a load
            level(1024, 16, 15, 4), // Zynq UltraScale+ TRM UG1085: 1 MiB, 16 ways; latency: [7CPU Cortex-A53] 15
            NONE,
        ),
        memory_ps: 130_000,          // [assumed] measurements of DDR4 on such chips are between 110 and 150 ns
        memory_rate: 19_200_000_000, // UG1085: DDR4-2400 of 64 bits
    }
}

/// Cortex-A72 as in BlueField-2.
fn cortex_a72() -> Core {
    use Class::*;
    Core {
        clock_hz: 2_500_000_000, // NVIDIA BlueField-2 DPU data sheet: up to 2.5 GHz
        width: 3,                // [SOG A72] 2.1: three decoded and dispatched
        window: 128,             // [LLVM AArch64SchedA57.td] MicroOpBufferSize, which LLVM takes for A72
        taken: 0,                // [assumed] hidden by the queue of fetches
        mispredict: cycles(16),  // [LLVM AArch64SchedA57.td] MispredictPenalty
        misses: 6,               // [TRM A72] 6.4: six outstanding linefills of the L1
        line: 64,                // [TRM A72] 6.1
        costs: costs([
            (Integer, on(2, 1)),       // [SOG A72] I0, I1
            (Multiply, on(1, 3)),      // [SOG A72] MADD W 3, X 5
            (Divide, every(12, 12)),   // [SOG A72] SDIV W 4 to 12, X 4 to 20
            (FpAdd, on(2, 4)),         // [SOG A72] FADD: F0, F1
            (FpMultiply, on(2, 4)),    // [SOG A72] FMUL
            (FpFused, on(2, 7)),       // [SOG A72] FMADD
            (FpDivide, every(14, 14)), // [SOG A72] FDIV D 7 to 18: the middle
            (FpRoot, every(19, 19)),   // [SOG A72] FSQRT D 7 to 32: the middle
            (Simd, on(2, 3)),          // [SOG A72] ASIMD arithmetic, basic
            (Load, on(1, 4)),          // [SOG A72] LDR; one load unit
            (Store, on(1, 1)),         // [SOG A72] one store unit
            (Branch, on(1, 1)),        // [SOG A72] B
            (Atomic, every(8, 8)),     // [assumed] a load and a store that wait for each other
            (System, every(16, 16)),   // [assumed] drains the pipeline
        ]),
        levels: levels(
            level(32, 2, 4, 1),     // [TRM A72] 6.4
            level(1024, 16, 18, 2), // BlueField-2 data sheet: 1 MiB for two cores; 16 ways [TRM A72] 7.1; latency: [7CPU Cortex-A72]
            level(6144, 16, 50, 8), // BlueField-2 data sheet: 6 MiB; ways and latency [assumed]
        ),
        memory_ps: 120_000,          // [assumed] behind a mesh and an L3
        memory_rate: 25_600_000_000, // BlueField-2 data sheet: one channel of DDR4-3200
    }
}

/// Cortex-A78 as in BlueField-3.
fn cortex_a78() -> Core {
    use Class::*;
    Core {
        clock_hz: 2_000_000_000, // [assumed] NVIDIA names no clock in the data sheet of BlueField-3
        width: 6,                // [SOG A78] 2.1: six MOPs dispatched
        window: 160,             // [WC Cortex-A78] entries of the reorder buffer
        taken: 0,                // [SOG A78] two predicted branches a cycle
        mispredict: cycles(11),  // [WC Cortex-A78] 10 to 11 cycles
        misses: 20,              // [assumed] no source names the number
        line: 64,                // [TRM A78] A6.1
        costs: costs([
            (Integer, on(4, 1)),      // [SOG A78] I0, I1, I2 and M
            (Multiply, on(2, 2)),     // [SOG A78] MUL
            (Divide, every(8, 8)),    // [SOG A78] SDIV W 5 to 12, X 5 to 20
            (FpAdd, on(2, 2)),        // [SOG A78] FADD: V0, V1
            (FpMultiply, on(2, 3)),   // [SOG A78] FMUL
            (FpFused, on(2, 4)),      // [SOG A78] FMADD
            (FpDivide, every(5, 11)), // [SOG A78] FDIV D 7 to 15: the middle
            (FpRoot, every(6, 12)),   // [SOG A78] FSQRT D 7 to 17: the middle
            (Simd, on(2, 2)),         // [SOG A78] ASIMD arithmetic, basic
            (Load, on(3, 4)),         // [SOG A78] LDR: L01, L2
            (Store, on(2, 1)),        // [SOG A78] two addresses and two data a cycle
            (Branch, on(2, 1)),       // [SOG A78] B0, B1
            (Atomic, every(8, 8)),    // [assumed] a load and a store that wait for each other
            (System, every(16, 16)),  // [assumed] drains the pipeline
        ]),
        levels: levels(
            level(64, 4, 4, 1),        // [TRM A78] A6.1: 32 or 64 KiB; BlueField-3: 64
            level(512, 8, 10, 1),      // [WC Cortex-A78] 512 KiB, 8 ways, 10 cycles
            level(16_384, 16, 40, 16), // BlueField-3 data sheet: 16 MiB; ways and latency [assumed]
        ),
        memory_ps: 110_000,          // [assumed] as BlueField-2, with a faster mesh
        memory_rate: 89_600_000_000, // BlueField-3 data sheet: two channels of DDR5-5600
    }
}

/// CVA6, formerly Ariane, on an FPGA or in 22 nm.
fn cva6() -> Core {
    use Class::*;
    Core {
        clock_hz: 1_700_000_000, // [CVA6] 22FDX at 0.8 V
        width: 1,                // [CVA6] issues one
        window: 0,               // [CVA6] in order
        taken: cycles(1),        // [CVA6] a bubble of the fetch
        mispredict: cycles(5),   // [CVA6] branches are resolved in the execute stage
        misses: 1,               // [assumed] the write-through cache of the paper has one read miss at a time
        line: 16,                // [CVA6] lines of 128 bits
        costs: costs([
            (Integer, on(1, 1)),       // [CVA6]
            (Multiply, on(1, 2)),      // [CVA6] a pipelined multiplier of two cycles
            (Divide, every(32, 32)),   // [CVA6] serial, 2 to 64 cycles: the middle
            (FpAdd, on(1, 5)),         // [assumed] FPnew with five stages for double precision
            (FpMultiply, on(1, 5)),    // [assumed] as FpAdd: one unit for all
            (FpFused, on(1, 5)),       // [assumed] the same
            (FpDivide, every(21, 21)), // [assumed] FPnew: three bits a cycle for double precision
            (FpRoot, every(21, 21)),   // [assumed] the same
            (Simd, on(1, 1)),          // RV64GC has none
            (Load, on(1, 3)),          // [CVA6] three cycles from load to use
            (Store, on(1, 1)),         // [CVA6] into the store buffer
            (Branch, on(1, 1)),        // [CVA6]
            (Atomic, every(10, 10)),   // [assumed] through the cache to the memory's side
            (System, every(10, 10)),   // [assumed] flushes the pipeline
        ]),
        levels: levels(level(32, 8, 3, 1), NONE, NONE), // [CVA6] 32 KiB of data, 8 ways
        memory_ps: 100_000,                             // [assumed] a controller of DDR3 beside the core
        memory_rate: 6_400_000_000,                     // [assumed] DDR3-800 of 64 bits
    }
}

/// Neoverse V2 as in NVIDIA's Grace.
fn neoverse_v2() -> Core {
    use Class::*;
    Core {
        clock_hz: 3_400_000_000, // NVIDIA Grace CPU data sheet: up to 3.4 GHz
        width: 8,                // [SOG V2] 2.1: eight MOPs dispatched
        window: 320,             // [LLVM AArch64SchedNeoverseV2.td] MicroOpBufferSize
        taken: 0,                // [SOG V2] two predicted branches a cycle
        mispredict: cycles(10),  // [LLVM AArch64SchedNeoverseV2.td] MispredictPenalty
        misses: 32,              // [assumed] as many as fill its share of the bandwidth
        line: 64,                // [TRM V2] 8.1
        costs: costs([
            (Integer, on(6, 1)),      // [SOG V2] four S and two M units
            (Multiply, on(2, 2)),     // [SOG V2] MUL
            (Divide, every(8, 8)),    // [SOG V2] SDIV W 5 to 12, X 5 to 20
            (FpAdd, on(4, 2)),        // [SOG V2] FADD: four V units
            (FpMultiply, on(4, 3)),   // [SOG V2] FMUL
            (FpFused, on(4, 4)),      // [SOG V2] FMADD
            (FpDivide, every(5, 11)), // [SOG V2] FDIV D 7 to 15: the middle
            (FpRoot, every(6, 11)),   // [SOG V2] FSQRT D 7 to 16: the middle
            (Simd, on(4, 2)),         // [SOG V2] ASIMD arithmetic, basic
            (Load, on(3, 4)),         // [SOG V2] LDR: L01, L2
            (Store, on(2, 1)),        // [SOG V2] two a cycle
            (Branch, on(2, 1)),       // [SOG V2] B0, B1
            (Atomic, every(8, 8)),    // [assumed] a load and a store that wait for each other
            (System, every(16, 16)),  // [assumed] drains the pipeline
        ]),
        levels: levels(
            level(64, 4, 4, 1),         // [TRM V2] 8.1
            level(1024, 8, 10, 1),      // Grace: 1 MiB; [TRM V2] 9.1; latency [WC Neoverse V2]
            level(116_736, 12, 68, 72), // Grace data sheet: 114 MiB; ways and latency [assumed]
        ),
        memory_ps: 150_000,           // [assumed] LPDDR5X
        memory_rate: 500_000_000_000, // Grace data sheet: up to 500 GB/s
    }
}

/// A Xeon Scalable of the first generation (Skylake-SP).
fn skylake() -> Core {
    use Class::*;
    Core {
        clock_hz: 2_400_000_000, // Xeon Gold 6148
        width: 4,                // [AF Skylake] four fused micro-operations a cycle
        window: 224,             // [AF Skylake] reorder buffer
        taken: 0,                // [AF Skylake] one taken branch a cycle
        mispredict: cycles(16),  // [AF Skylake] 15 to 20 cycles
        misses: 12,              // [AF Skylake] ten to twelve line fill buffers
        line: 64,                // [AF Skylake]
        costs: costs([
            (Integer, on(4, 1)),      // [AF Skylake] ports 0, 1, 5, 6
            (Multiply, on(1, 3)),     // [AF Skylake] IMUL
            (Divide, every(6, 26)),   // [AF Skylake] DIV r32
            (FpAdd, on(2, 4)),        // [AF Skylake] ADDSD
            (FpMultiply, on(2, 4)),   // [AF Skylake] MULSD
            (FpFused, on(2, 4)),      // [AF Skylake] VFMADD
            (FpDivide, every(4, 14)), // [AF Skylake] DIVSD 13 to 14
            (FpRoot, every(6, 18)),   // [AF Skylake] SQRTSD 15 to 16 and more
            (Simd, on(3, 1)),         // [AF Skylake] ports 0, 1, 5
            (Load, on(2, 5)),         // [AF Skylake] ports 2, 3; 4 to 5 cycles
            (Store, on(1, 1)),        // [AF Skylake] port 4
            (Branch, on(2, 1)),       // [AF Skylake] ports 0, 6
            (Atomic, every(18, 18)),  // [AF Skylake] LOCK ADD
            (System, every(30, 30)),  // [AF Skylake] MFENCE 33
        ]),
        levels: levels(
            level(32, 8, 5, 1),        // [AF Skylake]
            level(1024, 16, 14, 1),    // [WC Skylake (server)]
            level(28_160, 11, 70, 20), // [WC Skylake (server)] 1.375 MiB a core, 11 ways; 50 to 70 cycles
        ),
        memory_ps: 90_000,            // [7CPU Skylake-X] about 90 ns with a full mesh
        memory_rate: 128_000_000_000, // [WC Skylake (server)] six channels of DDR4-2666
    }
}

/// Marvell ThunderX2 as in Dibona.
fn thunderx2() -> Core {
    use Class::*;
    Core {
        clock_hz: 2_000_000_000, // Dibona: ThunderX2 at 2.0 GHz (Mont-Blanc 3, D6.3)
        width: 4,                // [LLVM AArch64SchedThunderX2T99.td] IssueWidth
        window: 180,             // [LLVM AArch64SchedThunderX2T99.td] MicroOpBufferSize
        taken: cycles(1),        // [assumed] one fetch bubble
        mispredict: cycles(12),  // [LLVM AArch64SchedThunderX2T99.td] MispredictPenalty
        misses: 16,              // [assumed] as many as fill a core's share of eight channels
        line: 64,                // [WC Vulcan]
        costs: costs([
            (Integer, on(3, 1)),       // [LLVM AArch64SchedThunderX2T99.td] I0, I1, I2
            (Multiply, on(1, 5)),      // [LLVM AArch64SchedThunderX2T99.td] WriteIM64
            (Divide, every(13, 23)),   // [LLVM AArch64SchedThunderX2T99.td] WriteID32 13 to 23
            (FpAdd, on(2, 6)),         // [LLVM AArch64SchedThunderX2T99.td] F0, F1
            (FpMultiply, on(2, 6)),    // [LLVM AArch64SchedThunderX2T99.td]
            (FpFused, on(2, 6)),       // [LLVM AArch64SchedThunderX2T99.td]
            (FpDivide, every(16, 23)), // [LLVM AArch64SchedThunderX2T99.td] FDIV D
            (FpRoot, every(16, 23)),   // [LLVM AArch64SchedThunderX2T99.td] FSQRT D
            (Simd, on(2, 7)),          // [LLVM AArch64SchedThunderX2T99.td] WriteV
            (Load, on(2, 4)),          // [LLVM AArch64SchedThunderX2T99.td] LoadLatency
            (Store, on(1, 1)),         // [LLVM AArch64SchedThunderX2T99.td] SD
            (Branch, on(1, 1)),        // [LLVM AArch64SchedThunderX2T99.td] I2
            (Atomic, every(8, 8)),     // [assumed] a load and a store that wait for each other
            (System, every(16, 16)),   // [assumed] drains the pipeline
        ]),
        levels: levels(
            level(32, 8, 4, 1),        // [WC Vulcan]
            level(256, 8, 11, 1),      // [WC Vulcan] latency [assumed]
            level(32_768, 32, 66, 32), // [WC Vulcan] 1 MiB a core; ways and latency [assumed]
        ),
        memory_ps: 110_000,           // [assumed] measurements of one socket are between 100 and 120 ns
        memory_rate: 170_600_000_000, // [WC Vulcan] eight channels of DDR4-2666
    }
}

/// SiFive U740: four U74 cores.
fn u740() -> Core {
    use Class::*;
    Core {
        clock_hz: 1_200_000_000, // [U740] 1.2 GHz on the HiFive Unmatched
        width: 2,                // [U74] 3.3: two in order
        window: 0,               // [U74] 3.3
        taken: cycles(1),        // [U74] 3.2: a bubble for a branch that only the second predictor knows [assumed on average]
        mispredict: cycles(6),   // [U74] 3.2.6: four to six cycles
        misses: 2,               // [assumed] hits and one more miss go on under a miss
        line: 64,                // [U740] 3
        costs: costs([
            (Integer, on(2, 1)),       // [LLVM RISCVSchedSiFive7.td] pipes A and B; late ALUs hide the latency of 3
            (Multiply, on(1, 3)),      // [U74] 3.3
            (Divide, every(34, 34)),   // [LLVM RISCVSchedSiFive7.td] DIVW 34, DIV 66
            (FpAdd, on(1, 7)),         // [LLVM RISCVSchedSiFive7.td] WriteFAdd64
            (FpMultiply, on(1, 7)),    // [LLVM RISCVSchedSiFive7.td] WriteFMul64
            (FpFused, on(1, 7)),       // [LLVM RISCVSchedSiFive7.td] WriteFMA64
            (FpDivide, every(56, 56)), // [LLVM RISCVSchedSiFive7.td] WriteFDiv64
            (FpRoot, every(56, 56)),   // [LLVM RISCVSchedSiFive7.td] WriteFSqrt64
            (Simd, on(1, 1)),          // RV64GC has none
            (Load, on(1, 3)),          // [U74] 3.3: LoadLatency 3
            (Store, on(1, 1)),         // [U74] 3.3
            (Branch, on(1, 1)),        // [LLVM RISCVSchedSiFive7.td] pipe B
            (Atomic, every(10, 10)),   // [assumed] done at the cache
            (System, every(10, 10)),   // [assumed] drains the pipeline
        ]),
        levels: levels(
            level(32, 8, 3, 1),     // [U740] 3: 32 KiB, 8 ways
            level(2048, 16, 26, 4), // [U740] 13: 2 MiB, 16 ways; latency [assumed] between 21 and 26
            NONE,
        ),
        memory_ps: 110_000,         // [assumed] measurements of the HiFive Unmatched are about as much
        memory_rate: 7_760_000_000, // Bartolini et al., "Monte Cimone", SOCC 2022: a peak of 7.76 GB/s
    }
}

/// An EPYC 7002 (Zen 2).
fn zen2() -> Core {
    use Class::*;
    Core {
        clock_hz: 2_250_000_000, // EPYC 7742
        width: 5,                // [AF Zen 2] five instructions, six micro-operations a cycle
        window: 224,             // [WC Zen 2] retire queue
        taken: 0,                // [AF Zen 2] one taken branch a cycle out of the micro-operation cache
        mispredict: cycles(18),  // [AF Zen 2] about 18 cycles
        misses: 22,              // [WC Zen 2] miss address buffers
        line: 64,                // [WC Zen 2]
        costs: costs([
            (Integer, on(4, 1)),      // [AF Zen 2] four ALUs
            (Multiply, on(1, 3)),     // [AF Zen 2] IMUL r64 3
            (Divide, every(12, 16)),  // [AF Zen 2] DIV r32 9 to 25: the middle
            (FpAdd, on(2, 3)),        // [AF Zen 2] ADDSD
            (FpMultiply, on(2, 3)),   // [AF Zen 2] MULSD
            (FpFused, on(2, 5)),      // [AF Zen 2] VFMADD
            (FpDivide, every(5, 13)), // [AF Zen 2] DIVSD
            (FpRoot, every(9, 20)),   // [AF Zen 2] SQRTSD
            (Simd, on(3, 1)),         // [AF Zen 2] three of four pipes
            (Load, on(2, 4)),         // [AF Zen 2] two loads a cycle
            (Store, on(1, 1)),        // [AF Zen 2] one store a cycle
            (Branch, on(2, 1)),       // [AF Zen 2] two branches a cycle, one of them taken
            (Atomic, every(17, 17)),  // [AF Zen 2] LOCK ADD
            (System, every(30, 30)),  // [assumed] as Skylake
        ]),
        levels: levels(
            level(32, 8, 4, 1),       // [WC Zen 2]
            level(512, 8, 12, 1),     // [WC Zen 2]
            level(16_384, 16, 39, 4), // [WC Zen 2] 16 MiB for the four cores of a CCX
        ),
        memory_ps: 105_000,           // [7CPU Zen 2] and one NUMA domain of EPYC: 100 to 110 ns
        memory_rate: 204_800_000_000, // [WC Zen 2] eight channels of DDR4-3200
    }
}
