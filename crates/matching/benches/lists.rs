//! Matching lists beside plain lists that are walked: `cargo bench -p narrows-matching --bench lists`. One operation is
//! what a message does to a list of use-once entries that stays as long as it is: find its entry, unlink it, append
//! another. CPU time per operation.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    reason = "a bench stops where its input is wrong, and uses a part of the module"
)]

use narrows_engine::{random::Stream, stream};
use narrows_matching::{MatchList, Ordered};
use narrows_portals::{MatchEntry, NID_ANY, PID_ANY, ProcessId};
use std::collections::VecDeque;
use std::hint::black_box;

/// CPU time of this thread in seconds: others may be busy on the same cores.
fn cpu_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

const ANY: ProcessId = ProcessId { nid: NID_ANY, pid: PID_ANY };
const HERE: ProcessId = ProcessId { nid: 1, pid: 1 };

/// What is done with a list: push, find, and remove what was found.
trait List {
    fn push(&mut self, slot: u32, me: &MatchEntry);
    fn take(&mut self, bits: u64, orders: &[u64]) -> (u32, u64);
    fn order(&self) -> u64;
}

/// What of an entry a walk looks at.
struct Plain {
    bits: u64,
    ignore: u64,
    source: ProcessId,
    slot: u32,
}

struct Walked {
    items: Ordered<Plain>,
    last: u64,
}

impl List for Walked {
    fn push(&mut self, slot: u32, me: &MatchEntry) {
        self.last = self.items.push(Plain { bits: me.match_bits, ignore: me.ignore_bits, source: me.match_id, slot });
    }
    fn take(&mut self, bits: u64, _: &[u64]) -> (u32, u64) {
        let fits = |item: &Plain| {
            (bits ^ item.bits) & !item.ignore == 0
                && (item.source.nid == NID_ANY || item.source.nid == HERE.nid)
                && (item.source.pid == PID_ANY || item.source.pid == HERE.pid)
        };
        let mut visited = 0;
        let (order, slot) =
            self.items.iter().inspect(|_| visited += 1).find(|(_, item)| fits(item)).map(|(o, item)| (o, item.slot)).unwrap();
        self.items.remove(order);
        (slot, visited)
    }
    fn order(&self) -> u64 {
        self.last
    }
}

struct Indexed {
    items: MatchList,
    last: u64,
}

impl List for Indexed {
    fn push(&mut self, slot: u32, me: &MatchEntry) {
        self.last = self.items.push(slot, me);
    }
    fn take(&mut self, bits: u64, orders: &[u64]) -> (u32, u64) {
        let (found, visited) = self.items.find(HERE, bits, |_| true);
        let slot = found.unwrap();
        self.items.remove(orders[slot as usize]);
        (slot, visited)
    }
    fn order(&self) -> u64 {
        self.last
    }
}

/// Which entries a list holds, and which messages come.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// Messages come in the order of the entries.
    in_order: bool,
    /// Every n-th entry is from any source.
    any_source: u64,
    /// Every n-th entry ignores all bits.
    any_tag: u64,
    /// Different masks of ignored bits.
    masks: u64,
}

const EXACT: Case = Case { name: "exact, any order", in_order: false, any_source: 0, any_tag: 0, masks: 1 };

fn every(number: u64, n: u64) -> bool {
    n > 0 && number % n == n - 1
}

impl Case {
    fn entry(&self, number: u64, bits: u64) -> MatchEntry {
        MatchEntry {
            match_bits: bits,
            ignore_bits: if every(number, self.any_tag) { u64::MAX } else { (number % self.masks) << 32 },
            match_id: if every(number, self.any_source) { ANY } else { HERE },
            ..MatchEntry::default()
        }
    }

    /// Nanoseconds per operation, entries visited per operation, and a digest of which slots were found.
    fn run(&self, list: &mut impl List, posted: u64, operations: u64) -> (f64, f64, u64) {
        let mut random: Stream = stream(1, "matching", posted);
        let mut bits: Vec<u64> = (0..posted).collect();
        random.shuffle(&mut bits);
        let own = bits.clone();
        let (mut orders, mut number) = (Vec::new(), 0);
        // Bits of the messages to come; each entry has a message, whichever entry that takes in the end.
        let mut due: VecDeque<u64> = bits.iter().copied().collect();
        for &bits in &bits {
            list.push(number as u32, &self.entry(number, bits));
            orders.push(list.order());
            number += 1;
        }
        // Slots are reused, as the NIC does: the slot that was taken is that of the new entry.
        let (mut visits, mut digest) = (0, 0u64);
        let begin = cpu_time();
        for _ in 0..operations {
            if !self.in_order {
                due.swap(0, random.below(posted) as usize);
            }
            let bits = due.pop_front().unwrap();
            let (slot, visited) = list.take(bits, &orders);
            visits += visited;
            digest = digest.rotate_left(5) ^ u64::from(slot).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            due.push_back(bits);
            // Wildcards take other entries' messages: as many entries as messages have the same bits.
            list.push(slot, &self.entry(number, own[slot as usize]));
            orders[slot as usize] = list.order();
            number += 1;
        }
        let seconds = cpu_time() - begin;
        black_box(&list.order());
        (seconds * 1e9 / operations as f64, visits as f64 / operations as f64, digest)
    }
}

fn main() {
    let cases = [
        EXACT,
        Case { name: "exact, in order", in_order: true, ..EXACT },
        Case { name: "any order, 1 in 10 from any source", any_source: 10, ..EXACT },
        Case { name: "any order, 1 in 10 any source, 1 in 7 any tag", any_source: 10, any_tag: 7, ..EXACT },
        Case { name: "any order, 1 in 1,000 any tag", any_tag: 1000, ..EXACT },
        Case { name: "in order, 1 in 10 from any source", in_order: true, any_source: 10, ..EXACT },
        Case { name: "any order, 12 masks", masks: 12, ..EXACT },
        Case { name: "any order, 40 masks", masks: 40, ..EXACT },
    ];
    for case in cases {
        for posted in [1u64, 8, 32, 100, 1_000, 10_000] {
            // Linux counts a thread's time in steps of milliseconds.
            let operations = (400_000_000 / (posted + 100)).min(2_000_000);
            let walked = case.run(&mut Walked { items: Ordered::default(), last: 0 }, posted, operations);
            let indexed = case.run(&mut Indexed { items: MatchList::default(), last: 0 }, posted, operations);
            assert_eq!(walked.1, indexed.1, "the NIC that is modelled visits the same entries, however they are found");
            assert_eq!(walked.2, indexed.2, "both lists find the same entries");
            println!(
                "{:<46} {posted:>6} posted, {:>7.1} visited: {:>8.1} ns, plain list {:>8.1} ns, {:>6.2} M/s",
                case.name,
                indexed.1,
                indexed.0,
                walked.0,
                1e3 / indexed.0
            );
        }
    }
}
