//! A rank at work: what it starts, what its NIC tells it, what becomes complete.

use super::*;
use crate::error::Problem;
use narrows_collectives::{Area, Blocks, Piece};
use narrows_engine::take_first;
use narrows_portals::offload::{self, Allreduce, BLOCK};
use narrows_portals::{AtomicOperation, Datatype, Place};
use narrows_timeline::{ACCELERATOR, ANY, COMPUTE};

/// A rank sends from one buffer and receives into another one, as benchmarks do: traces have no addresses.
const RECEIVE_BUFFER: u64 = 1 << 60;

impl Rank {
    pub(super) fn new(part: usize, number: u32, process: ProcessId, costs: Costs) -> Rank {
        Rank {
            part,
            number,
            process,
            costs,
            clock: SimTime::ZERO,
            endpoint: None,
            given: Given::default(),
            inbox: VecDeque::new(),
            copied: CopiedInbox::default(),
            window: VecDeque::new(),
            first: 0,
            exhausted: false,
            unstarted: 0,
            ready: VecDeque::new(),
            delayed: Vec::new(),
            units: Vec::new(),
            computing: BinaryHeap::new(),
            computed: SimTime::ZERO,
            computed_beside: SimTime::ZERO,
            running: Vec::new(),
            sent: 0,
            digest: Digest::default(),
            finish: None,
        }
    }

    /// It is about to do something: see [`narrows_engine::prefetch`].
    pub(super) fn prefetch(&self, step: u32) {
        match step {
            0 => narrows_engine::prefetch_all(self),
            1 => {
                self.window.front().into_iter().for_each(narrows_engine::prefetch_all);
                self.running.first().into_iter().for_each(narrows_engine::prefetch_all);
                self.endpoint.iter().for_each(|endpoint| endpoint.prefetch(0));
            }
            _ => self.endpoint.iter().for_each(|endpoint| endpoint.prefetch(1)),
        }
    }

    pub(super) fn notice(&mut self, time: SimTime, notice: Notice) {
        match notice {
            Notice::Event { event, .. } => self.inbox.push_back((time, Incoming::Event(event))),
            Notice::Reply { ticket, code, .. } => self.inbox.push_back((time, Incoming::Reply(ticket, code))),
            Notice::Count { .. } | Notice::Foreign(_) => {}
        }
    }

    fn port<'a>(
        clock: &'a mut SimTime,
        given: &'a mut Given,
        costs: Costs,
        rank: u32,
        region: &'a mut Region<'_>,
    ) -> Port<'a, RankLibrary<'a>> {
        let rails = &region.state.shared.message.rails;
        let first = if rails.bridging().is_some() { rails.first_of(region.process(rank)) } else { rails.first() };
        port(&mut *region.world, (rank, clock, given), &mut region.state.payloads, costs, first)
    }

    /// Does what can be done now. `index` is the rank among all.
    pub(super) fn advance(&mut self, index: u32, region: &mut Region<'_>) -> Result<(), ReplayError> {
        let now = region.world.now();
        if !self.delayed.is_empty() {
            // The order in which they became ready.
            self.delayed.sort_unstable();
            let due = self.delayed.partition_point(|(time, _)| *time <= now);
            self.ready.extend(self.delayed.drain(..due).map(|(_, number)| number));
        }
        loop {
            self.refill(region)?;
            if let Some(number) = take_first(&mut self.ready) {
                self.start(index, number, region)?;
            } else if let Some(&Reverse((time, number, event))) = self.computing.peek()
                && time <= now
            {
                self.computing.pop();
                self.clock = self.clock.max(time);
                match event {
                    Event::Started => self.started(number, index, region)?,
                    Event::Done => self.done(number, index, region)?,
                }
            } else if let Some((time, news)) = take_first(&mut self.inbox) {
                if let (Incoming::Event(event), Some(endpoint)) = (&news, &mut self.endpoint)
                    && endpoint.is_for_firmware(event)
                {
                    let mut clock = time;
                    let port = &mut Self::port(&mut clock, &mut self.given, self.costs, index, region);
                    endpoint.event(port, *event).expect("replayed ranks only send what their message layers do");
                    continue;
                }
                self.clock = self.clock.max(time);
                let event = match news {
                    Incoming::Event(event) => event,
                    Incoming::Reply(ticket, _) if ticket & REDUCED != 0 => {
                        self.reduced(ticket, index, region)?;
                        continue;
                    }
                    Incoming::Reply(ticket, code) => {
                        if let (Some(endpoint), Some((_, entry))) = (&mut self.endpoint, self.given.numbers.unlinked(ticket)) {
                            endpoint.unlinked(&mut Self::port(&mut self.clock, &mut self.given, self.costs, index, region), entry, code);
                        }
                        continue;
                    }
                    Incoming::Gone(gateway) => {
                        if let Some(endpoint) = &mut self.endpoint {
                            endpoint.gateway_gone(&mut Self::port(&mut self.clock, &mut self.given, self.costs, index, region), gateway);
                        }
                        self.complete(index, region)?;
                        continue;
                    }
                    Incoming::Copied(told) => {
                        self.told(index, told, region)?;
                        continue;
                    }
                };
                if let Some(endpoint) = &mut self.endpoint {
                    let port = &mut Self::port(&mut self.clock, &mut self.given, self.costs, index, region);
                    endpoint.event(port, event).expect("replayed ranks only send what their message layers do");
                }
                self.complete(index, region)?;
            } else {
                break;
            }
        }
        if self.finish.is_none() && self.exhausted && self.window.is_empty() {
            self.finish = Some(self.clock);
            region.state.tallies[self.part].unfinished -= 1;
        }
        Ok(())
    }

    /// Takes operations from the program, as many as it has to look ahead.
    fn refill(&mut self, region: &mut Region<'_>) -> Result<(), ReplayError> {
        let State { shared, after: dependencies, known, epoch, spare, .. } = &mut *region.state;
        let application = &shared.applications[self.part];
        let limit = match application.order {
            Order::Sequential => 1,
            Order::Causal => CAUSAL_WINDOW,
            Order::Graph => usize::MAX,
        };
        while !self.exhausted && self.unstarted < limit {
            let Some(operation) = application.source().program.next(self.number, dependencies)? else {
                self.exhausted = true;
                break;
            };
            let number = self.first + self.window.len() as u64;
            // Without dependencies: from the start. What is over has been seen by now.
            let after = if dependencies.is_empty() { *epoch } else { self.clock };
            let mut node = Node { operation, waits: 0, after, started: false, done: false, dependents: spare.take() };
            for dependency in &*dependencies {
                // Operations before the window are over.
                let Some(place) = dependency.operation.checked_sub(self.first) else { continue };
                let Some(other) = self.window.get_mut(place as usize) else { continue };
                if !(if dependency.event == Event::Done { other.done } else { other.started }) {
                    other.dependents.push((number, dependency.event));
                    node.waits += 1;
                }
            }
            let free = node.waits == 0;
            self.window.push_back(node);
            self.unstarted += 1;
            *known += 1;
            if free {
                self.enqueue(number, application.scale(self.number), &mut *region.world, application.first_rank + self.number)?;
            }
        }
        Ok(())
    }

    fn node(&mut self, number: u64) -> &mut Node {
        &mut self.window[(number - self.first) as usize]
    }

    /// Nothing holds it back but its delay.
    fn enqueue(&mut self, number: u64, scale: f64, world: &mut dyn Requests<Word>, index: u32) -> Result<(), ReplayError> {
        let beyond = self.beyond(number);
        let node = self.node(number);
        let delay = node.operation.delay.scaled(scale).map_err(&beyond)?;
        let at = node.after.checked_add(delay).map_err(&beyond)?;
        if delay > SimTime::ZERO && at > world.now() {
            node.after = at;
            self.delayed.push((at, number));
            world.set_alarm(index, at);
        } else {
            self.ready.push_back(number);
        }
        Ok(())
    }

    /// The error of an operation whose times or sizes are too large.
    fn beyond(&self, operation: u64) -> impl Fn(Excess) -> ReplayError + use<> {
        let rank = self.number;
        move |excess| Problem::from(excess).of(rank, operation)
    }

    /// What waited for `event` of `number` does not any more.
    fn passed(&mut self, number: u64, event: Event, index: u32, region: &mut Region<'_>) -> Result<(), ReplayError> {
        let clock = self.clock;
        let mut dependents = std::mem::take(&mut self.node(number).dependents);
        for &(dependent, _) in dependents.iter().filter(|(_, wanted)| *wanted == event) {
            let node = self.node(dependent);
            node.waits -= 1;
            node.after = node.after.max(clock);
            if node.waits == 0 {
                let scale = region.state.shared.applications[self.part].scale(self.number);
                self.enqueue(dependent, scale, &mut *region.world, index)?;
            }
        }
        dependents.retain(|(_, wanted)| *wanted != event);
        self.node(number).dependents = dependents;
        Ok(())
    }

    fn started(&mut self, number: u64, index: u32, region: &mut Region<'_>) -> Result<(), ReplayError> {
        self.node(number).started = true;
        self.unstarted -= 1;
        self.passed(number, Event::Started, index, region)
    }

    fn done(&mut self, number: u64, index: u32, region: &mut Region<'_>) -> Result<(), ReplayError> {
        self.node(number).done = true;
        region.state.done += 1;
        self.tell(number, index, region.state);
        self.passed(number, Event::Done, index, region)?;
        while self.window.front().is_some_and(|node| node.done) {
            if let Some(node) = take_first(&mut self.window) {
                region.state.spare.put(node.dependents);
            }
            self.first += 1;
        }
        Ok(())
    }

    /// Tells the timeline of an operation that is over; computing beside the core was told when it was planned.
    fn tell(&mut self, number: u64, index: u32, state: &State) {
        let Some(timeline) = &state.timeline else { return };
        let clock = self.clock;
        let node = self.node(number);
        if node.operation.cpu == 0 || !matches!(node.operation.kind, Kind::Compute { .. }) {
            tell(timeline, index, (&node.operation.kind, node.operation.cpu), node.after, clock, state.epoch);
        }
    }

    /// Tells it of those that have begun and do not end.
    pub(super) fn tell_open(&mut self, index: u32, state: &State) {
        let open = (0u64..).zip(&self.window).filter(|(_, node)| node.started && !node.done).map(|(place, _)| self.first + place);
        for number in open.collect::<Vec<u64>>() {
            self.tell(number, index, state);
        }
    }

    fn start(&mut self, index: u32, number: u64, region: &mut Region<'_>) -> Result<(), ReplayError> {
        let node = self.node(number);
        let (kind, cpu, after) = (node.operation.kind, node.operation.cpu, node.after);
        self.clock = self.clock.max(after);
        self.node(number).after = self.clock;
        let &Application { first_rank: base, ranks, .. } = &region.state.shared.applications[self.part];
        let number_in_trace = self.number;
        let check = |peer: u32| {
            if peer < ranks { Ok(base + peer) } else { Err(Problem::Peer { peer, ranks }.of(number_in_trace, number)) }
        };
        match kind {
            Kind::Compute { duration } if cpu > 0 => {
                let scale = region.state.shared.applications[self.part].scale(self.number);
                let beyond = self.beyond(number);
                let unit = usize::from(cpu) - 1;
                if self.units.len() <= unit {
                    self.units.resize(unit + 1, SimTime::ZERO);
                }
                let begin = self.units[unit].max(self.clock);
                let duration = duration.scaled(scale).map_err(&beyond)?;
                let end = begin.checked_add(duration).map_err(&beyond)?;
                self.computed_beside += duration;
                self.units[unit] = end;
                if let Some(timeline) = &region.state.timeline {
                    tell(timeline, index, (&kind, cpu), begin, end, region.state.epoch);
                }
                self.computing.extend([Reverse((begin, number, Event::Started)), Reverse((end, number, Event::Done))]);
                // Where the clock is ahead of the simulation both may be over for it, but not for others.
                for at in [begin, end] {
                    if at > region.world.now() {
                        region.world.set_alarm(index, at);
                    }
                }
            }
            Kind::Compute { duration } => {
                self.started(number, index, region)?;
                let scale = region.state.shared.applications[self.part].scale(self.number);
                let duration = duration.scaled(scale).map_err(self.beyond(number))?;
                self.clock = self.clock.checked_add(duration).map_err(self.beyond(number))?;
                self.computed += duration;
                self.done(number, index, region)?;
            }
            Kind::Send { to, bytes, tag } => {
                let completes = region.state.shared.applications[self.part].completes;
                let injected = self.send(index, check(to)?, (u64::from(tag), bytes, number), completes, region);
                self.started(number, index, region)?;
                if injected {
                    self.done(number, index, region)?;
                }
            }
            Kind::Receive { from, bytes, tag } => {
                let from = from.map(check).transpose()?;
                let (tag, ignore) = tag.map_or((0, u64::from(u32::MAX)), |tag| (u64::from(tag), 0));
                self.receive(index, from, tag, ignore, (bytes, number), region);
                self.started(number, index, region)?;
            }
            Kind::Collective(call) => {
                let application = &region.state.shared.applications[self.part];
                let communicators = &application.communicators;
                let no_member = || Problem::Member(call.communicator).of(number_in_trace, number);
                let position = communicators.position(call.communicator, self.number).ok_or_else(no_member)?;
                let size = communicators.size(call.communicator).unwrap_or(0);
                let mut source = application.source();
                let part = CollectivePart { rank: number_in_trace, operation: number, call };
                let of_communicator = match &region.state.circles {
                    None => source.meetings.join(part, size)?,
                    Some(circles) => {
                        let (of_communicator, listener) = circles.join(application, &mut source, part)?;
                        if let Some(listener) = listener {
                            let now = region.world.now();
                            region.world.post(application.first_rank + listener, Word::Joined(self.part as u32, now, part));
                        }
                        of_communicator
                    }
                };
                let schedule = source.collectives.schedule(&call, communicators);
                drop(source);
                let schedule = schedule.map_err(|error| Problem::from(error).of(number_in_trace, number))?;
                let rounds = schedule.offloaded().map_or_else(|| schedule.rounds(position), |_| blocks_of(&schedule));
                self.running.push(Running {
                    number,
                    schedule,
                    communicator: call.communicator,
                    position,
                    round: 0,
                    rounds,
                    open: 0,
                    open_receives: 0,
                    ahead: NOT_POSTED,
                    reductions: 0,
                    reduced_bytes: 0,
                    spread_bytes: 0,
                    of_communicator,
                    tag: COLLECTIVE_TAG | u64::from(communicators.collective_tag(call.communicator, of_communicator)),
                });
                self.started(number, index, region)?;
                self.rounds(index, self.running.len() - 1, region)?;
            }
        }
        self.complete(index, region)
    }

    /// Starts rounds of a collective until one has messages, or it is over.
    fn rounds(&mut self, index: u32, place: usize, region: &mut Region<'_>) -> Result<(), ReplayError> {
        let mut actions = std::mem::take(&mut region.state.actions);
        loop {
            let running = &mut self.running[place];
            self.clock += self.costs.reduce * u64::from(std::mem::take(&mut running.reductions));
            let bytes = std::mem::take(&mut running.reduced_bytes);
            if running.spread_bytes > 0 {
                self.clock += self.costs.copy.time_for(Bytes(std::mem::take(&mut running.spread_bytes)));
            }
            if self.costs.reduce_per_kib > SimTime::ZERO {
                let of_bytes = u128::from(self.costs.reduce_per_kib.as_ps()) * u128::from(bytes) / 1024;
                self.clock += SimTime(u64::try_from(of_bytes).unwrap_or(u64::MAX));
            }
            if running.round == running.rounds {
                let number = self.running.swap_remove(place).number;
                self.done(number, index, region)?;
                break;
            }
            if running.schedule.offloaded().is_some() {
                self.give_block(index, place, region);
                break;
            }
            let (schedule, round) = running.schedule.part(running.position, running.round);
            schedule.round(running.position, round, &mut actions);
            running.round += 1;
            for action in &actions {
                if let Action::Receive { piece, .. } = *action
                    && schedule.receives_apart(running.position, piece)
                {
                    running.spread_bytes += schedule.bytes(piece).0;
                }
                if let Action::Receive { piece, combine: true, .. } | Action::Local { to: piece, combine: true, .. } = *action {
                    running.reductions += 1;
                    if self.costs.reduce_per_kib > SimTime::ZERO {
                        running.reduced_bytes += schedule.bytes(piece).0;
                    }
                }
            }
            let (communicator, tag, context) = (running.communicator, running.tag, COLLECTIVE_CONTEXT | running.number);
            let is_copied = !running.schedule.copied().is_empty();
            let posted = std::mem::replace(&mut running.ahead, NOT_POSTED);
            let mut open = 0;
            if is_copied {
                open += self.copied_round(index, place, &mut actions, region)?;
            }
            // Receives first, as MPI libraries do: a message that finds its receive is not copied.
            let receives = match posted {
                NOT_POSTED => self.post_receives(index, place, self.running[place].round - 1, &actions, region)?,
                posted => posted,
            };
            for action in &actions {
                if let Action::Send { to, piece } = *action {
                    let to = self.member(communicator, to, context, region)?;
                    let running = &self.running[place];
                    // The round has been counted above.
                    let schedule = running.schedule.part(running.position, running.round - 1).0;
                    let bytes = schedule.bytes(piece);
                    let apart = schedule.sends_apart(piece) && bytes.0 > region.state.shared.message.inject_limit;
                    let mut completes = region.state.shared.applications[self.part].completes;
                    if apart {
                        // MPICH asks for nothing more than its buffer where it gives several places.
                        self.clock += self.costs.copy.time_for(bytes);
                        completes = Completes::BufferFree;
                    }
                    open += u32::from(!self.send(index, to, (tag, bytes, context), completes, region));
                }
            }
            let running = &mut self.running[place];
            (running.open, running.open_receives) = (open + receives, receives);
            if open == 0 {
                self.post_ahead(index, place, &mut actions, region)?;
            }
            if self.running[place].open > 0 {
                break;
            }
        }
        region.state.actions = actions;
        Ok(())
    }

    /// Gives the next block of an allreduce to the accelerator. The core looks for the end of one block before it
    /// starts the next one.
    fn give_block(&mut self, index: u32, place: usize, region: &mut Region<'_>) {
        let running = &mut self.running[place];
        let Some((nodes, board)) = running.schedule.offloaded() else { return };
        let length = bytes_of(&running.schedule) - u64::from(running.round) * u64::from(BLOCK);
        let own = nodes[running.position as usize];
        let plan = offload::plan(nodes, *board, own).expect("its communicator has been looked at");
        let allreduce = Allreduce {
            group: (self.part as u64) << 32 | u64::from(running.communicator),
            sequence: running.of_communicator << 32 | u64::from(running.round),
            source: Place::default(),
            target: Place::default(),
            // The trace does not say of what type and operation: all of them take the same time.
            length: length.min(u64::from(BLOCK)).next_multiple_of(4) as u32,
            operation: AtomicOperation::Sum,
            datatype: Datatype::Int32,
            plan,
            ticket: REDUCED | running.number as u32,
        };
        if running.round == 0 {
            self.clock += self.costs.post;
        }
        (running.round, running.open, running.open_receives) = (running.round + 1, 1, 0);
        let rail = region.state.shared.message.rails.first();
        region.world.submit(index, rail, self.clock, Command::Allreduce(Box::new(allreduce)));
    }

    /// A block has been reduced.
    fn reduced(&mut self, ticket: u32, index: u32, region: &mut Region<'_>) -> Result<(), ReplayError> {
        self.clock += self.costs.completion;
        self.digest.event(SimTime(self.clock.as_ps() - region.state.epoch.as_ps()), u64::from(ticket));
        let number = self.running.iter().map(|running| running.number).find(|number| REDUCED | *number as u32 == ticket);
        match number {
            Some(number) => self.part_done(number, false, index, region),
            None => Ok(()),
        }
    }

    /// Posts the receives of the next round, where the library does so before it waits for those of this one. Its sends
    /// are over.
    fn post_ahead(&mut self, index: u32, place: usize, actions: &mut Vec<Action>, region: &mut Region<'_>) -> Result<(), ReplayError> {
        let running = &self.running[place];
        let (schedule, next) = running.schedule.part(running.position, running.round);
        if running.ahead == NOT_POSTED && schedule.posts_ahead(running.position, next) {
            schedule.round(running.position, next, actions);
            let ahead = self.post_receives(index, place, running.round, actions, region)?;
            self.running[place].ahead = ahead;
        }
        Ok(())
    }

    /// Posts the receives of a round; how many.
    fn post_receives(
        &mut self,
        index: u32,
        place: usize,
        round: u32,
        actions: &[Action],
        region: &mut Region<'_>,
    ) -> Result<u32, ReplayError> {
        let Running { communicator, number, tag, .. } = self.running[place];
        let context = COLLECTIVE_CONTEXT | number | if round % 2 == 1 { ODD_ROUND } else { 0 };
        let mut count = 0;
        for action in actions {
            if let Action::Receive { from, .. } = *action {
                let from = self.member(communicator, from, context, region)?;
                self.receive(index, Some(from), tag, 0, (ROOM, context), region);
                count += 1;
            }
        }
        Ok(count)
    }

    /// The rank, among all, at a position of a communicator; `context` is the collective's.
    fn member(&self, communicator: u32, position: u32, context: u64, region: &Region<'_>) -> Result<u32, ReplayError> {
        let application = &region.state.shared.applications[self.part];
        let member = application.communicators.member(communicator, position);
        let operation = operation_of(context);
        let rank = member.ok_or_else(|| Problem::Position { communicator, position }.of(self.number, operation))?;
        Ok(application.first_rank + rank)
    }

    /// Takes the messages that switches copy out of a round and sees to them; how many of them are open.
    fn copied_round(&mut self, index: u32, place: usize, actions: &mut Vec<Action>, region: &mut Region<'_>) -> Result<u32, ReplayError> {
        let Running { number, ref schedule, communicator, position, .. } = self.running[place];
        let (root, context) = (schedule.root(), COLLECTIVE_CONTEXT | number);
        let root_rank = self.member(communicator, root, context, region)?;
        let mut open = 0;
        if position == root {
            let copied = |action: &Action| matches!(*action, Action::Send { to, .. } if schedule.copied().binary_search(&to).is_ok());
            let Some(&Action::Send { piece, .. }) = actions.iter().find(|action| copied(action)) else { return Ok(0) };
            actions.retain(|action| !copied(action));
            let Bytes(bytes) = schedule.bytes(piece);
            let way = match region.state.copied.ways.get(&(self.part, communicator, root)) {
                Some(way) => way.clone(),
                None => {
                    let targets = schedule.copied().iter().map(|&member| self.member(communicator, member, context, region));
                    let targets: Vec<u32> = targets.collect::<Result<_, _>>()?;
                    let way = region.world.tree(index, &targets);
                    let way = way.map_err(|error| Problem::from(error).of(self.number, number))?;
                    region.state.copied.ways.insert((self.part, communicator, root), way.clone());
                    way
                }
            };
            let key = self.copied.next(communicator, root_rank);
            let token = region.state.copied.start(key, bytes, self.clock, context, way.1.len() as u32);
            self.clock += self.costs.post;
            region.world.multicast(index, self.clock, &way, bytes, token);
            // A short message is copied as it is posted, and then over.
            if bytes <= region.state.shared.message.inject_limit && bytes > self.costs.pio_limit {
                self.clock += self.costs.copy.time_for(Bytes(bytes));
            }
            open += u32::from(bytes > region.state.shared.message.inject_limit);
        } else if schedule.copied().binary_search(&position).is_ok() {
            let before = actions.len();
            actions.retain(|action| !matches!(action, Action::Receive { .. }));
            for _ in actions.len()..before {
                let key = self.copied.next(communicator, root_rank);
                match self.copied.ask(key, context, self.clock) {
                    Some(token) => self.received_copy((token, number), true, region)?,
                    None => open += 1,
                }
            }
        }
        Ok(open)
    }

    /// News of a broadcast that switches copy.
    fn told(&mut self, index: u32, told: CopyNotice, region: &mut Region<'_>) -> Result<(), ReplayError> {
        let message = region.state.copied.get(told.token);
        let context = if told.sent {
            region.state.copied.settle(told.token);
            if message.bytes <= region.state.shared.message.inject_limit {
                return Ok(());
            }
            self.clock += self.costs.completion;
            message.context
        } else {
            let Some((context, early)) = self.copied.arrive(message.key, told.token, told.at) else { return Ok(()) };
            self.received_copy((told.token, context & !COLLECTIVE_CONTEXT), early, region)?;
            context
        };
        self.part_done(context & !COLLECTIVE_CONTEXT, false, index, region)
    }

    /// A rank takes a message; one that came before it was asked for is copied.
    fn received_copy(&mut self, (token, number): (u32, u64), early: bool, region: &mut Region<'_>) -> Result<(), ReplayError> {
        let message = region.state.copied.get(token);
        self.clock += self.costs.completion;
        if early {
            self.clock += self.costs.copy.time_for(Bytes(message.bytes));
        }
        region.state.copied.settle(token);
        self.count(message.bytes, (message.key.1, message.start), number, region)
    }

    /// A message that `from` started at `start` has been received, by an operation.
    fn count(&mut self, bytes: u64, (from, start): (u32, SimTime), number: u64, region: &mut Region<'_>) -> Result<(), ReplayError> {
        let tally = &mut region.state.tallies[self.part];
        tally.messages += 1;
        tally.bytes = tally.bytes.checked_add(bytes).ok_or_else(|| self.beyond(number)(Excess::Bytes))?;
        let fct = self.clock.saturating_sub(start);
        tally.fct.add(fct);
        let since = SimTime(self.clock.as_ps() - region.state.epoch.as_ps());
        if let Some(watch) = &mut region.state.watch {
            watch.received(self.part, bytes, since, fct);
        }
        self.digest.event(since, u64::from(from));
        Ok(())
    }

    /// A message of a collective is over: of the current round, or a receive of the next one that was posted ahead.
    fn part_done(&mut self, context: u64, receive: bool, index: u32, region: &mut Region<'_>) -> Result<(), ReplayError> {
        let number = operation_of(context);
        if let Some(place) = self.running.iter().position(|running| running.number == number) {
            let running = &mut self.running[place];
            // The round is the one before the one to come.
            let is_ahead = (context & ODD_ROUND != 0) == (running.round % 2 == 1);
            if receive && running.ahead != NOT_POSTED && is_ahead {
                running.ahead -= 1;
                return Ok(());
            }
            running.open_receives -= u32::from(receive && running.open_receives > 0);
            running.open -= 1;
            if running.open == 0 {
                return self.rounds(index, place, region);
            }
            if !receive && running.open == running.open_receives {
                let mut actions = std::mem::take(&mut region.state.actions);
                self.post_ahead(index, place, &mut actions, region)?;
                region.state.actions = actions;
            }
        }
        Ok(())
    }

    /// True when the send is over: short messages are copied as they are posted.
    fn send(
        &mut self,
        index: u32,
        to: u32,
        (tag, length, context): (u64, Bytes, u64),
        completes: Completes,
        region: &mut Region<'_>,
    ) -> bool {
        let inject = length.0 <= region.state.shared.message.inject_limit;
        let number = self.sent;
        self.sent = self.sent.wrapping_add(1);
        region.world.post(to, Word::Started { from: index, number, start: self.clock });
        let send = narrows_message::Send {
            queue: Queue::Tagged,
            target: region.process(to),
            tag,
            data: Some(number),
            buffer: 0,
            length: length.0,
            context,
            inject,
            completes: if inject { Completes::Never } else { completes },
        };
        let mut port = Self::port(&mut self.clock, &mut self.given, self.costs, index, region);
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.send(&mut port, send).expect("a rank with a million open requests is far beyond what MPI programs have");
        }
        inject
    }

    fn receive(&mut self, index: u32, from: Option<u32>, tag: u64, ignore: u64, (length, context): (Bytes, u64), region: &mut Region<'_>) {
        let receive = Receive {
            queue: Queue::Tagged,
            source: from.map(|from| region.process(from)),
            tag,
            ignore,
            buffer: RECEIVE_BUFFER,
            length: length.0,
            context,
            completion: true,
            multi: None,
            execution: 0,
        };
        let mut port = Self::port(&mut self.clock, &mut self.given, self.costs, index, region);
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.receive(&mut port, receive).expect("a rank with a million open requests is far beyond what MPI programs have");
        }
    }

    /// The error of an operation whose message did not end well.
    fn refused(&mut self, completion: &Completion) -> ReplayError {
        let (rank, operation) = (self.number, operation_of(completion.context));
        let kind = self.node(operation).operation.kind;
        match completion.status {
            Status::Failed(fail) => Problem::Transport(fail),
            // Nothing here peeks or cancels.
            _ => Problem::Truncated { bytes: completion.full_length, source_rank: None, receive: kind.to_string() },
        }
        .of(rank, operation)
    }

    /// Hands completions to the program.
    fn complete(&mut self, index: u32, region: &mut Region<'_>) -> Result<(), ReplayError> {
        while let Some(completion) = self.endpoint.as_mut().and_then(Endpoint::next_completion) {
            self.clock += self.costs.completion;
            if completion.status != Status::Ok {
                return Err(self.refused(&completion));
            }
            if completion.kind == CompletionKind::Receive
                && let Some(number) = completion.data
            {
                let from = region.sender(completion.source);
                let start = region.state.flights.remove(&flight(from, number)).expect("a message that is here has been started");
                self.count(completion.full_length, (from, start), operation_of(completion.context), region)?;
            }
            if completion.context & COLLECTIVE_CONTEXT == 0 {
                self.done(completion.context, index, region)?;
            } else {
                let receive = completion.kind == CompletionKind::Receive;
                self.part_done(completion.context, receive, index, region)?;
            }
        }
        Ok(())
    }
}

/// The operation that a message belongs to.
fn operation_of(context: u64) -> u64 {
    context & !(COLLECTIVE_CONTEXT | ODD_ROUND)
}

fn bytes_of(allreduce: &Schedule) -> u64 {
    allreduce.bytes(Piece { area: Area::Input, blocks: Blocks::Run { first: 0, count: allreduce.blocks() } }).0
}

/// Blocks that the accelerator is given.
fn blocks_of(allreduce: &Schedule) -> u32 {
    u32::try_from(bytes_of(allreduce).div_ceil(u64::from(BLOCK))).unwrap_or(u32::MAX)
}

fn tell(timeline: &Timeline, rank: u32, (kind, cpu): (&Kind, u8), begin: SimTime, end: SimTime, epoch: SimTime) {
    let (name, peer, tag) = match *kind {
        Kind::Compute { .. } if cpu > 0 => (ACCELERATOR, NONE, NONE),
        Kind::Compute { .. } => (COMPUTE, NONE, NONE),
        Kind::Send { to, tag, .. } => ("send", i64::from(to), i64::from(tag)),
        Kind::Receive { from, tag, .. } => ("receive", from.map_or(ANY, i64::from), tag.map_or(ANY, i64::from)),
        Kind::Collective(call) => (call.operation.name(), NONE, NONE),
    };
    let (begin, end) = (begin.saturating_sub(epoch), end.saturating_sub(epoch));
    timeline.call(Call { rank, name, begin, end, waited: SimTime::ZERO, peer, tag });
}
