//! Which protocol, and its thresholds.

/// How long messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rendezvous {
    /// The receiver fetches.
    Get,
    /// The receiver answers, then the sender puts.
    Put,
}

/// Protocol thresholds, from the machine file. All processes of a run have the same.
#[derive(Clone, Debug)]
pub struct MessageConfig {
    /// Longest eager message, bytes.
    pub eager_limit: u64,
    /// Longest message that is copied when it is sent, so that its buffer is free when the call returns, bytes
    /// (libfabric's inject_size).
    pub inject_limit: u64,
    /// Protocol beyond `eager_limit`.
    pub rendezvous: Rendezvous,
    /// Bytes of one overflow block.
    pub overflow_block: u64,
    /// Overflow blocks that are kept posted, for each of the two queues.
    pub overflow_blocks: u32,
    /// Longest put or get; longer rendezvous messages are cut (BXI: 64 MiB).
    pub max_portals_message: u64,
}

impl MessageConfig {
    /// Whether the thresholds fit together.
    ///
    /// # Errors
    ///
    /// The first rule that is broken, with both numbers.
    pub fn check(&self) -> Result<(), ConfigError> {
        let MessageConfig { eager_limit, inject_limit, overflow_block, overflow_blocks, max_portals_message, .. } = *self;
        if inject_limit > eager_limit {
            return Err(ConfigError::InjectAboveEager { inject_limit, eager_limit });
        }
        if eager_limit > max_portals_message || max_portals_message == 0 {
            return Err(ConfigError::EagerAbovePortals { eager_limit, max_portals_message });
        }
        if overflow_block < eager_limit.max(1) || overflow_blocks == 0 {
            return Err(ConfigError::NoRoomForUnexpected { overflow_blocks, overflow_block, eager_limit });
        }
        Ok(())
    }
}

/// A [`MessageConfig`] whose thresholds contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An injected message must be eager.
    #[error("the inject limit ({inject_limit} B) must not exceed the eager limit ({eager_limit} B)")]
    InjectAboveEager {
        /// As configured, bytes.
        inject_limit: u64,
        /// As configured, bytes.
        eager_limit: u64,
    },
    /// An eager message is one put.
    #[error(
        "the eager limit ({eager_limit} B) must not exceed the longest Portals message ({max_portals_message} B), which must not be zero"
    )]
    EagerAbovePortals {
        /// As configured, bytes.
        eager_limit: u64,
        /// As configured, bytes.
        max_portals_message: u64,
    },
    /// Each overflow block must take an eager message.
    #[error("{overflow_blocks} overflow blocks of {overflow_block} B cannot take an eager message of {eager_limit} B")]
    NoRoomForUnexpected {
        /// As configured.
        overflow_blocks: u32,
        /// As configured, bytes.
        overflow_block: u64,
        /// As configured, bytes.
        eager_limit: u64,
    },
}
