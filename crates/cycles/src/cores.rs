//! Named cores. Clock, caches and memory are those of the chip that is named; a machine file may have others
//! (`core.clock`, `core.l1` and so on).
//!
//! Sources, named behind each constant. All but those behind `[assumed]` were opened and compared:
//! * `[LLVM C]`: the scheduling model of core C in llvm-project, llvm/lib/Target: AArch64/AArch64SchedA53.td (at commit
//!   02b3d4f4), A57 and ThunderX2T99 (1d7cce3f), NeoverseN1 (02cec0a4), NeoverseN2 (007f1e96), NeoverseV2 (06d9edc0),
//!   RISCV/RISCVSchedSiFive7.td (00df6250), X86/X86SchedSkylakeServer.td (02cec0a4) and X86ScheduleZnver2.td
//!   (0ad9f225). Its load latency is that of a hit in the first cache, `MicroOpBufferSize` is the window,
//!   `ReleaseAtCycles` (`ResourceCycles` before LLVM 18) over the number of units is an interval. Divisions have their
//!   longest latency.
//! * `[GCC sifive-7]`: gcc/config/riscv/sifive-7.md. `[OSACA a72]`: osaca/data/a72.yml, measurements of OSACA's
//!   authors.
//! * `[gem5 U74]`: gem5's model of the HiFive Unmatched, src/python/gem5/prebuilt/riscvmatched, which names pages of
//!   SiFive's FU740-C000 manual v1p6. `[D153666]`: LLVM's review of that number, on the stages of SiFive's 7 series.
//! * `[CVA6 F]`: file F of github.com/openhwgroup/cva6. `[FPnew]`: its divider, defs_div_sqrt_mvp.
//! * `[DT F]`: Linux' device tree, arch/*/boot/dts: sifive/fu740-c000.dtsi, xilinx/versal-net.dtsi,
//!   broadcom/bcm2711.dtsi.
//! * `[TRM C]`: Arm's Technical Reference Manual of core C. A53: DDI 0500D. A72: 100095.
//! * `[UG1085]`: Zynq UltraScale+ Technical Reference Manual, L2 Memory Subsystem.
//! * `[BF2]`: NVIDIA BlueField-2 DPU User Guide, introduction. `[DMX]`: "DPU as data-movement accelerator", node table,
//!   as machines/bf3.toml and thor-bf2.toml have it.
//! * `[AT N]`: AnandTech's article N. `[WC C]`: WikiChip's page of C. `[7CPU C]`: 7-cpu.com's page of C.
//! * `[CC GH]`: Chips and Cheese, "Grace Hopper, Nvidia's Halfway APU", 2024. `[Grace]`: NVIDIA's table of the Grace
//!   CPU Superchip, as the press of 2022 has it.
//! * `[Laukemann]`: J. Laukemann et al., on core models of Grace, Sapphire Rapids and Genoa, 2024; a summary of it.
//! * `[Arm LP]`: Arm's learning path on the memory subsystem, cache hierarchy of Neoverse V2.
//! * `[assumed]`: no source was found that could be opened: our own choice, with the reason.

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
        clock_hz: 1_300_000_000, // [assumed] that of ExaNeSt's MPSoCs; ICS-FORTH technical report 488, 3.1 was not at hand
        width: 2,                // [LLVM A53] IssueWidth
        window: 0,               // [LLVM A53] MicroOpBufferSize: in order
        taken: cycles(1),        // [assumed] a bubble of the fetch of an eight-stage pipeline
        mispredict: cycles(9),   // [LLVM A53] MispredictPenalty
        misses: 3,               // [assumed] the core's buffers for lines; section 6.1 of its manual was not to be found
        line: 64,                // [TRM A53] 6.7
        costs: costs([
            (Integer, on(2, 1)),       // [LLVM A53] A53UnitALU x 2; 1 with forwarding (WriteI 3 less ReadI 2)
            (Multiply, on(1, 3)),      // [LLVM A53] WriteIM 4 less ReadIM 1
            (Divide, every(4, 4)),     // [LLVM A53] WriteID 4, which has no longest; interval [assumed] not pipelined
            (FpAdd, on(1, 4)),         // [LLVM A53] WriteF
            (FpMultiply, on(1, 4)),    // [LLVM A53] WriteFMul
            (FpFused, on(1, 8)),       // [LLVM A53] A53WriteFMAC; 4 by way of the addend
            (FpDivide, every(29, 33)), // [LLVM A53] A53WriteFDivDP
            (FpRoot, every(28, 32)),   // [LLVM A53] A53WriteFSqrtDP
            (Simd, on(1, 2)),          // [LLVM A53] A53WriteIVecD_2; others 3 to 6, and 128 bits take the unit for two cycles
            (Load, on(1, 3)),          // [LLVM A53] LoadLatency
            (Store, on(1, 1)),         // [LLVM A53] A53UnitLdSt x 1
            (Branch, on(1, 1)),        // [LLVM A53] A53UnitB x 1
            (Atomic, every(6, 6)),     // [assumed] a load and a store that wait for each other
            (System, every(10, 10)),   // [assumed] drains the pipeline
        ]),
        levels: levels(
            level(32, 4, 3, 1),     // [TRM A53] 6.7: 4 ways; size [assumed], of those that can be chosen; latency: that of a load
            level(1024, 16, 15, 4), // [UG1085] 1 MB, 16 ways; latency [assumed]
            NONE,
        ),
        memory_ps: 130_000,          // [assumed] between 110 and 150 ns of DDR4 on such chips
        memory_rate: 19_200_000_000, // [assumed] DDR4-2400 of 64 bits
    }
}

/// Cortex-A72 as in BlueField-2.
fn cortex_a72() -> Core {
    use Class::*;
    Core {
        clock_hz: 2_500_000_000, // [DMX]
        width: 3,                // [LLVM A57], which LLVM takes for A72: IssueWidth
        window: 128,             // [LLVM A57] MicroOpBufferSize
        taken: 0,                // [assumed] hidden by the queue of fetches
        mispredict: cycles(14),  // [LLVM A57] MispredictPenalty
        misses: 6,               // [TRM A72] 6.4: up to six requests of lines outstanding
        line: 64,                // [TRM A72] 6.4
        costs: costs([
            (Integer, on(2, 1)),       // [LLVM A57] A57UnitI x 2; [OSACA a72] the same
            (Multiply, on(1, 3)),      // [LLVM A57] WriteIM32; 64 bits: 5
            (Divide, every(12, 12)),   // [assumed] between the least, 4 [OSACA a72], and the most, 19 [LLVM A57] WriteID32
            (FpAdd, on(2, 4)),         // [OSACA a72] 4, by forwarding 3
            (FpMultiply, on(2, 4)),    // [OSACA a72]
            (FpFused, on(2, 7)),       // [OSACA a72]
            (FpDivide, every(14, 14)), // [assumed] more than the least, 6 [OSACA a72]; grows with the quotient
            (FpRoot, every(19, 19)),   // [assumed] more than the least, 9 [OSACA a72]
            (Simd, on(2, 3)),          // [LLVM A57] WriteVd; [OSACA a72] the same
            (Load, on(1, 4)),          // [LLVM A57] A57UnitL x 1; [OSACA a72] the same
            (Store, on(1, 1)),         // [LLVM A57] A57UnitS x 1; [OSACA a72] the same
            (Branch, on(1, 1)),        // [LLVM A57] A57UnitB x 1; [OSACA a72] the same
            (Atomic, every(8, 8)),     // [assumed] a load and a store that wait for each other
            (System, every(16, 16)),   // [assumed] drains the pipeline
        ]),
        levels: levels(
            level(32, 2, 4, 1),     // [DT bcm2711]; latency: that of a load
            level(1024, 16, 18, 2), // [assumed] 1 MiB for two cores as in NVIDIA's data sheet, which was not at hand
            level(6144, 16, 50, 8), // [assumed] 6 MiB as in the same data sheet
        ),
        memory_ps: 120_000,          // [assumed] behind a mesh and an L3
        memory_rate: 25_600_000_000, // [BF2] one channel of DDR4-3200; [DMX] 25.6 GB/s
    }
}

/// Cortex-A78 as in BlueField-3. Arm's guide was not at hand, and LLVM has no model of it: costs are those of
/// relatives.
fn cortex_a78() -> Core {
    use Class::*;
    Core {
        clock_hz: 2_250_000_000, // [DMX]
        width: 6,                // [AT 14384] A77, the core before it, has a front end six wide
        window: 160,             // [assumed] as [LLVM NeoverseN2] MicroOpBufferSize
        taken: 0,                // [AT 15813] two taken branches a cycle
        mispredict: cycles(10),  // [assumed] as [LLVM NeoverseN2] MispredictPenalty; [LLVM NeoverseN1] has 11
        misses: 20,              // [assumed] no source names the number
        line: 64,                // [DT versal-net], which has A78
        costs: costs([
            (Integer, on(4, 1)),      // [assumed] as [LLVM NeoverseN2] N2UnitI: two S and two M
            (Multiply, on(2, 2)),     // [assumed] as [LLVM NeoverseN2] N2UnitM x 2
            (Divide, every(12, 12)),  // [assumed] as [LLVM NeoverseN2] N2Write_12c_1M0
            (FpAdd, on(2, 2)),        // [assumed] as [LLVM NeoverseN1] N1Write_2c_1V
            (FpMultiply, on(2, 3)),   // [assumed] as [LLVM NeoverseN1] N1Write_3c_1V
            (FpFused, on(2, 4)),      // [assumed] as [LLVM NeoverseN1] N1Write_4c_1V
            (FpDivide, every(7, 15)), // [assumed] as [LLVM NeoverseN1] N1Write_15c7_1V0
            (FpRoot, every(7, 17)),   // [assumed] as [LLVM NeoverseN1] N1Write_17c7_1V0
            (Simd, on(2, 2)),         // [assumed] as [LLVM NeoverseN1] WriteVd
            (Load, on(3, 4)),         // [assumed] as [LLVM NeoverseN2] N2UnitL x 3, LoadLatency
            (Store, on(2, 1)),        // [assumed] as [LLVM NeoverseN2] N2UnitD x 2
            (Branch, on(2, 1)),       // [assumed] as [LLVM NeoverseN2] N2UnitB x 2
            (Atomic, every(8, 8)),    // [assumed] a load and a store that wait for each other
            (System, every(16, 16)),  // [assumed] drains the pipeline
        ]),
        levels: levels(
            level(64, 4, 4, 1),        // [DMX] 64 KB; [DT versal-net] 4 ways; latency: that of a load
            level(512, 8, 10, 1),      // [DMX] 512 KB; [DT versal-net] 8 ways; latency [assumed]
            level(16_384, 16, 40, 16), // [DMX] 16 MB; ways and latency [assumed]
        ),
        memory_ps: 110_000,          // [assumed] as BlueField-2, with a faster mesh
        memory_rate: 89_600_000_000, // [DMX] DDR5-5600; two channels of 64 bits [assumed]
    }
}

/// CVA6, formerly Ariane, on an FPGA or in 22 nm.
fn cva6() -> Core {
    use Class::*;
    Core {
        clock_hz: 1_700_000_000, // F. Zaruba and L. Benini, arXiv 1904.05442: up to 1.7 GHz in 22 nm
        width: 1,                // [CVA6 docs/04_cv32a65x_design/source/subsystem.rst] one instruction issued a cycle
        window: 0,               // [CVA6 subsystem.rst] issued in order
        taken: cycles(1),        // [assumed] a bubble of the fetch
        mispredict: cycles(5),   // [assumed] the branch unit is in the fifth of six stages [CVA6 subsystem.rst, ex_stage.md]
        misses: 1,               // [assumed] one read miss at a time
        line: 16,                // [CVA6 core/include/cv64a6_imafdc_sv39_config_pkg.sv] DcacheLineWidth 128 bits
        costs: costs([
            (Integer, on(1, 1)),       // [CVA6 docs/03_cva6_design/ex_stage.md] a single cycle
            (Multiply, on(1, 2)),      // [CVA6 core/multiplier.sv] one pipeline register
            (Divide, every(32, 32)),   // [CVA6 core/serdiv.sv] serial, up to a cycle a bit: the middle
            (FpAdd, on(1, 4)),         // [CVA6 core/include/ariane_pkg.sv] LAT_COMP_FP64: three pipeline registers
            (FpMultiply, on(1, 4)),    // [CVA6 ariane_pkg.sv] the same unit
            (FpFused, on(1, 4)),       // [CVA6 ariane_pkg.sv] the same unit
            (FpDivide, every(21, 21)), // [FPnew] three of 56 digits a cycle; [CVA6 ariane_pkg.sv] LAT_DIVSQRT 2 registers
            (FpRoot, every(21, 21)),   // [FPnew] the same unit
            (Simd, on(1, 1)),          // RV64GC has none
            (Load, on(1, 3)),          // [assumed] address, cache, and a register behind it [CVA6 config_pkg.sv] NrLoadPipeRegs 1
            (Store, on(1, 1)),         // [CVA6 ex_stage.md] into the store buffer
            (Branch, on(1, 1)),        // [CVA6 ex_stage.md] a single cycle
            (Atomic, every(10, 10)),   // [assumed] through the cache to the memory's side
            (System, every(10, 10)),   // [assumed] flushes the pipeline
        ]),
        levels: levels(level(32, 8, 3, 1), NONE, NONE), // [CVA6 config_pkg.sv] Dcache; latency: that of a load
        memory_ps: 100_000,                             // [assumed] a controller of DDR3 beside the core
        memory_rate: 6_400_000_000,                     // [assumed] DDR3-800 of 64 bits
    }
}

/// Neoverse V2 as in NVIDIA's Grace.
fn neoverse_v2() -> Core {
    use Class::*;
    Core {
        clock_hz: 3_400_000_000, // [CC GH] up to 3.44 GHz
        width: 8,                // [Laukemann] up to eight micro-operations decoded and renamed; [LLVM NeoverseV2] has 6
        window: 320,             // [LLVM NeoverseV2] MicroOpBufferSize
        taken: 0,                // [assumed] as Cortex-A78
        mispredict: cycles(10),  // [LLVM NeoverseV2] MispredictPenalty
        misses: 32,              // [assumed] as many as fill its share of the bandwidth
        line: 64,                // [Arm LP]
        costs: costs([
            (Integer, on(6, 1)),      // [LLVM NeoverseV2] V2UnitI: four S and two M
            (Multiply, on(2, 2)),     // [LLVM NeoverseV2] V2Write_2c_1M
            (Divide, every(12, 12)),  // [LLVM NeoverseV2] WriteID32
            (FpAdd, on(4, 2)),        // [LLVM NeoverseV2] WriteF, V2UnitV x 4
            (FpMultiply, on(4, 3)),   // [LLVM NeoverseV2] WriteFMul
            (FpFused, on(4, 4)),      // [LLVM NeoverseV2] V2Wr_FMA
            (FpDivide, every(4, 15)), // [LLVM NeoverseV2] V2Write_15c_1V02: 8 cycles of one of two units
            (FpRoot, every(4, 16)),   // [LLVM NeoverseV2] V2Write_16c_1V02: 8 cycles of one of two units
            (Simd, on(4, 2)),         // [LLVM NeoverseV2] WriteVd
            (Load, on(3, 4)),         // [LLVM NeoverseV2] V2UnitL x 3, V2Write_4c_1L
            (Store, on(2, 1)),        // [LLVM NeoverseV2] V2UnitL01 x 2, V2UnitD x 2
            (Branch, on(2, 1)),       // [LLVM NeoverseV2] V2UnitB x 2
            (Atomic, every(8, 8)),    // [assumed] a load and a store that wait for each other
            (System, every(16, 16)),  // [assumed] drains the pipeline
        ]),
        levels: levels(
            level(64, 4, 4, 1),         // [Grace] 64 KB; [Arm LP] 4 ways; latency: that of a load
            level(1024, 8, 10, 1),      // [Grace] 1 MB; [Arm LP] 8 ways; latency [assumed]
            level(116_736, 12, 68, 72), // [CC GH] 114 MB; ways and latency [assumed]
        ),
        memory_ps: 150_000,           // [assumed] LPDDR5X
        memory_rate: 500_000_000_000, // [Grace] up to 1 TB/s for two
    }
}

/// A Xeon Scalable of the first generation (Skylake-SP).
fn skylake() -> Core {
    use Class::*;
    Core {
        clock_hz: 2_400_000_000, // [assumed] as a Xeon Gold 6148
        width: 4,                // [assumed] renamed a cycle; [LLVM SkylakeServer] has 6, which are decoded
        window: 224,             // [LLVM SkylakeServer] MicroOpBufferSize
        taken: 0,                // [assumed] hidden by the queue of micro-operations
        mispredict: cycles(14),  // [LLVM SkylakeServer] MispredictPenalty
        misses: 12,              // [assumed] ten to twelve line fill buffers; Intel's manual was not at hand
        line: 64,                // [WC Skylake (client)]
        costs: costs([
            (Integer, on(4, 1)),      // [LLVM SkylakeServer] WriteALU: ports 0, 1, 5, 6
            (Multiply, on(1, 3)),     // [LLVM SkylakeServer] WriteIMul32Reg
            (Divide, every(6, 26)),   // [assumed] DIV r32; [LLVM SkylakeServer] has 76, the same for 64 bits
            (FpAdd, on(2, 4)),        // [LLVM SkylakeServer] WriteFAdd64
            (FpMultiply, on(2, 4)),   // [LLVM SkylakeServer] WriteFMul64
            (FpFused, on(2, 4)),      // [LLVM SkylakeServer] WriteFMA
            (FpDivide, every(4, 14)), // [LLVM SkylakeServer] WriteFDiv64
            (FpRoot, every(6, 18)),   // [LLVM SkylakeServer] WriteFSqrt64
            (Simd, on(3, 1)),         // [LLVM SkylakeServer] WriteVecLogicX: ports 0, 1, 5
            (Load, on(2, 5)),         // [LLVM SkylakeServer] WriteLoad: ports 2, 3
            (Store, on(1, 1)),        // [LLVM SkylakeServer] WriteStore: port 4
            (Branch, on(2, 1)),       // [LLVM SkylakeServer] WriteJump: ports 0, 6
            (Atomic, every(18, 18)),  // [assumed] as uops.info measures LOCK INC on Alder Lake
            (System, every(30, 30)),  // [assumed] drains the pipeline
        ]),
        levels: levels(
            level(32, 8, 5, 1),        // [AT 11550] 32 KB, 8 ways; latency: that of a load
            level(1024, 16, 13, 1),    // [AT 11550] 1 MB, 16 ways, 11 to 13 cycles
            level(28_160, 11, 77, 20), // [AT 11550] 1.375 MB a core, 11 ways, 77 cycles
        ),
        memory_ps: 90_000,            // [assumed] with a full mesh
        memory_rate: 128_000_000_000, // [AT 12694] six channels; DDR4-2666 [assumed]
    }
}

/// Marvell ThunderX2 as in Dibona.
fn thunderx2() -> Core {
    use Class::*;
    Core {
        clock_hz: 2_000_000_000, // [assumed] that of Dibona's; Mont-Blanc 3, D6.3 was not at hand
        width: 4,                // [LLVM ThunderX2T99] IssueWidth
        window: 180,             // [LLVM ThunderX2T99] MicroOpBufferSize
        taken: cycles(1),        // [assumed] one bubble: a fetch ends at a taken branch [AT 12694]
        mispredict: cycles(12),  // [LLVM ThunderX2T99] MispredictPenalty
        misses: 16,              // [assumed] as many as fill a core's share of eight channels
        line: 64,                // [assumed] as the others
        costs: costs([
            (Integer, on(3, 1)),      // [LLVM ThunderX2T99] WriteI: ports 0, 1, 2
            (Multiply, on(1, 5)),     // [LLVM ThunderX2T99] WriteIM64, on port 1 as a comment there has it
            (Divide, every(23, 23)),  // [LLVM ThunderX2T99] 13 to 23 for 32 bits; WriteID32 and WriteID64 seem to be swapped
            (FpAdd, on(2, 6)),        // [LLVM ThunderX2T99] Write_6Cyc_F01
            (FpMultiply, on(1, 6)),   // [LLVM ThunderX2T99] XWriteFMul: two cycles of one of two units
            (FpFused, on(1, 6)),      // [LLVM ThunderX2T99] XWriteFMulAcc: two cycles of one of two units
            (FpDivide, every(6, 23)), // [LLVM ThunderX2T99] XWriteFDivDP: 12 cycles of one of two units
            (FpRoot, every(6, 23)),   // [LLVM ThunderX2T99] XWriteFSqrtDP: 12 cycles of one of two units
            (Simd, on(2, 7)),         // [LLVM ThunderX2T99] Write_7Cyc_F01
            (Load, on(2, 4)),         // [LLVM ThunderX2T99] WriteLD: ports 4, 5
            (Store, on(1, 1)),        // [LLVM ThunderX2T99] WriteST: port 3
            (Branch, on(1, 1)),       // [LLVM ThunderX2T99] WriteBr: port 2
            (Atomic, every(8, 8)),    // [assumed] a load and a store that wait for each other
            (System, every(16, 16)),  // [assumed] drains the pipeline
        ]),
        levels: levels(
            level(32, 8, 4, 1),        // [WC Vulcan]; latency: that of a load
            level(256, 8, 11, 1),      // [WC Vulcan]; latency [assumed]
            level(32_768, 32, 66, 32), // [WC Vulcan] 1 MiB a core; ways and latency [assumed]
        ),
        memory_ps: 110_000,           // [assumed] between 100 and 120 ns within a socket
        memory_rate: 170_600_000_000, // [WC Vulcan] eight channels of DDR4-2666, 158.9 GiB/s
    }
}

/// SiFive U740: four U74 cores.
fn u740() -> Core {
    use Class::*;
    Core {
        clock_hz: 1_200_000_000, // [gem5 U74]
        width: 2,                // [LLVM SiFive7] IssueWidth
        window: 0,               // [LLVM SiFive7] MicroOpBufferSize: in order
        taken: cycles(1),        // [assumed] a bubble for a branch that only the second predictor knows, on average
        mispredict: cycles(6),   // [assumed] known in AG or M2 [D153666], the fifth or the seventh stage; [LLVM SiFive7] has 3
        misses: 2,               // [assumed] hits and one more miss go on under a miss
        line: 64,                // [DT fu740-c000]
        costs: costs([
            (Integer, on(2, 1)),       // [LLVM SiFive7] pipes A and B; 1 from one to the next [D153666, GCC sifive-7]
            (Multiply, on(1, 3)),      // [LLVM SiFive7] WriteIMul
            (Divide, every(33, 34)),   // [LLVM SiFive7] WriteIDiv32; 64 bits: 65, 66
            (FpAdd, on(1, 7)),         // [LLVM SiFive7] WriteFAdd64
            (FpMultiply, on(1, 7)),    // [LLVM SiFive7] WriteFMul64
            (FpFused, on(1, 7)),       // [LLVM SiFive7] WriteFMA64
            (FpDivide, every(55, 56)), // [LLVM SiFive7] WriteFDiv64
            (FpRoot, every(55, 56)),   // [LLVM SiFive7] WriteFSqrt64
            (Simd, on(1, 1)),          // RV64GC has none
            (Load, on(1, 3)),          // [LLVM SiFive7] LoadLatency, pipe A
            (Store, on(1, 1)),         // [GCC sifive-7] pipe A
            (Branch, on(1, 1)),        // [GCC sifive-7] pipe B
            (Atomic, every(10, 10)),   // [assumed] done at the cache
            (System, every(10, 10)),   // [assumed] drains the pipeline
        ]),
        levels: levels(
            level(32, 8, 3, 1),     // [DT fu740-c000] 32 KiB, 64 sets; latency: that of a load
            level(2048, 16, 26, 4), // [DT fu740-c000] 2 MiB, 2048 sets; latency [assumed]
            NONE,
        ),
        memory_ps: 110_000,         // [assumed] about that of a HiFive Unmatched
        memory_rate: 7_760_000_000, // [assumed] the peak in "Monte Cimone", SOCC 2022, whose text was not at hand
    }
}

/// An EPYC 7002 (Zen 2).
fn zen2() -> Core {
    use Class::*;
    Core {
        clock_hz: 2_250_000_000, // EPYC 7742: SDU eScience, Type 3 system, hardware
        width: 6,                // [7CPU Zen2] six operations dispatched
        window: 224,             // [7CPU Zen2] reorder buffer; [LLVM Znver2] MicroOpBufferSize
        taken: 0,                // [assumed] one taken branch a cycle out of the micro-operation cache
        mispredict: cycles(17),  // [LLVM Znver2] MispredictPenalty
        misses: 22,              // [assumed] miss address buffers; AMD's guide was not at hand
        line: 64,                // [7CPU Zen2]
        costs: costs([
            (Integer, on(4, 1)),      // [LLVM Znver2] Zn2ALU x 4
            (Multiply, on(1, 3)),     // [LLVM Znver2] Zn2WriteMul32; 64 bits: 4
            (Divide, every(12, 16)),  // [assumed] less than the most, 25 [LLVM Znver2] WriteDiv32
            (FpAdd, on(2, 3)),        // [LLVM Znver2] WriteFAdd64
            (FpMultiply, on(2, 3)),   // [LLVM Znver2] WriteFMul64
            (FpFused, on(2, 5)),      // [LLVM Znver2] WriteFMA
            (FpDivide, every(6, 13)), // [LLVM Znver2] WriteFDiv64
            (FpRoot, every(10, 20)),  // [LLVM Znver2] WriteFSqrt64
            (Simd, on(3, 1)),         // [LLVM Znver2] WriteVecALU: three of four pipes
            (Load, on(2, 4)),         // [LLVM Znver2] LoadLatency; [7CPU Zen2] two a cycle
            (Store, on(1, 1)),        // [7CPU Zen2] one a cycle
            (Branch, on(2, 1)),       // [LLVM Znver2] Zn2ALU03
            (Atomic, every(17, 17)),  // [assumed] about as Skylake
            (System, every(30, 30)),  // [assumed] as Skylake
        ]),
        levels: levels(
            level(32, 8, 4, 1),       // [7CPU Zen2]; latency: that of a load
            level(512, 8, 12, 1),     // [7CPU Zen2]; latency [assumed]
            level(16_384, 16, 39, 4), // [7CPU Zen2] 16 MB for the four cores of a CCX; latency [assumed]
        ),
        memory_ps: 105_000,           // [assumed] 100 to 110 ns of one NUMA domain of EPYC
        memory_rate: 204_800_000_000, // Tom's Hardware (France), EPYC generations: eight channels of DDR4-3200
    }
}
