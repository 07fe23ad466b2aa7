//! Machines that come with Narrows, inside the binary.

/// A machine file by name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// What `--machine` takes.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

/// All of them, by name.
pub const PRESETS: &[Preset] = &[
    Preset { name: "8-ary-2-tree", text: include_str!("../../../machines/8-ary-2-tree.toml") },
    Preset { name: "acc-testbed", text: include_str!("../../../machines/acc-testbed.toml") },
    Preset { name: "apenetx", text: include_str!("../../../machines/apenetx.toml") },
    Preset { name: "apenetx-bxi", text: include_str!("../../../machines/apenetx-bxi.toml") },
    Preset { name: "apenetx-gen4", text: include_str!("../../../machines/apenetx-gen4.toml") },
    Preset { name: "bf3", text: include_str!("../../../machines/bf3.toml") },
    Preset { name: "bxi-ib-gateway", text: include_str!("../../../machines/bxi-ib-gateway.toml") },
    Preset { name: "bxi-v2", text: include_str!("../../../machines/bxi-v2.toml") },
    Preset { name: "bxi-v2-spin", text: include_str!("../../../machines/bxi-v2-spin.toml") },
    Preset { name: "bxi-v3", text: include_str!("../../../machines/bxi-v3.toml") },
    Preset { name: "bxi-v3-reliable", text: include_str!("../../../machines/bxi-v3-reliable.toml") },
    Preset { name: "carvnet-exanest", text: include_str!("../../../machines/carvnet-exanest.toml") },
    Preset { name: "carvnet-spine-leaf", text: include_str!("../../../machines/carvnet-spine-leaf.toml") },
    Preset { name: "carvnet-vcu", text: include_str!("../../../machines/carvnet-vcu.toml") },
    Preset { name: "deep", text: include_str!("../../../machines/deep.toml") },
    Preset { name: "deep-msa", text: include_str!("../../../machines/deep-msa.toml") },
    Preset { name: "dibona", text: include_str!("../../../machines/dibona.toml") },
    Preset { name: "dragonfly-114k", text: include_str!("../../../machines/dragonfly-114k.toml") },
    Preset { name: "dragonfly-342", text: include_str!("../../../machines/dragonfly-342.toml") },
    Preset { name: "example-cluster", text: include_str!("../../../machines/example-cluster.toml") },
    Preset { name: "exanest", text: include_str!("../../../machines/exanest.toml") },
    Preset { name: "exanest-10gbe", text: include_str!("../../../machines/exanest-10gbe.toml") },
    Preset { name: "exanest-mezz", text: include_str!("../../../machines/exanest-mezz.toml") },
    Preset { name: "exanest-qfdb", text: include_str!("../../../machines/exanest-qfdb.toml") },
    Preset { name: "fattree-16k", text: include_str!("../../../machines/fattree-16k.toml") },
    Preset { name: "fattree-256", text: include_str!("../../../machines/fattree-256.toml") },
    Preset { name: "fpspin", text: include_str!("../../../machines/fpspin.toml") },
    Preset { name: "ib-ndr", text: include_str!("../../../machines/ib-ndr.toml") },
    Preset { name: "ib-qdr", text: include_str!("../../../machines/ib-qdr.toml") },
    Preset { name: "inti", text: include_str!("../../../machines/inti.toml") },
    Preset { name: "megafly-288", text: include_str!("../../../machines/megafly-288.toml") },
    Preset { name: "omni-path-100", text: include_str!("../../../machines/omni-path-100.toml") },
    Preset { name: "roce-400", text: include_str!("../../../machines/roce-400.toml") },
    Preset { name: "s4bxi-vix", text: include_str!("../../../machines/s4bxi-vix.toml") },
    Preset { name: "slingshot-11", text: include_str!("../../../machines/slingshot-11.toml") },
    Preset { name: "thor-bf2", text: include_str!("../../../machines/thor-bf2.toml") },
];

/// The preset of this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
