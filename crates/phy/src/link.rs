//! A whole 100GBASE-R sender and receiver with RS-FEC, as in 100GBASE-SR4, -CR4 and -KR4.

use crate::bits::Bits;
use crate::coding::{CONTROL, DATA, Decoder, Descrambler, Encoder, Scrambler};
use crate::column::Column;
use crate::fec::{self, FEC_LANES};
use crate::mac::{self, Received};
use crate::marker::PCS_LANES;
use crate::pcs::{Distance, Distributor, Row};

/// From frames to four lanes.
#[derive(Clone, Debug)]
pub struct Sender {
    mac: mac::Sender,
    coding: Coding,
}

/// All behind the MAC.
#[derive(Clone, Debug)]
struct Coding {
    encoder: Encoder,
    scrambler: Scrambler,
    distributor: Distributor,
    fec: fec::Sender,
}

impl Coding {
    fn send(&mut self, column: Column, lanes: &mut [Bits; FEC_LANES]) {
        let mut block = self.encoder.encode(column);
        block.payload = self.scrambler.scramble(block.payload);
        self.distributor.push(block, |row| self.fec.send(row, lanes));
    }
}

impl Sender {
    /// With markers at this distance.
    pub fn new(distance: Distance) -> Sender {
        let coding = Coding {
            encoder: Encoder::default(),
            scrambler: Scrambler::default(),
            distributor: Distributor::new(distance),
            fec: fec::Sender::default(),
        };
        Sender { mac: mac::Sender::default(), coding }
    }

    /// A frame from its destination address to the end of its data.
    pub fn send(&mut self, data: &[u8], lanes: &mut [Bits; FEC_LANES]) {
        self.mac.send(data, |column| self.coding.send(column, lanes));
    }

    /// Nothing, for so many columns of 8 octets.
    pub fn idle(&mut self, columns: usize, lanes: &mut [Bits; FEC_LANES]) {
        (0..columns).for_each(|_| self.coding.send(Column::IDLE, lanes));
    }
}

/// So many invalid sync headers in a window are a high bit error rate (clause 82.2.15): a receiver takes nothing more.
const HIGH_BER: u32 = 97;
/// Blocks in 500 us.
const HIGH_BER_WINDOW: u32 = 781_250;

/// From four lanes to frames.
#[derive(Clone, Debug)]
pub struct Receiver {
    fec: fec::Receiver,
    coding: Decoding,
}

#[derive(Clone, Debug, Default)]
struct Decoding {
    descrambler: Descrambler,
    decoder: Decoder,
    mac: mac::Receiver,
    /// Blocks of the window, invalid ones among them, windows with too many.
    window: (u32, u32),
    high_ber: u64,
}

impl Decoding {
    fn receive(&mut self, row: &Row, out: &mut impl FnMut(Received<'_>)) {
        if row.markers {
            return;
        }
        for mut block in row.blocks {
            if !matches!(block.sync, DATA | CONTROL) {
                self.window.1 += 1;
                self.high_ber += u64::from(self.window.1 == HIGH_BER);
            }
            block.payload = self.descrambler.descramble(block.payload);
            if let Some(column) = self.decoder.decode(block) {
                self.mac.receive(column, &mut *out);
            }
        }
        self.window.0 += PCS_LANES as u32;
        if self.window.0 >= HIGH_BER_WINDOW {
            self.window = (0, 0);
        }
    }
}

impl Receiver {
    /// For markers at this distance; a `steadfast` one keeps its lanes whatever is lost ([`fec::Receiver::new`]).
    pub fn new(distance: Distance, steadfast: bool) -> Receiver {
        Receiver { fec: fec::Receiver::new(distance, steadfast), coding: Decoding::default() }
    }

    /// Where what arrives on a lane of the wire goes to.
    pub fn wire(&mut self, lane: usize) -> &mut Bits {
        self.fec.wire(lane)
    }

    /// The lane of the wire that carries each FEC lane, while all are side by side.
    pub fn order(&self) -> Option<[usize; FEC_LANES]> {
        self.fec.order()
    }

    /// What was seen so far.
    pub fn counters(&self) -> &fec::Counters {
        &self.fec.counters
    }

    /// Windows of 500 us in which the bit error rate was high: a receiver of clause 82 says local fault in them, this
    /// one counts.
    pub fn high_ber_windows(&self) -> u64 {
        self.coding.high_ber
    }

    /// Works on all that has come.
    pub fn receive(&mut self, mut out: impl FnMut(Received<'_>)) {
        self.fec.receive(|row| self.coding.receive(row, &mut out));
    }
}
