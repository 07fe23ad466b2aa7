//! Any bits on the four lanes of a 100GBASE-R receiver, alone and mixed into what a sender sends: it takes them all,
//! and makes no frame that was not sent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_phy::Bits;
use narrows_phy::fec::FEC_LANES;
use narrows_phy::link::{Receiver, Sender};
use narrows_phy::mac::Received;
use narrows_phy::pcs::{Collector, Distance};

const FRAME: &[u8] = b"to....from..\x88\xb5 the only frame that is ever sent here";

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let distance = Distance::rows(8);
    let (mut sender, mut receiver) = (Sender::new(distance), Receiver::new(distance, first & 1 == 0));
    let mut lanes: [Bits; FEC_LANES] = Default::default();
    if first & 2 == 0 {
        sender.idle(20 * 32, &mut lanes);
    }
    // An octet says what comes next: frames, bits out of nothing on a lane, or a flipped bit.
    let mut octets = rest.iter().copied();
    while let (Some(what), Some(value)) = (octets.next(), octets.next()) {
        let lane = usize::from(what & 3);
        match what >> 2 & 3 {
            0 => sender.send(&FRAME[..14 + usize::from(value) % (FRAME.len() - 14)], &mut lanes),
            1 => lanes[lane].push(value.into(), 1 + u32::from(what >> 5)),
            2 => (0..8).for_each(|n| lanes[lane].push(u64::from(value).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> n, 64)),
            _ if lanes[lane].is_empty() => {}
            _ => {
                let place = usize::from(value) << 4 | usize::from(what >> 4);
                let length = lanes[lane].len();
                lanes[lane].flip(place % length);
            }
        }
        if what & 0x80 != 0 {
            deliver(&mut lanes, &mut receiver);
        }
    }
    sender.idle(20 * 16, &mut lanes);
    deliver(&mut lanes, &mut receiver);
    // The same as PCS lanes.
    let mut collector = Collector::new(distance);
    for (number, chunk) in rest.chunks(1 + rest.len() / 20).enumerate().take(20) {
        chunk.iter().for_each(|&octet| collector.wire(number).push(octet.into(), 8));
    }
    collector.collect(|_| {});
});

fn deliver(lanes: &mut [Bits; FEC_LANES], receiver: &mut Receiver) {
    for (number, lane) in lanes.iter_mut().enumerate() {
        receiver.wire(number).append(lane);
        lane.skip(lane.len());
    }
    receiver.receive(|received| {
        if let Received::Frame(data) = received {
            assert!(data.len() == 60 && data.starts_with(&FRAME[..14]), "a frame out of nothing");
        }
    });
}
