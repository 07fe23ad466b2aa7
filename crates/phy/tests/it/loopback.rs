//! Frames through sender, lanes and receiver, with every order of the lanes and any skew.

use narrows_engine::stream;
use narrows_phy::fec::{self, FEC_LANES};
use narrows_phy::link::{Receiver, Sender};
use narrows_phy::mac::{Control, Received};
use narrows_phy::marker::PCS_LANES;
use narrows_phy::pcs::{self, Collector, Distance, Distributor};
use narrows_phy::{Bits, channel::Errors, coding};
use proptest::prelude::*;

fn orders() -> Vec<[usize; FEC_LANES]> {
    let mut orders = Vec::new();
    for code in 0..256 {
        let order: [usize; 4] = std::array::from_fn(|lane| code >> (2 * lane) & 3);
        if (0..4).all(|wire| order.contains(&wire)) {
            orders.push(order);
        }
    }
    assert_eq!(orders.len(), 24);
    orders
}

fn frames(seed: u64, count: u64, size_max: u64) -> Vec<Vec<u8>> {
    let mut random = stream(seed, "frames", 0);
    let frame = |random: &mut narrows_engine::random::Stream| -> Vec<u8> {
        (0..60 + random.below(size_max - 60)).map(|_| random.next_u64() as u8).collect()
    };
    (0..count).map(|_| frame(&mut random)).collect()
}

/// What a receiver gets that is there from the beginning.
fn through(
    sent: &[Vec<u8>],
    distance: Distance,
    order: [usize; FEC_LANES],
    skews: [usize; FEC_LANES],
    rate: f64,
    seed: u64,
) -> (Vec<Vec<u8>>, Receiver) {
    let mut random = stream(seed, "channel", 0);
    let mut random = || random.next_u64();
    let mut errors: Vec<Errors> = (0..FEC_LANES).map(|_| Errors::new(rate, &mut random)).collect();
    let (mut sender, mut receiver) = (Sender::new(distance), Receiver::new(distance, false));
    for (lane, &wire) in order.iter().enumerate() {
        (0..skews[lane]).for_each(|_| receiver.wire(wire).push(random(), 1));
    }
    let mut received = Vec::new();
    let mut lanes: [Bits; FEC_LANES] = std::array::from_fn(|_| Bits::new());
    let mut deliver = |lanes: &mut [Bits; FEC_LANES]| {
        for (number, lane) in lanes.iter_mut().enumerate() {
            errors[number].inject(lane, 0, &mut random);
            receiver.wire(order[number]).append(lane);
            lane.skip(lane.len());
        }
        receiver.receive(|frame| {
            if let Received::Frame(data) = frame {
                received.push(data.to_vec());
            }
        });
    };
    // Two periods until the lanes are found.
    for _ in 0..3 * distance.get() {
        sender.idle(20, &mut lanes);
        deliver(&mut lanes);
    }
    for frame in sent {
        sender.send(frame, &mut lanes);
        deliver(&mut lanes);
    }
    sender.idle(20 * 40, &mut lanes);
    deliver(&mut lanes);
    (received, receiver)
}

#[test]
fn frames_come_through_every_order_of_the_lanes() {
    let distance = Distance::rows(64);
    let mut random = stream(1, "skews", 0);
    for (index, order) in orders().into_iter().enumerate() {
        // Any skews, and the longest between one lane and the others.
        let any = std::array::from_fn(|_| random.below(fec::SKEW_MAX as u64 + 1) as usize);
        let longest = std::array::from_fn(|lane| if lane == index % FEC_LANES { fec::SKEW_MAX } else { 0 });
        for skews in [any, longest] {
            let sent = frames(index as u64, 60, 1500);
            let (received, receiver) = through(&sent, distance, order, skews, 0.0, 1);
            assert!(received == sent, "{} of {} frames, {order:?}, skews {skews:?}", received.len(), sent.len());
            assert_eq!(receiver.order(), Some(order));
            assert_eq!(receiver.counters().lost, 0);
        }
    }
}

#[test]
fn markers_at_the_distance_of_the_standard() {
    let sent = frames(5, 2000, 9000);
    let (received, receiver) = through(&sent, Distance::STANDARD, [2, 0, 3, 1], [0, 4640, 17, 2222], 1e-4, 1);
    assert!(received == sent, "{} of {} frames", received.len(), sent.len());
    let counters = receiver.counters();
    assert_eq!((counters.lost, counters.alignments), (0, 1));
    // Four lanes are all as bad: 1e-4 is a wrong symbol in 1000 bits.
    let symbols = counters.codewords as f64 * 132.0;
    let (mean, deviation) = (symbols * 1e-3, (symbols * 1e-3).sqrt());
    for &corrected in &counters.corrected {
        assert!((corrected as f64 - mean).abs() < 5.0 * deviation, "{corrected} corrected, {mean} +- {deviation}");
    }
}

#[test]
fn three_lost_codewords_in_a_row_begin_a_new_search() {
    let distance = Distance::rows(64);
    let (mut sender, mut receiver) = (Sender::new(distance), Receiver::new(distance, false));
    let mut lanes: [Bits; FEC_LANES] = std::array::from_fn(|_| Bits::new());
    sender.idle(20 * 63 * 10, &mut lanes);
    // Markers stand every 16 codewords; the codewords from 40 on are full of errors.
    for codeword in 40..43 {
        (0..8).for_each(|symbol| lanes[1].flip(1320 * codeword + 10 * symbol + 600));
    }
    for (number, lane) in lanes.iter().enumerate() {
        receiver.wire(number).append(lane);
    }
    receiver.receive(|frame| panic!("{frame:?}"));
    let counters = receiver.counters();
    // Found with the markers of codeword 16, and again with those of 64.
    assert_eq!((counters.lost, counters.three_lost, counters.alignments), (3, 1, 2));
    assert_eq!(counters.codewords, 43 - 16 + 160 - 64);
}

#[test]
fn pcs_lanes_between_two_devices_and_fec_behind() {
    // PCS -> 20 lanes with skew, in another order -> RS-FEC -> 4 lanes -> RS-FEC -> 20 lanes -> PCS.
    let distance = Distance::rows(64);
    let mut random = stream(9, "blocks", 0);
    let (mut distributor, mut scrambler) = (Distributor::new(distance), coding::Scrambler::default());
    let (mut sent, mut lanes) = (Vec::new(), std::array::from_fn(|_| Bits::new()));
    for _ in 0..20 * 64 * 12 {
        let control = random.below(4) == 0;
        let payload = scrambler.scramble(if control { random.next_u64() << 8 | 0x1e } else { random.next_u64() });
        distributor.push(coding::Block { sync: if control { coding::CONTROL } else { coding::DATA }, payload }, |row| {
            pcs::send(row, &mut lanes);
            sent.push(row.clone());
        });
    }
    let mut over = |collector: &mut Collector, lanes: &[Bits; PCS_LANES]| {
        for (number, lane) in lanes.iter().enumerate() {
            let wire = collector.wire((number * 7 + 3) % PCS_LANES);
            (0..random.below(pcs::SKEW_MAX as u64)).for_each(|_| wire.push(0, 1));
            wire.append(lane);
        }
    };
    let (mut first, mut second) = (Collector::new(distance), Collector::new(distance));
    over(&mut first, &lanes);
    let (mut fec, mut wires) = (fec::Sender::default(), std::array::from_fn(|_| Bits::new()));
    first.collect(|row| fec.send(row, &mut wires));
    let mut receiver = fec::Receiver::new(distance, false);
    for (number, wire) in wires.iter().enumerate() {
        receiver.wire(3 - number).append(wire);
    }
    let mut again = std::array::from_fn(|_| Bits::new());
    receiver.receive(|row| pcs::send(row, &mut again));
    over(&mut second, &again);
    let mut received = Vec::new();
    second.collect(|row| received.push(row.clone()));
    assert_eq!((first.bip_errors, second.bip_errors), ([0; PCS_LANES], [0; PCS_LANES]));
    assert!(received.len() > 64 * 6);
    // Each search costs a period. The first block behind a search has no block before it, by which its type's upper
    // half was scrambled: behind it all is as it was sent.
    let start = sent.windows(2).position(|rows| rows[0].markers && rows[1] == received[1]).unwrap();
    assert!(received[..] == sent[start..start + received.len()]);
}

#[test]
fn flow_control_frames_come_through() {
    let control = Control::PriorityPause([Some(1), None, Some(0xffff), None, None, None, None, Some(0)]);
    let (received, _) = through(&[control.frame([2; 6])], Distance::rows(64), [0, 1, 2, 3], [0; 4], 0.0, 1);
    assert_eq!(received.len(), 1);
    assert_eq!(Control::of(&received[0]), Some(control));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn errors_never_make_a_frame_that_was_not_sent(
        seed in any::<u64>(),
        rate in prop::sample::select(vec![1e-4, 5e-4, 1e-3, 3e-3, 1e-2]),
        order in 0usize..24,
    ) {
        let sent = frames(seed, 80, 2000);
        let (received, _) = through(&sent, Distance::rows(64), orders()[order], [0, 10, 200, 4000], rate, seed);
        let mut rest = sent.iter();
        for frame in &received {
            prop_assert!(rest.any(|sent| sent == frame), "a frame out of nothing");
        }
        if rate <= 1e-4 {
            prop_assert_eq!(received.len(), sent.len());
        }
    }
}
