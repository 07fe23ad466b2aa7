//! What MAC and PCS exchange at the CGMII (clause 81): columns of eight octets, each data or control.

/// Idle.
pub const IDLE: u8 = 0x07;
/// A frame begins.
pub const START: u8 = 0xfb;
/// A frame has ended.
pub const TERMINATE: u8 = 0xfd;
/// Something here is wrong.
pub const ERROR: u8 = 0xfe;
/// A sequence ordered set, such as local fault.
pub const SEQUENCE: u8 = 0x9c;
/// A signal ordered set.
pub const SIGNAL: u8 = 0x5c;

/// Eight octets of one clock; lane 0 goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Lane 0 stands lowest.
    pub octets: u64,
    /// Bit n: lane n is a control character.
    pub control: u8,
}

/// The same octet on every lane.
const fn all(octet: u8) -> u64 {
    octet as u64 * 0x0101_0101_0101_0101
}

impl Column {
    /// Nothing is sent.
    pub const IDLE: Column = Column { octets: all(IDLE), control: 0xff };
    /// Eight times [`ERROR`].
    pub const ERROR: Column = Column { octets: all(ERROR), control: 0xff };
    /// The beginning of every frame: [`START`], six octets of preamble, the start frame delimiter (clause 46.2.2).
    pub const START: Column = Column { octets: 0xd555_5555_5555_5500 | START as u64, control: 1 };
    /// The link is down behind the receiver (clause 81.3.4).
    pub const LOCAL_FAULT: Column = Column { octets: 0x0100_0000 | SEQUENCE as u64, control: 1 };

    /// The octet of a lane.
    pub fn octet(self, lane: u32) -> u8 {
        (self.octets >> (8 * lane)) as u8
    }

    /// Whether a lane is a control character.
    pub fn is_control(self, lane: u32) -> bool {
        self.control >> lane & 1 == 1
    }
}
