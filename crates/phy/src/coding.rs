//! 64b/66b (clause 82.2.3) and the scrambler (82.2.5).

use crate::column::{Column, ERROR, IDLE, SEQUENCE, SIGNAL, START, TERMINATE};

/// Sync header of a data block, 01 on the wire: its first bit is the lowest.
pub const DATA: u8 = 0b10;
/// Sync header of a control block, 10 on the wire.
pub const CONTROL: u8 = 0b01;
/// A sync header that no sender sends.
pub const INVALID: u8 = 0b11;

/// A block of 66 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Two bits, first on the wire.
    pub sync: u8,
    /// Bit 0 goes first.
    pub payload: u64,
}

/// Block types (figure 82-5), the first octet of a control block.
mod kind {
    pub const CONTROL: u8 = 0x1e;
    pub const START: u8 = 0x78;
    pub const ORDERED: u8 = 0x4b;
    /// A frame ends in lane n.
    pub const TERMINATE: [u8; 8] = [0x87, 0x99, 0xaa, 0xb4, 0xcc, 0xd2, 0xe1, 0xff];
}

/// The upper half of the block type with this lower half: the sixteen of the 64b/66b code have different ones, so that
/// transcoding may drop it (clause 91.5.3.5). 0 for the one that is none.
pub const UPPER_NIBBLE: [u8; 16] = {
    let kinds = [0x1e, 0x2d, 0x33, 0x4b, 0x55, 0x66, 0x78, 0x87, 0x99, 0xaa, 0xb4, 0xcc, 0xd2, 0xe1, 0xff];
    let (mut upper, mut index) = ([0; 16], 0);
    while index < kinds.len() {
        upper[kinds[index] & 0xf] = (kinds[index] >> 4) as u8;
        index += 1;
    }
    upper
};

/// Seven bits for idle and error.
const CODE_IDLE: u64 = 0x00;
const CODE_ERROR: u64 = 0x1e;
/// All lanes idle.
const CODES_IDLE: u64 = 0;
/// Four bits for the two ordered sets.
const ORDERED_SEQUENCE: u64 = 0x0;
const ORDERED_SIGNAL: u64 = 0xf;

/// All lanes of a block of errors.
const ERRORS: u64 = {
    let (mut payload, mut lane) = (kind::CONTROL as u64, 0);
    while lane < 8 {
        payload |= CODE_ERROR << (8 + 7 * lane);
        lane += 1;
    }
    payload
};

/// What a block or column is, for the state diagrams (82.2.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Control,
    Start,
    Data,
    Terminate,
    Error,
}

/// Where sending and receiving are (figures 82-16 and 82-17).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Init,
    Control,
    Data,
    Terminate,
    Error,
}

impl State {
    /// The next state; `after` is the type of what follows, which a receiver looks at behind the end of a frame.
    fn next(self, kind: Type, after: Option<Type>) -> State {
        match (self, kind) {
            (_, Type::Control) if self != State::Data => State::Control,
            (State::Init | State::Control | State::Terminate, Type::Start) => State::Data,
            (State::Data | State::Error, Type::Data) => State::Data,
            (State::Data | State::Error, Type::Terminate) if matches!(after, None | Some(Type::Start | Type::Control)) => State::Terminate,
            _ => State::Error,
        }
    }
}

/// The code of a control character at this lane.
fn code(column: Column, lane: u32) -> Option<u64> {
    match column.octet(lane) {
        IDLE if column.is_control(lane) => Some(CODE_IDLE),
        ERROR if column.is_control(lane) => Some(CODE_ERROR),
        _ => None,
    }
}

fn character(payload: u64, lane: u32) -> Option<u8> {
    match payload >> (8 + 7 * lane) & 0x7f {
        CODE_IDLE => Some(IDLE),
        CODE_ERROR => Some(ERROR),
        _ => None,
    }
}

/// A column as a block, whatever came before.
#[inline]
fn block_of(column: Column) -> (Type, Block) {
    if column.control == 0 { (Type::Data, Block { sync: DATA, payload: column.octets }) } else { control_block_of(column) }
}

/// The same for one that is not all data.
fn control_block_of(column: Column) -> (Type, Block) {
    let wrong = (Type::Error, Block { sync: CONTROL, payload: ERRORS });
    // Lanes from `from` on: nearly always idle.
    let codes = |from: u32| {
        if from >= 8 || (column.octets ^ Column::IDLE.octets) >> (8 * from) == 0 {
            return Some(CODES_IDLE);
        }
        (from..8).try_fold(0u64, |sum, lane| Some(sum | code(column, lane)? << (8 + 7 * lane)))
    };
    let control = |kind: u8, payload: u64| Block { sync: CONTROL, payload: u64::from(kind) | payload };
    match column.control {
        1 => match column.octet(0) {
            START => (Type::Start, control(kind::START, column.octets & !0xff)),
            octet @ (SEQUENCE | SIGNAL) if column.octets >> 32 == 0 => {
                let code = if octet == SEQUENCE { ORDERED_SEQUENCE } else { ORDERED_SIGNAL };
                (Type::Control, control(kind::ORDERED, column.octets & 0xffff_ff00 | code << 32))
            }
            _ => wrong,
        },
        lanes => {
            let first = lanes.trailing_zeros();
            if lanes != 0xff << first {
                return wrong;
            }
            if column.octet(first) == TERMINATE {
                let data = (column.octets & !(u64::MAX << (8 * first))) << 8;
                return codes(first + 1).map_or(wrong, |codes| (Type::Terminate, control(kind::TERMINATE[first as usize], data | codes)));
            }
            if first > 0 {
                return wrong;
            }
            codes(0).map_or(wrong, |codes| (Type::Control, control(kind::CONTROL, codes)))
        }
    }
}

/// A block as a column.
#[inline]
fn column_of(block: Block) -> (Type, Column) {
    if block.sync == DATA { (Type::Data, Column { octets: block.payload, control: 0 }) } else { control_column_of(block) }
}

/// The same for one that is not all data.
fn control_column_of(block: Block) -> (Type, Column) {
    let wrong = (Type::Error, Column::ERROR);
    let payload = block.payload;
    // Lanes from `from` on: nearly always idle.
    let characters = |from: u32| {
        if from >= 8 || payload >> (8 + 7 * from) == CODES_IDLE {
            return Some(Column::IDLE.octets & u64::MAX.checked_shl(8 * from).unwrap_or(0));
        }
        (from..8).try_fold(0u64, |sum, lane| Some(sum | u64::from(character(payload, lane)?) << (8 * lane)))
    };
    match (block.sync, payload as u8) {
        (CONTROL, kind::CONTROL) => characters(0).map_or(wrong, |octets| (Type::Control, Column { octets, control: 0xff })),
        (CONTROL, kind::START) => (Type::Start, Column { octets: payload & !0xff | u64::from(START), control: 1 }),
        (CONTROL, kind::ORDERED) => {
            let octet = match payload >> 32 & 0xf {
                ORDERED_SEQUENCE => SEQUENCE,
                ORDERED_SIGNAL => SIGNAL,
                _ => return wrong,
            };
            (Type::Control, Column { octets: payload & 0xffff_ff00 | u64::from(octet), control: 1 })
        }
        (CONTROL, other) => {
            let Some(lane) = kind::TERMINATE.iter().position(|&kind| kind == other) else { return wrong };
            let lane = lane as u32;
            let data = payload >> 8 & !(u64::MAX << (8 * lane));
            characters(lane + 1).map_or(wrong, |octets| {
                (Type::Terminate, Column { octets: octets | data | u64::from(TERMINATE) << (8 * lane), control: 0xff << lane })
            })
        }
        _ => wrong,
    }
}

/// Columns to blocks, not scrambled.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    state: State,
}

impl Encoder {
    /// The next block; one of errors where the column cannot stand there.
    #[inline]
    pub fn encode(&mut self, column: Column) -> Block {
        let (kind, block) = block_of(column);
        self.state = self.state.next(kind, None);
        if self.state == State::Error { Block { sync: CONTROL, payload: ERRORS } } else { block }
    }
}

/// Blocks to columns. The end of a frame counts only when it is clear what follows, so it is one block behind.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    state: State,
    /// The block before, once there is one.
    held: Option<Type>,
    octets: u64,
    control: u8,
}

impl Decoder {
    /// Takes a block, gives the column of the one before.
    #[inline]
    pub fn decode(&mut self, block: Block) -> Option<Column> {
        // In the midst of a frame, where most blocks are, only octets change.
        if block.sync == DATA && self.state == State::Data && self.held == Some(Type::Data) {
            return Some(Column { octets: std::mem::replace(&mut self.octets, block.payload), control: 0 });
        }
        let (after, next) = column_of(block);
        let octets = std::mem::replace(&mut self.octets, next.octets);
        let control = std::mem::replace(&mut self.control, next.control);
        self.state = self.state.next(self.held.replace(after)?, Some(after));
        Some(if self.state == State::Error { Column::ERROR } else { Column { octets, control } })
    }
}

/// 64 bits behind 64 others: what x^39 and x^58 bring from the bits before.
fn carried(before: u64) -> u64 {
    before >> 25 ^ before >> 6
}

/// Self-synchronous scrambler, 1 + x^39 + x^58, a payload at a time.
#[derive(Clone, Debug)]
pub struct Scrambler {
    before: u64,
}

impl Default for Scrambler {
    fn default() -> Scrambler {
        // Any value will do; not zeros, for they would let zeros through.
        Scrambler { before: u64::MAX }
    }
}

impl Scrambler {
    /// The next 64 bits.
    #[inline]
    pub fn scramble(&mut self, payload: u64) -> u64 {
        // Bit i is in(i) + out(i - 39) + out(i - 58). The lowest 39 bits need only what was before, and are all that
        // the others need of this word.
        let low = payload ^ carried(self.before);
        self.before = low ^ low << 39 ^ low << 58;
        self.before
    }
}

/// Undoes the [`Scrambler`], whatever that began with: after 58 bits it knows.
#[derive(Clone, Debug, Default)]
pub struct Descrambler {
    before: u64,
}

impl Descrambler {
    /// The next 64 bits.
    #[inline]
    pub fn descramble(&mut self, payload: u64) -> u64 {
        let before = std::mem::replace(&mut self.before, payload);
        payload ^ carried(before) ^ payload << 39 ^ payload << 58
    }
}

/// What scrambling adds to the first bits (less than 39) of the payload behind `before`.
pub fn keystream(before: u64) -> u64 {
    carried(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The scrambler of figure 49-8, a bit at a time.
    fn bit_by_bit(words: &[u64]) -> Vec<u64> {
        let mut register = [true; 58];
        let scramble = |&word: &u64| {
            (0..64).fold(0, |sum, bit| {
                let out = (word >> bit & 1 == 1) ^ register[38] ^ register[57];
                register.rotate_right(1);
                register[0] = out;
                sum | u64::from(out) << bit
            })
        };
        words.iter().map(scramble).collect()
    }

    fn terminate(lane: usize, data: u64) -> Column {
        let mut octets = [IDLE; 8];
        octets[..lane].copy_from_slice(&data.to_le_bytes()[..lane]);
        octets[lane] = TERMINATE;
        Column { octets: u64::from_le_bytes(octets), control: 0xff << lane }
    }

    #[test]
    fn blocks_are_those_of_figure_82_5() {
        assert_eq!(block_of(Column::IDLE).1, Block { sync: CONTROL, payload: 0x1e });
        assert_eq!(block_of(Column::START).1, Block { sync: CONTROL, payload: 0xd555_5555_5555_5578 });
        assert_eq!(block_of(Column::LOCAL_FAULT).1, Block { sync: CONTROL, payload: 0x0000_0000_0100_004b });
        let ends = [0x87, 0x5599, 0x6655aa, 0x776655b4, 0x88776655cc, 0x9988776655d2, 0x00aa_9988_7766_55e1, 0xbbaa_9988_7766_55ff];
        for (lane, payload) in ends.into_iter().enumerate() {
            assert_eq!(block_of(terminate(lane, 0x00bb_aa99_8877_6655)).1, Block { sync: CONTROL, payload });
        }
        // An error behind the end: seven bits at the place of its lane.
        let column = Column { octets: terminate(1, 0x55).octets & !(0xff << 56) | u64::from(ERROR) << 56, control: 0xfe };
        assert_eq!(block_of(column).1.payload, 0x5599 | 0x1e << 57);
        for column in
            [Column { octets: 0, control: 0x10 }, Column { octets: 0x1234, control: 0xff }, Column { octets: START.into(), control: 3 }]
        {
            assert_eq!(block_of(column).0, Type::Error);
        }
    }

    #[test]
    fn the_lower_halves_of_all_block_types_differ() {
        let kinds = [kind::CONTROL, kind::START, kind::ORDERED].into_iter().chain(kind::TERMINATE);
        for kind in kinds {
            assert_eq!(UPPER_NIBBLE[usize::from(kind & 0xf)], kind >> 4);
        }
        assert_eq!(UPPER_NIBBLE.iter().filter(|&&upper| upper == 0).count(), 1);
    }

    #[test]
    fn an_error_next_to_a_frame_takes_the_frame_with_it() {
        let run = |columns: &[Column]| {
            let (mut decoder, mut out) = (Decoder::default(), Vec::new());
            for &column in columns {
                let block = if column == Column::ERROR { Block { sync: INVALID, payload: 0 } } else { block_of(column).1 };
                out.extend(decoder.decode(block));
            }
            out
        };
        let (data, end, error) = (Column { octets: 7, control: 0 }, terminate(3, 5), Column::ERROR);
        let good = [Column::IDLE, Column::START, data, end, Column::IDLE, Column::IDLE];
        assert_eq!(run(&good), good[..5]);
        // In front of it: its start is an error too. Behind: its end.
        assert_eq!(run(&[error, Column::START, data, end, Column::IDLE]), [error, error, data, end]);
        assert_eq!(run(&[Column::IDLE, Column::START, data, end, error, error]), [Column::IDLE, Column::START, data, error, error]);
        // Two frames without anything between are two frames.
        let next = [Column::IDLE, Column::START, data, end, Column::START, data, end, Column::IDLE];
        assert_eq!(run(&next), next[..7]);
    }

    proptest! {
        #[test]
        fn whole_words_are_scrambled_as_bits_are(words in prop::collection::vec(any::<u64>(), 1..20), start in any::<u64>()) {
            let mut scrambler = Scrambler::default();
            let scrambled: Vec<u64> = words.iter().map(|&word| scrambler.scramble(word)).collect();
            prop_assert_eq!(&scrambled, &bit_by_bit(&words));
            let mut descrambler = Descrambler { before: start };
            let plain: Vec<u64> = scrambled.iter().map(|&word| descrambler.descramble(word)).collect();
            prop_assert_eq!(&plain[1..], &words[1..]);
            prop_assert_eq!(plain[0] >> 58, words[0] >> 58);
        }

        #[test]
        fn columns_come_back(kind in 0usize..12, data in any::<u64>(), errors in any::<u8>()) {
            let mut column = match kind {
                0..8 => terminate(kind, data),
                8 => Column::IDLE,
                9 => Column { octets: data & !0xff | u64::from(START), control: 1 },
                10 => Column { octets: data & 0xffff_ff00 | u64::from(if errors & 1 == 0 { SEQUENCE } else { SIGNAL }), control: 1 },
                _ => Column { octets: data, control: 0 },
            };
            let whole = column;
            for lane in (0..8).filter(|&lane| errors >> lane & 1 == 1 && whole.is_control(lane) && whole.octet(lane) == IDLE) {
                column.octets = column.octets & !(0xff << (8 * lane)) | u64::from(ERROR) << (8 * lane);
            }
            let (kind, block) = block_of(column);
            prop_assert_eq!(column_of(block), (kind, column));
        }

        #[test]
        fn any_blocks_are_survived(blocks in prop::collection::vec((0u8..4, any::<u64>()), 0..50)) {
            let mut decoder = Decoder::default();
            for (sync, payload) in blocks {
                decoder.decode(Block { sync, payload });
            }
        }
    }
}
