//! Priority flow control (IEEE 802.1Qbb; frames and quanta of 802.3 Annex 31B) in place of credits.
//!
//! The sender of a link knows nothing of the buffers at its far end and sends unless it is paused, per lane (a
//! priority). The receiver counts what each lane holds: from the moment that the header has been through the switch's
//! pipeline until the tail has left. At `xoff` and above it sends a pause frame, which is worth `quanta` times 512 bit
//! times of the link and is repeated at half of that; at `xon` and below it sends one of no quanta. A frame waits for
//! the packet on the wire in its direction, takes its own time there, the latency of the link and the response time of
//! the sender. What arrives at a full buffer is lost: counted, and sent again by the source's NIC after `resend_after`.

use super::region::{AuditError, Effects, Note, Region};
use super::returns::{Enough, Returns};
use super::state::*;
use crate::EventKind;
use crate::config::{FlowControl, NetworkConfig};
use crate::flights::NONE;
use crate::port::Ports;
use narrows_topology::Topology;

/// The buffer of a lane, at its receiver; one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Buffer {
    /// With the bytes of `back` that are due.
    held: u64,
    back: Returns,
    /// A pause frame is in force, or on its way.
    off: bool,
}

const _: () = assert!(size_of::<Buffer>() == 64);

#[derive(Debug)]
pub(super) struct Pauses {
    xoff: u64,
    xon: u64,
    quanta: u32,
    frame: u32,
    response: u64,
    resend_after: u64,
    /// By lane and output: paused until.
    until: Vec<u64>,
    /// By lane and input: those that are in use lie together.
    buffers: Vec<Buffer>,
    /// The same: when the pause frame in force is repeated.
    refresh: Vec<u64>,
    inputs: u32,
}

/// Pauses, rather than lets go on.
const OFF: u32 = 1;

impl Pauses {
    /// None with credits.
    pub(super) fn new(config: &NetworkConfig, topology: &Topology, lanes: usize, inputs: usize, outputs: usize) -> Option<Pauses> {
        let FlowControl::Pause(pause) = &config.flow_control else { return None };
        let (xoff, xon) = config.pause_thresholds(pause, topology);
        Some(Pauses {
            xoff: xoff.0,
            xon: xon.0,
            quanta: pause.quanta,
            frame: pause.frame.0 as u32,
            response: pause.response.as_ps(),
            resend_after: pause.resend_after.as_ps(),
            until: vec![0; lanes * outputs],
            buffers: vec![Buffer::default(); lanes * inputs],
            refresh: vec![0; lanes * inputs],
            inputs: inputs as u32,
        })
    }

    /// Where the buffer of a lane of an input is.
    #[inline]
    fn place(&self, input: u32, lane: u32) -> u32 {
        lane * self.inputs + input
    }

    /// Brings the buffer of a lane of an input into the cache.
    #[inline]
    pub(super) fn prefetch(&self, input: u32, lane: u32) {
        narrows_engine::prefetch(&self.buffers[self.place(input, lane) as usize]);
    }

    /// Until when a lane of an output is paused.
    #[inline]
    pub(super) fn until(&self, lane: usize) -> u64 {
        self.until[lane]
    }
}

impl<P: Ports> Region<P> {
    /// A packet comes into a buffer; false when it was lost.
    #[inline]
    pub(super) fn admit(&mut self, index: u32, now: u64, fx: &mut impl Effects) -> bool {
        let Region { pauses: Some(pauses), returns, packets, buffer: size, .. } = self else { return true };
        let Packet { wire, input, .. } = packets[index];
        let lane = packets[index].lane();
        let place = pauses.place(input, lane);
        let buffer = &mut pauses.buffers[place as usize];
        let held = buffer.held + u64::from(wire) - returns.collect(&mut buffer.back, now);
        if held > *size {
            buffer.held = held - u64::from(wire);
            self.lose(index, now, fx);
            return false;
        }
        buffer.held = held;
        if held >= pauses.xoff && !buffer.off {
            buffer.off = true;
            let known = returns.when(&buffer.back, held - pauses.xon);
            fx.paused(self.inputs[input as usize].link, lane, true);
            self.send_frame(place, OFF, now, fx);
            if let Enough::At(at) = known {
                fx.schedule(at, EventKind::Release, self.inputs[input as usize].link, place);
            }
        }
        true
    }

    /// What was held will be gone at `tail`.
    #[inline]
    pub(super) fn leaves(&mut self, input: u32, lane: u32, tail: u64, wire: u32, now: u64, fx: &mut impl Effects) {
        let Region { pauses: Some(pauses), returns, .. } = self else { return };
        let place = pauses.place(input, lane);
        let buffer = &mut pauses.buffers[place as usize];
        // What has left already makes room at once: long lists would be cold memory when they are read.
        buffer.held -= returns.collect(&mut buffer.back, now);
        returns.add(&mut buffer.back, tail, wire);
        if buffer.off {
            fx.schedule(tail, EventKind::Release, self.inputs[input as usize].link, place);
        }
    }

    /// A paused lane may have drained enough.
    pub(super) fn release(&mut self, place: u32, now: u64, fx: &mut impl Effects) {
        let Region { pauses: Some(pauses), returns, .. } = self else { return };
        let buffer = &mut pauses.buffers[place as usize];
        if !buffer.off {
            return;
        }
        buffer.held -= returns.collect(&mut buffer.back, now);
        let (input, lane) = (place % pauses.inputs, place / pauses.inputs);
        let link = self.inputs[input as usize].link;
        if buffer.held <= pauses.xon {
            buffer.off = false;
            fx.paused(link, lane, false);
            self.send_frame(place, 0, now, fx);
        } else if let Enough::At(at) = returns.when(&buffer.back, buffer.held - pauses.xon) {
            fx.schedule(at, EventKind::Release, link, place);
        }
    }

    /// The last frame's quanta are half over.
    pub(super) fn refresh(&mut self, place: u32, now: u64, fx: &mut impl Effects) {
        let Some(pauses) = &self.pauses else { return };
        if pauses.buffers[place as usize].off && pauses.refresh[place as usize] == now {
            self.send_frame(place, OFF, now, fx);
        }
    }

    /// Sends a pause frame to the sender of a lane.
    fn send_frame(&mut self, place: u32, off: u32, now: u64, fx: &mut impl Effects) {
        let Region { pauses: Some(pauses), inputs, outputs, loads, costs, .. } = self else { return };
        let (input, lane) = (place % pauses.inputs, place / pauses.inputs);
        let Input { latency, link, region, output, reverse, .. } = inputs[input as usize];
        let timer = costs.wire(outputs[reverse as usize].speed);
        let free = &mut loads[reverse as usize].free;
        *free = now.max(*free) + timer.time(pauses.frame);
        let at = *free + latency + pauses.response;
        if off == OFF {
            self.statistics.pauses += 1;
            let refresh = now + (timer.quanta(pauses.quanta) / 2).max(1);
            pauses.refresh[place as usize] = refresh;
            fx.schedule(refresh, EventKind::Refresh, link, place);
        }
        let frame = lane << 1 | off;
        if region == self.number {
            self.pause_arrives(output, at, frame, fx);
        } else {
            fx.note(region, Note::Pause { output, at, frame });
        }
    }

    /// A frame will be at an output of this region.
    pub(super) fn pause_arrives(&mut self, output: u32, at: u64, frame: u32, fx: &mut impl Effects) {
        fx.schedule(at, EventKind::Pause, self.outputs[output as usize].link, output << 7 | frame);
    }

    /// A frame is at an output.
    pub(super) fn paused(&mut self, payload: u32, now: u64, fx: &mut impl Effects) {
        let (output, lane, off) = (payload >> 7, payload >> 1 & 63, payload & OFF);
        let place = self.place(output, lane);
        let Region { pauses: Some(pauses), costs, outputs, .. } = self else { return };
        let until = &mut pauses.until[place];
        if off == OFF {
            *until = now + costs.wire(outputs[output as usize].speed).quanta(pauses.quanta);
        } else {
            *until = 0;
            self.serve(output, now, fx);
        }
    }

    /// The receivers' counts: what has not begun to leave is there, and there is room for it all. A packet that is
    /// still on the link is held, too, and not counted yet.
    pub(super) fn audit_pauses(&self, held: &[u64]) -> Result<(), AuditError> {
        let Some(pauses) = &self.pauses else { return Ok(()) };
        for (place, buffer) in pauses.buffers.iter().enumerate() {
            let (input, lane) = (place as u32 % pauses.inputs, place as u32 / pauses.inputs);
            let link = self.inputs[input as usize].link;
            let leaving = self.returns.total(&buffer.back);
            let held = held[(link * self.lanes + lane) as usize];
            let waits = buffer.held.checked_sub(leaving);
            if waits.is_none_or(|waits| waits > held) || buffer.held > self.buffer {
                return Err(AuditError::Pauses { link, lane, counted: buffer.held, leaving, held, buffer: self.buffer });
            }
        }
        Ok(())
    }

    /// There is no room for a packet.
    #[cold]
    fn lose(&mut self, index: u32, now: u64, fx: &mut impl Effects) {
        let Some(pauses) = &self.pauses else { return };
        let at = now + pauses.resend_after;
        let mut packet = self.packets[index];
        let link = self.inputs[packet.input as usize].link;
        fx.lost(link, packet.wire);
        self.statistics.lost_packets += 1;
        if self.reliable {
            return self.free_packet(index);
        }
        packet.input = NONE;
        let region = self.layout.hosts[packet.source as usize].0;
        if region == self.number {
            self.packets[index] = packet;
            fx.schedule(at, EventKind::Resend, link, index);
        } else {
            self.free_packet(index);
            fx.note(region, Note::Lost { link, at, packet: Box::new(packet) });
        }
    }
}
