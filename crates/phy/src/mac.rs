//! The MAC (clauses 3, 4, 31 and annexes 31B, 31D): frames to columns and back.

use crate::column::{Column, ERROR, START, TERMINATE};
use crate::crc::crc32;

/// A frame has so many bytes at least, from the destination address to the FCS.
pub const FRAME_MIN: usize = 64;
/// And here so many at most: more than any jumbo frame.
pub const FRAME_MAX: usize = 16 * 1024;
/// Preamble and start frame delimiter.
pub const PREAMBLE: usize = 8;
/// Frame check sequence.
pub const FCS: usize = 4;
/// Between two frames, on average.
pub const GAP: usize = 12;
/// Control frames have this type.
pub const CONTROL_TYPE: u16 = 0x8808;
const PAUSE: u16 = 0x0001;
const PRIORITY_PAUSE: u16 = 0x0101;
/// Where control frames go to; nobody forwards them.
pub const CONTROL_ADDRESS: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];

/// Flow control (annexes 31B and 31D). Times are quanta of 512 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Stop sending for so long.
    Pause(u16),
    /// The same per priority; `None` leaves one alone.
    PriorityPause([Option<u16>; 8]),
}

impl Control {
    /// As a frame without FCS: 60 bytes.
    pub fn frame(&self, source: [u8; 6]) -> Vec<u8> {
        let mut frame = [&CONTROL_ADDRESS[..], &source, &CONTROL_TYPE.to_be_bytes()].concat();
        match self {
            Control::Pause(quanta) => frame.extend([PAUSE, *quanta].iter().flat_map(|word| word.to_be_bytes())),
            Control::PriorityPause(times) => {
                let enabled = (0..8).filter(|&priority| times[priority].is_some()).fold(0, |sum, priority| sum | 1u16 << priority);
                let times = times.iter().map(|time| time.unwrap_or(0));
                frame.extend([PRIORITY_PAUSE, enabled].into_iter().chain(times).flat_map(u16::to_be_bytes));
            }
        }
        frame.resize(FRAME_MIN - FCS, 0);
        frame
    }

    /// What a received frame asks for, if it is one of these.
    pub fn of(frame: &[u8]) -> Option<Control> {
        let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
        if frame.get(..6)? != CONTROL_ADDRESS || word(12)? != CONTROL_TYPE {
            return None;
        }
        match word(14)? {
            PAUSE => Some(Control::Pause(word(16)?)),
            PRIORITY_PAUSE => {
                let enabled = word(16)?;
                let mut times = [None; 8];
                for (priority, time) in times.iter_mut().enumerate() {
                    let quanta = word(18 + 2 * priority)?;
                    *time = (enabled >> priority & 1 == 1).then_some(quanta);
                }
                Some(Control::PriorityPause(times))
            }
            _ => None,
        }
    }
}

/// Sends frames.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// By how much the gaps so far were shorter than [`GAP`] (deficit idle count, clause 81.3.1.4): a frame begins in
    /// lane 0 only, so a gap is up to 7 bytes too short or too long; 0 to 7.
    deficit: usize,
    frame: Vec<u8>,
}

impl Sender {
    /// A frame from its destination address to the end of its data; what is too short is padded with zeros, and the FCS
    /// is added. Gives columns until the next frame may begin.
    pub fn send(&mut self, data: &[u8], mut out: impl FnMut(Column)) {
        self.frame.clear();
        self.frame.extend_from_slice(data);
        self.frame.resize(data.len().max(FRAME_MIN - FCS), 0);
        self.frame.extend(crc32(&self.frame).to_le_bytes());
        out(Column::START);
        let mut words = self.frame.chunks_exact(8);
        for word in &mut words {
            out(Column { octets: u64::from_le_bytes(word.try_into().expect("chunks of 8")), control: 0 });
        }
        // The gap begins with the octet that says that the frame is over.
        let (rest, lane) = (words.remainder(), words.remainder().len());
        let end = Column::IDLE.octets << 8 | u64::from(TERMINATE);
        let octets = rest.iter().rev().fold(end, |octets, &octet| octets << 8 | u64::from(octet));
        out(Column { octets, control: 0xff << lane });
        let over = (lane + GAP) % 8;
        let gap = if self.deficit + over <= 7 {
            self.deficit += over;
            GAP - over
        } else {
            self.deficit -= 8 - over;
            GAP + 8 - over
        };
        for _ in 1..(lane + gap) / 8 {
            out(Column::IDLE);
        }
    }
}

/// What a receiver says of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// From the destination address to the end of the data, with the padding.
    Frame(&'a [u8]),
    /// It was not received.
    Bad(Defect),
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// An error character, or control where data should be.
    Coding,
    /// Shorter than 64 bytes.
    Short,
    /// Longer than [`FRAME_MAX`].
    Long,
    /// The FCS is another one.
    Fcs,
}

/// Receives frames. Gaps may be as short as one octet.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    frame: Vec<u8>,
    inside: bool,
}

impl Receiver {
    /// One column.
    pub fn receive(&mut self, column: Column, mut out: impl FnMut(Received<'_>)) {
        if self.inside && column.control == 0 {
            if self.frame.len() + 8 > FRAME_MAX {
                self.inside = false;
                out(Received::Bad(Defect::Long));
                return;
            }
            self.frame.extend_from_slice(&column.octets.to_le_bytes());
            return;
        }
        if self.inside {
            self.inside = false;
            let lane = column.control.trailing_zeros();
            if column.octet(lane) == TERMINATE && (lane + 1..8).all(|lane| column.is_control(lane) && column.octet(lane) != ERROR) {
                self.frame.extend_from_slice(&column.octets.to_le_bytes()[..lane as usize]);
                out(self.judge());
            } else {
                out(Received::Bad(Defect::Coding));
            }
        }
        // The preamble is not compared: only the delimiter says where the frame begins (clause 4.2.9).
        if column.control == 1 && column.octet(0) == START && column.octet(7) == 0xd5 {
            self.inside = true;
            self.frame.clear();
        }
    }

    fn judge(&self) -> Received<'_> {
        if self.frame.len() < FRAME_MIN {
            return Received::Bad(Defect::Short);
        }
        if self.frame.len() > FRAME_MAX {
            return Received::Bad(Defect::Long);
        }
        let (data, fcs) = self.frame.split_at(self.frame.len() - FCS);
        if crc32(data).to_le_bytes() == fcs { Received::Frame(data) } else { Received::Bad(Defect::Fcs) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn loopback(frames: &[Vec<u8>]) -> (Vec<Column>, Vec<Vec<u8>>) {
        let (mut sender, mut columns) = (Sender::default(), Vec::new());
        frames.iter().for_each(|frame| sender.send(frame, |column| columns.push(column)));
        let (mut receiver, mut received) = (Receiver::default(), Vec::new());
        for &column in &columns {
            receiver.receive(column, |frame| match frame {
                Received::Frame(data) => received.push(data.to_vec()),
                Received::Bad(defect) => panic!("{defect:?}"),
            });
        }
        (columns, received)
    }

    /// Bytes between the frames: from the terminating character to the next start.
    fn gaps(columns: &[Column]) -> Vec<usize> {
        let mut gaps = Vec::new();
        let mut gap = None;
        for column in columns {
            for lane in 0..8 {
                if column.is_control(lane) {
                    match column.octet(lane) {
                        TERMINATE => gap = Some(1),
                        START => gaps.extend(gap.take()),
                        _ => gap = gap.map(|gap| gap + 1),
                    }
                }
            }
        }
        gaps
    }

    proptest! {
        #[test]
        fn frames_come_out_padded_and_gaps_are_12_on_average(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 14..300), 2..40),
        ) {
            let (columns, received) = loopback(&frames);
            for (sent, received) in frames.iter().zip(&received) {
                let mut padded = sent.clone();
                padded.resize(sent.len().max(60), 0);
                prop_assert_eq!(&padded, received);
            }
            prop_assert_eq!(frames.len(), received.len());
            let mut deficit = 0;
            for gap in gaps(&columns) {
                prop_assert!((5..=19).contains(&gap), "gap {}", gap);
                deficit += 12 - gap as i64;
                prop_assert!((0..=7).contains(&deficit), "deficit {}", deficit);
            }
        }

        #[test]
        fn any_columns_are_survived(columns in prop::collection::vec((any::<u64>(), any::<u8>(), any::<bool>()), 0..100)) {
            let mut receiver = Receiver::default();
            for (octets, control, start) in columns {
                let column = if start { Column::START } else { Column { octets, control } };
                receiver.receive(column, |frame| assert!(matches!(frame, Received::Bad(_))));
            }
        }
    }

    #[test]
    fn a_short_frame_takes_84_bytes_of_the_wire() {
        // 148.81 million a second at 100 Gb/s.
        let (columns, _) = loopback(&vec![vec![1; 46]; 1000]);
        assert_eq!(columns.len() * 8, 84 * 1000);
    }

    #[test]
    fn every_defect_has_its_name() {
        let data = Column { octets: 0x1234, control: 0 };
        let end = Column { octets: Column::IDLE.octets & !0xff | u64::from(TERMINATE), control: 0xff };
        let said = |columns: &[Column]| {
            let (mut receiver, mut said) = (Receiver::default(), Vec::new());
            for &column in columns {
                receiver.receive(column, |frame| {
                    said.push(match frame {
                        Received::Frame(_) => None,
                        Received::Bad(defect) => Some(defect),
                    });
                });
            }
            said
        };
        let frame = |words: usize, end: Column| [vec![Column::START], vec![data; words], vec![end]].concat();
        assert_eq!(said(&frame(7, end)), [Some(Defect::Short)]);
        assert_eq!(said(&frame(8, end)), [Some(Defect::Fcs)]);
        assert_eq!(said(&frame(8, Column::ERROR)), [Some(Defect::Coding)]);
        assert_eq!(said(&frame(FRAME_MAX / 8 + 1, end)), [Some(Defect::Long)]);
        assert_eq!(
            said(&[frame(9, Column::START), frame(8, end)].concat()),
            [Some(Defect::Coding), Some(Defect::Coding), Some(Defect::Fcs)]
        );
    }

    #[test]
    fn flow_control_frames_are_64_bytes_and_read_back() {
        let source = [2, 0, 0, 0, 0, 7];
        let mut times = [None; 8];
        (times[0], times[3], times[7]) = (Some(0xffff), Some(0), Some(0x1234));
        let control = Control::PriorityPause(times);
        let frame = control.frame(source);
        assert_eq!(frame.len() + FCS, 64);
        assert_eq!(frame[..20], [1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 7, 0x88, 0x08, 1, 1, 0, 0b1000_1001, 0xff, 0xff]);
        assert!(frame[34..].iter().all(|&byte| byte == 0) && frame[34..].len() == 26);
        assert_eq!(Control::of(&frame), Some(control));
        let pause = Control::Pause(500).frame(source);
        assert_eq!(pause[12..18], [0x88, 0x08, 0, 1, 1, 0xf4]);
        assert_eq!(Control::of(&pause), Some(Control::Pause(500)));
        assert_eq!(Control::of(&[0; 60]), None);
        assert_eq!(Control::of(&frame[..20]), None);
    }
}
