use narrows_fabric::ConfigError;

/// Why there is no traffic. One line each, which says what would be right.
#[derive(Debug, thiserror::Error)]
pub enum IpError {
    /// The network cannot be.
    #[error(transparent)]
    Network(#[from] ConfigError),
    /// There is no such host.
    #[error("there is no host {host}: {there}")]
    Host {
        /// Its number.
        host: u32,
        /// Those that there are.
        there: String,
    },
    /// A flow that cannot be.
    #[error("from {from} to {to}: {why}")]
    Flow {
        /// Who begins.
        from: u32,
        /// The other one.
        to: u32,
        /// Why not, and what would be right.
        why: String,
    },
    /// Numbers that contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// It did not come to its end.
    #[error("{0}")]
    Failed(String),
}
