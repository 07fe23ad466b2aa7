use narrows_matching::CommandError;
use narrows_portals::Process;

/// A command that was refused only when the NIC worked on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Who wrote it.
    pub process: Process,
    /// Why it was refused.
    pub error: CommandError,
}
