//! ExaNeSt's network interface beside a slow reference: lists. Cells of the packetizer and mailbox are lost, come twice
//! and are refused, blocks find no page; every message is there once, in the order of its stream, and what is for
//! another protection domain is not.

use narrows_engine::EventQueue;
use narrows_nic::{
    Cell, Combine, Departure, Event, Exanet, ExanetConfig, ExanetNotice, Fault, Memory, Nic, Order, Out, PayloadId, Process, Stream,
    Streamed,
};
use narrows_portals::Place;
use narrows_units::{ByteRate, Bytes, PortId, SimTime};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The library's header: who sends to whom, and the message's number.
#[derive(Clone, Copy, Debug)]
struct Header(u32, u32, u32);

impl Streamed for Header {
    fn stream(&self) -> Option<Stream> {
        let Header(from, to, _) = self;
        Some((from % PROCESSES, to / PROCESSES, to % PROCESSES, 0))
    }
}

const NODES: u32 = 2;
const PROCESSES: u32 = 2;
const MOST_EVENTS: u32 = 2_000_000;

enum Due {
    Nic(PortId, Event),
    Read(PortId, u32),
    Arrives(PortId, Cell<Header>),
}

/// A network of fixed latency that loses and repeats cells, as numbers say.
struct World {
    queue: EventQueue<Due>,
    /// Of 256 cells so many are lost, and come twice.
    losses: u8,
    repeats: u8,
    random: u64,
    heard: Vec<(PortId, ExanetNotice<Header>)>,
}

impl World {
    fn chance(&mut self) -> u8 {
        // xorshift64 (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) as u8
    }
}

impl Memory for World {
    fn reserve(&mut self) -> PayloadId {
        PayloadId(0)
    }
    fn capture(&mut self, _: PayloadId, _: Process, _: Place, _: u64) -> Result<(), Fault> {
        Ok(())
    }
    fn inline(&mut self, _: PayloadId, _: Box<[u8]>) {}
    fn deliver(&mut self, _: PayloadId, _: Process, _: Place, _: u64) -> Result<(), Fault> {
        Ok(())
    }
    fn combine(&mut self, _: PayloadId, _: Process, _: Place, _: u64, _: &Combine) -> Result<(), Fault> {
        Ok(())
    }
    fn release(&mut self, _: PayloadId) {}
}

impl Out<Exanet<Header>> for World {
    fn schedule(&mut self, at: SimTime, port: PortId, event: Event) {
        self.queue.schedule(at, port.0, Due::Nic(port, event));
    }
    fn depart(&mut self, port: PortId, departure: Departure<Cell<Header>>) {
        let Departure { to, source_dma, token, header, .. } = departure;
        let now = self.queue.now();
        if source_dma {
            self.queue.schedule(now + SimTime::from_ns(300), 10 + port.0, Due::Read(port, token));
        }
        let safe = matches!(header, Cell::Block { .. } | Cell::Written(_) | Cell::Missing(..) | Cell::NotWritten(..));
        let (lost, twice) = (self.chance() < self.losses && !safe, self.chance() < self.repeats && !safe);
        if !lost {
            self.queue.schedule(now + SimTime::from_ns(400), 20 + to.0, Due::Arrives(to, header));
        }
        if twice {
            let later = SimTime::from_ns(400 + 17 * u64::from(self.chance()));
            self.queue.schedule(now + later, 30 + to.0, Due::Arrives(to, header));
        }
    }
    fn shortcut(&mut self, _: SimTime, _: PortId, _: PortId, _: Cell<Header>) {
        unreachable!("this NIC takes the network");
    }
    fn notify(&mut self, port: PortId, _: Process, notice: ExanetNotice<Header>) {
        self.heard.push((port, notice));
    }
}

#[derive(Clone, Debug)]
struct Message {
    /// When it is asked for, ns.
    at: u64,
    /// Process of all.
    from: u32,
    to: u32,
    bytes: u64,
}

fn message() -> impl Strategy<Value = Message> {
    let bytes = prop_oneof![4 => 0u64..33, 2 => 33u64..20_000, 1 => 20_000u64..200_000];
    (0u64..30_000, 0..NODES * PROCESSES, 0..NODES * PROCESSES, bytes).prop_map(|(at, from, to, bytes)| Message { at, from, to, bytes })
}

fn run(
    mut messages: Vec<Message>,
    config: &ExanetConfig,
    (losses, repeats, seed): (u8, u8, u64),
    domains: &[u16],
) -> Result<(), TestCaseError> {
    messages.sort_by_key(|message| message.at);
    let mut world = World { queue: EventQueue::new(), losses, repeats, random: seed | 1, heard: Vec::new() };
    let mut nics: Vec<Exanet<Header>> = (0..NODES).map(|node| Exanet::new(config.clone(), PortId(node))).collect();
    for process in 0..NODES * PROCESSES {
        nics[(process / PROCESSES) as usize].set_domain(process % PROCESSES, domains[process as usize]);
    }
    // The reference: what each pair of processes exchanges, in order.
    let mut expected: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    let mut denied = 0;
    let step = |nics: &mut Vec<Exanet<Header>>, world: &mut World, until: SimTime| {
        for _ in 0..MOST_EVENTS {
            if world.queue.next_time().is_none_or(|next| next > until) {
                return true;
            }
            let Some((now, due)) = world.queue.pop() else { return true };
            match due {
                Due::Nic(port, event) => nics[port.index()].handle(now, event, world),
                Due::Read(port, token) => nics[port.index()].source_done(now, token, world),
                Due::Arrives(port, cell) => {
                    let arrival = nics[port.index()].head(now, &cell, world);
                    nics[port.index()].tail(now, arrival, &cell, world);
                }
            }
        }
        false
    };
    for (number, message) in (0u32..).zip(&messages) {
        let now = SimTime::from_ns(message.at);
        prop_assert!(step(&mut nics, &mut world, now), "it never comes to rest");
        let (from, to) = (message.from, message.to);
        if domains[from as usize] == domains[to as usize] {
            expected.entry((from, to)).or_default().push(number);
        } else {
            denied += 1;
        }
        let departure = Departure {
            to: PortId(to / PROCESSES),
            virtual_network: 0,
            payload: Bytes(message.bytes),
            source_dma: message.bytes > 0,
            target_dma: message.bytes > 0,
            token: number,
            header: Header(from, to, number),
        };
        let accepted = nics[(from / PROCESSES) as usize].command(now, Process(from), Order::Message(departure), &mut world);
        prop_assert!(accepted.is_ok());
    }
    prop_assert!(step(&mut nics, &mut world, SimTime::MAX), "it never comes to rest");

    let (mut begun, mut ended, mut told) = (BTreeMap::<(u32, u32), Vec<u32>>::new(), Vec::new(), 0);
    for (port, notice) in &world.heard {
        match *notice {
            ExanetNotice::Arrived(Header(from, to, number)) | ExanetNotice::Begun(_, Header(from, to, number)) => {
                prop_assert_eq!(port.0, to / PROCESSES);
                begun.entry((from, to)).or_default().push(number);
            }
            ExanetNotice::Ended(_, Header(_, _, number)) => ended.push(number),
            ExanetNotice::Denied(number, own, found) => {
                let message = &messages[number as usize];
                prop_assert_eq!((own, found), (domains[message.from as usize], domains[message.to as usize]));
                told += 1;
            }
            _ => {}
        }
    }
    prop_assert_eq!(begun, expected.clone(), "every message once, in the order of its stream");
    ended.sort_unstable();
    let mut long: Vec<u32> = expected.values().flatten().copied().filter(|&number| messages[number as usize].bytes > 32).collect();
    long.sort_unstable();
    prop_assert_eq!(&ended, &long, "every transfer ends once");
    prop_assert_eq!(told, denied, "whose domain is wrong is told");
    let troubles = nics.iter().map(Exanet::troubles).fold(narrows_nic::Troubles::default(), |mut sum, one| {
        sum += one;
        sum
    });
    prop_assert_eq!(troubles.denied, denied, "and it is counted");
    if config.page_faults == 1_000_000 {
        let blocks = long.iter().map(|&number| messages[number as usize].bytes.div_ceil(config.block.0));
        prop_assert!(troubles.page_faults >= blocks.sum::<u64>(), "every block finds its page missing");
    }
    if losses == 0 && repeats == 0 && config.mailbox_room == 0 {
        prop_assert_eq!((troubles.refused, troubles.timeouts), (0, 0));
    }
    Ok(())
}

fn config() -> ExanetConfig {
    let ns = SimTime::from_ns;
    ExanetConfig {
        short_limit: Bytes(32),
        header_size: Bytes(24),
        channels: 4,
        packetizer: ns(30),
        mailbox: ns(110),
        block: Bytes(16 << 10),
        rdma_start: ns(2_500),
        rdma_block: ns(700),
        rdma_done: ns(1_100),
        reduce_start: ns(2_000),
        reduce_rate: ByteRate(1_200_000_000),
        mailbox_room: 0,
        resend: ns(1_000),
        timeout: ns(0),
        rdma_channels: 512,
        page_faults: 0,
        fault_time: ns(3_000),
        domains: [].into(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_message_once_and_in_order(
        messages in prop::collection::vec(message(), 0..60),
        (losses, repeats, seed) in (0u8..100, 0u8..100, any::<u64>()),
        (mailbox_room, rdma_channels, channels) in (0u32..4, 1u32..4, 1u32..5),
        page_faults in prop_oneof![Just(0u32), Just(300_000), Just(1_000_000)],
        domains in prop_oneof![3 => Just(vec![0u16; 4]), 1 => prop::collection::vec(0u16..2, 4)],
        // Packetizer and mailbox may be slower than the firmware.
        (packetizer, mailbox) in (0u64..6_000, 0u64..6_000),
    ) {
        let (packetizer, mailbox) = (SimTime::from_ns(packetizer), SimTime::from_ns(mailbox));
        // Timers may strike too early: what comes twice is known.
        let timeout = if losses > 0 || seed % 3 == 0 { SimTime::from_ns(900 + seed % 20_000) } else { SimTime::ZERO };
        let config = ExanetConfig { mailbox_room, rdma_channels, channels, page_faults, timeout, packetizer, mailbox, ..config() };
        run(messages, &config, (losses, repeats, seed), &domains)?;
    }

    #[test]
    fn nothing_goes_wrong_where_nothing_is_lost(messages in prop::collection::vec(message(), 0..60)) {
        run(messages, &config(), (0, 0, 1), &[0; 4])?;
    }

    #[test]
    fn the_two_ways_of_a_stream_do_not_pass_each_other(
        messages in prop::collection::vec(message(), 0..60),
        (packetizer, mailbox) in (0u64..20_000, 0u64..20_000),
    ) {
        let config = ExanetConfig { packetizer: SimTime::from_ns(packetizer), mailbox: SimTime::from_ns(mailbox), ..config() };
        run(messages, &config, (0, 0, 1), &[0; 4])?;
    }
}

/// A mailbox with room for one message, which takes 110 ns, and two that come at once: the second is refused, and sent
/// again 1 us after its sender has heard of it.
#[test]
fn a_full_mailbox_refuses_and_the_packetizer_repeats() {
    let config = ExanetConfig { mailbox_room: 1, packetizer: SimTime::from_ns(1), ..config() };
    let mut world = World { queue: EventQueue::new(), losses: 0, repeats: 0, random: 1, heard: Vec::new() };
    let mut nics: Vec<Exanet<Header>> = (0..NODES).map(|node| Exanet::new(config.clone(), PortId(node))).collect();
    for number in 0..2 {
        let (to, payload, header) = (PortId(1), Bytes(8), Header(0, 2, number));
        let departure = Departure { to, virtual_network: 0, payload, source_dma: false, target_dma: false, token: number, header };
        nics[0].command(SimTime::ZERO, Process(0), Order::Message(departure), &mut world).unwrap();
    }
    let mut arrived = Vec::new();
    while let Some((now, due)) = world.queue.pop() {
        match due {
            Due::Nic(port, event) => nics[port.index()].handle(now, event, &mut world),
            Due::Read(port, token) => nics[port.index()].source_done(now, token, &mut world),
            Due::Arrives(port, cell) => nics[port.index()].tail(now, 0, &cell, &mut world),
        }
        arrived.extend(world.heard.drain(..).filter(|(_, notice)| matches!(notice, ExanetNotice::Arrived(_))).map(|_| now.as_ps() / 1000));
    }
    // Out 2, there 402, refused, back 802, again 1802, packetizer 1803, there 2203, in memory 2313.
    assert_eq!(arrived, [1 + 400 + 110, 2 + 400 + 400 + 1_000 + 1 + 400 + 110]);
    assert_eq!((nics[1].troubles().refused, nics[0].troubles().timeouts), (1, 0));
}
