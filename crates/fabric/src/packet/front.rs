//! One queue per input and lane, first in, first out: only the packet at its front asks for an output, and the next one
//! comes to the front when the tail of that one has left. Behind a front that waits all others wait (head-of-line
//! blocking).

use super::region::{Effects, Region};
use super::state::NEVER;
use crate::EventKind;
use crate::flights::NONE;
use crate::port::Ports;

/// The queue of a lane at an input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    /// Behind the front.
    first: u32,
    last: u32,
    /// When the tail of the packet that was at the front last has left; [`NEVER`] while one is at the front.
    free: u64,
}

impl Default for Front {
    fn default() -> Self {
        Front { first: NONE, last: NONE, free: 0 }
    }
}

impl<P: Ports> Region<P> {
    /// Whether a packet that has arrived is at the front; otherwise it waits.
    pub(super) fn comes_to_front<F: Effects>(&mut self, index: u32, now: u64, fx: &mut F) -> bool {
        if F::PACKETS {
            self.keep_index(index);
        }
        let Region { fronts: Some(fronts), packets, lanes, .. } = self else { return true };
        let packet = &mut packets[index];
        packet.next = NONE;
        let (input, place) = (packet.input, packet.input * *lanes + packet.lane());
        let front = &mut fronts[place as usize];
        if front.first == NONE && front.free <= now {
            front.free = NEVER;
            if F::PACKETS {
                self.restore_index(index);
            }
            return true;
        }
        let last = std::mem::replace(&mut front.last, index);
        if front.first != NONE {
            packets[last].next = index;
        } else {
            front.first = index;
            if front.free != NEVER {
                fx.schedule(front.free, EventKind::Front, self.inputs[input as usize].link, place);
            }
        }
        false
    }

    /// The packet at the front goes.
    pub(super) fn front_leaves(&mut self, input: u32, lane: u32, tail: u64, fx: &mut impl Effects) {
        let Region { fronts: Some(fronts), lanes, .. } = self else { return };
        let place = input * *lanes + lane;
        let front = &mut fronts[place as usize];
        front.free = tail;
        if front.first != NONE {
            fx.schedule(tail, EventKind::Front, self.inputs[input as usize].link, place);
        }
    }

    /// The next packet comes to the front.
    pub(super) fn next_front<F: Effects>(&mut self, place: u32, now: u64, fx: &mut F) {
        let Region { fronts: Some(fronts), packets, .. } = self else { return };
        let front = &mut fronts[place as usize];
        let index = front.first;
        front.first = packets[index].next;
        front.free = NEVER;
        if F::PACKETS {
            self.restore_index(index);
        }
        self.route(index, now, fx);
    }
}
