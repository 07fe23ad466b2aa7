//! What an allreduce costs that the NIC's accelerator does: a command, and an answer.

use super::{Port, Portals, interface};
use crate::accelerator::Block;
use crate::out::Out;
use narrows_matching::CommandError;
use narrows_portals::offload::{Allreduce, BLOCK, Takes, offers};
use narrows_portals::{NodeId, Notice, Process, ReplyCode};
use narrows_units::{PortId, SimTime};

impl Portals {
    /// A process wrote the command at `written`: when the accelerator has it.
    pub(crate) fn allreduce(
        &mut self,
        written: SimTime,
        process: Process,
        allreduce: Box<Allreduce>,
    ) -> Result<(SimTime, Block), CommandError> {
        let Allreduce { operation, datatype, length, .. } = *allreduce;
        if self.local(process).is_none() {
            return Err(CommandError::NoProcess(process));
        }
        let whole = length > 0 && length <= BLOCK && u64::from(length).is_multiple_of(datatype.size());
        if !whole || !offers(operation, datatype) {
            return Err(CommandError::Allreduce { operation, datatype, length });
        }
        let directory = &self.common.directory;
        let port = |&node: &u32| directory.port(NodeId(node), self.rail).ok_or(CommandError::NoNode(node));
        let clients: Vec<PortId> = allreduce.plan.clients.iter().map(port).collect::<Result<_, _>>()?;
        let peers: Vec<PortId> = allreduce.plan.steps.iter().map(|step| port(&step.peer)).collect::<Result<_, _>>()?;
        // A board that its own node is not on, or steps that nothing comes of.
        let idle = |step: &narrows_portals::offload::Step| !step.sends && step.takes == Takes::Nothing;
        if !clients.contains(&self.port) || allreduce.plan.steps.iter().any(idle) {
            return Err(CommandError::NoNode(clients.first().map_or(u32::MAX, |port| port.0)));
        }
        self.engine.statistics.commands += 1;
        let at = self.engine.stages.command(written, SimTime::ZERO, &self.common.config, &self.common.durations);
        Ok((at, Block { process, allreduce, clients, peers }))
    }

    /// The accelerator has written a result: the process is told over PCIe, as of a count.
    pub(crate) fn answer(&mut self, now: SimTime, process: Process, ticket: u32, out: &mut impl Out<Portals>) {
        let Some(local) = self.local(process) else { return };
        let (_, mut port) = interface!(self, now, local, out);
        narrows_matching::Sink::notice(&mut port, Notice::Reply { ticket, code: ReplyCode::Ok, value: 0 });
    }
}
