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
    Preset { name: "bxi-v2", text: include_str!("../../../machines/bxi-v2.toml") },
    Preset { name: "example-cluster", text: include_str!("../../../machines/example-cluster.toml") },
];

/// The preset of this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
