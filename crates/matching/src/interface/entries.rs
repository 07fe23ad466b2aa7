//! List entries: appended, searched for, unlinked, and what they do to unexpected headers (section 3.12).

use narrows_portals::{EntryId, EqId, Event, EventKind, FailType, List, MatchEntry, ReplyCode, SearchOperation, me};

use super::{Claim, Claimed, Entry, Interface, NONE, Sink, reply, target_event};

impl Interface {
    /// Searches the unexpected headers, else links (section 3.12.2). Returns the elements visited.
    pub fn me_append(&mut self, id: EntryId, index: u32, list: List, me: &MatchEntry, sink: &mut impl Sink) -> u64 {
        self.relieved = true;
        let Some(table) = self.table(index) else {
            self.never_linked(id, index, list);
            return 0;
        };
        let eq = table.eq;
        let once = me.options & me::USE_ONCE != 0;
        let mut entry = Entry {
            id,
            me: *me,
            pt: index,
            list,
            order: 0,
            linked: true,
            announced: false,
            unlinks: None,
            local_offset: 0,
            active: 0,
            headers: 0,
        };
        let mut visited = 0;
        if list == List::Priority {
            let claim = Claim {
                what: if once { Claimed::TakeAndUnlink } else { Claimed::Take },
                options: me.options,
                ct: me.ct,
                user_ptr: me.user_ptr,
            };
            let mut after = 0;
            loop {
                let (found, more) = self.find_header(index, me, entry.local_offset, after);
                visited += more;
                let Some((order, slot)) = found else { break };
                after = order + 1;
                let rlength = self.headers.get(slot).map_or(0, |header| header.operation.rlength);
                self.take_header(index, slot, &claim, sink);
                if once {
                    self.never_linked(id, index, list);
                    return visited;
                }
                if entry.has(me::LOCAL_INC_UH_RLENGTH) && entry.has(me::MANAGE_LOCAL) {
                    entry.local_offset = entry.local_offset.saturating_add(rlength);
                    if entry.below_min_free() {
                        self.never_linked(id, index, list);
                        if !entry.has(me::EVENT_UNLINK_DISABLE) {
                            self.post(eq, Event { pt: index, user_ptr: me.user_ptr, list, ..Event::blank(EventKind::AutoUnlink) }, sink);
                        }
                        return visited;
                    }
                }
            }
        }
        let slot = self.entries.insert(entry);
        self.ids.insert(id.0, slot);
        if let Some(table) = self.tables.get_mut(index as usize).and_then(Option::as_mut) {
            let order = if list == List::Priority { table.priority.push(slot, me) } else { table.overflow.push(slot, me) };
            if let Some(entry) = self.entries.get_mut(slot) {
                entry.order = order;
            }
        }
        if me.options & me::EVENT_LINK_DISABLE == 0 {
            self.post(eq, Event { pt: index, user_ptr: me.user_ptr, list, ..Event::blank(EventKind::Link) }, sink);
        }
        visited
    }

    fn never_linked(&mut self, id: EntryId, pt: u32, list: List) {
        self.declared.left_list(pt, list);
        self.forget_entry(id, pt);
    }

    /// The oldest header from `after` on that `me` matches. Whether `me` accepts puts or gets does
    /// not matter (the header's operation is done, and clients probe with no options at all); its
    /// room does under `NO_TRUNCATE`.
    fn find_header(&self, index: u32, me: &MatchEntry, used: u64, after: u64) -> (Option<(u64, u32)>, u64) {
        let Some(table) = self.table(index) else { return (None, 0) };
        let mut visited = 0;
        for (order, key) in table.unexpected.iter_from(after) {
            visited += 1;
            if !me.matches(key.initiator, key.bits) {
                continue;
            }
            let offset = if me.options & me::MANAGE_LOCAL != 0 { used } else { key.offset };
            if me.options & me::NO_TRUNCATE == 0 || key.rlength <= me.length.saturating_sub(offset) {
                return (Some((order, key.slot)), visited);
            }
        }
        (None, visited)
    }

    /// Removes a header from its list and reports it, now or when its data are there.
    fn take_header(&mut self, index: u32, slot: u32, claim: &Claim, sink: &mut impl Sink) {
        let order = self.headers.get_mut(slot).and_then(|header| header.order.take());
        if let (Some(order), Some(table)) = (order, self.table_mut(index)) {
            table.unexpected.remove(order);
        }
        self.claim(slot, claim, sink);
    }

    fn claim(&mut self, slot: u32, claim: &Claim, sink: &mut impl Sink) {
        let Some(header) = self.headers.get_mut(slot) else { return };
        if header.complete.is_some() {
            self.report(slot, claim, sink);
        } else {
            header.claims.push(*claim);
        }
    }

    /// The event of a claim, and the end of the header when the claim takes it.
    pub(super) fn report(&mut self, slot: u32, claim: &Claim, sink: &mut impl Sink) {
        let Some(header) = self.headers.get(slot) else { return };
        let (operation, landing, fail) = (header.operation, header.landing, header.complete.unwrap_or_default());
        let eq = self.table(operation.pt).map_or(EqId::NONE, |table| table.eq);
        let kind = if claim.what == Claimed::Look { EventKind::Search } else { operation.kind.event(true) };
        let silent = if fail == FailType::Ok { me::EVENT_OVER_DISABLE | me::EVENT_SUCCESS_DISABLE } else { me::EVENT_OVER_DISABLE };
        if claim.what == Claimed::Look || claim.options & silent == 0 {
            self.post(eq, target_event(kind, &operation, &landing, fail, claim.user_ptr), sink);
        }
        if claim.options & me::EVENT_CT_OVERFLOW != 0 {
            self.counters.count(claim.ct, fail, (claim.options & me::EVENT_CT_BYTES != 0).then_some(landing.mlength), sink);
        }
        if claim.what == Claimed::Look {
            return;
        }
        self.remove_header(slot);
        self.relieved = true;
        if let Some(entry) = self.entries.get_mut(landing.entry) {
            entry.headers -= 1;
            self.settle(landing.entry, sink);
        }
        // Behind the AUTO_FREE of the entry that had caught the message, as the reference implementation has it.
        if claim.what == Claimed::TakeAndUnlink && claim.options & me::EVENT_UNLINK_DISABLE == 0 {
            let event = Event { pt: operation.pt, user_ptr: claim.user_ptr, ..Event::blank(EventKind::AutoUnlink) };
            self.post(eq, event, sink);
        }
    }

    /// `PtlMESearch` (section 3.12.4). Returns the elements visited.
    pub fn me_search(&mut self, index: u32, search: SearchOperation, me: &MatchEntry, sink: &mut impl Sink) -> u64 {
        let Some(eq) = self.table(index).map(|table| table.eq) else { return 0 };
        let once = me.options & me::USE_ONCE != 0;
        let what = if search == SearchOperation::Only { Claimed::Look } else { Claimed::Take };
        let claim = Claim { what, options: me.options, ct: me.ct, user_ptr: me.user_ptr };
        let (mut visited, mut after, mut hit) = (0, 0, false);
        loop {
            let (found, more) = self.find_header(index, me, 0, after);
            visited += more;
            let Some((order, slot)) = found else { break };
            after = order + 1;
            hit = true;
            match search {
                SearchOperation::Only => self.claim(slot, &claim, sink),
                SearchOperation::Delete => self.take_header(index, slot, &claim, sink),
            }
            if once {
                return visited;
            }
        }
        if !hit && me.options & me::SEARCH_WAITS != 0 {
            if let Some(table) = self.table_mut(index) {
                table.searches.push((*me, claim));
            }
            return visited;
        }
        if !hit {
            let event = Event {
                pt: index,
                user_ptr: me.user_ptr,
                fail: FailType::NoMatch,
                match_bits: me.match_bits,
                ..Event::blank(EventKind::Search)
            };
            self.post(eq, event, sink);
        }
        // 4.3: a search that reached the end of the list counts one failure.
        if me.options & me::EVENT_CT_OVERFLOW != 0 {
            self.counters.count(me.ct, FailType::NoMatch, None, sink);
        }
        visited
    }

    /// `PtlMEUnlink` (section 3.12.3): no event. In use while a header needs the entry, or an operation for which the
    /// NIC itself has unlinked it. Other operations that have matched are waited for, while nothing more matches: a
    /// program whose peers still send could ask again for long.
    pub fn me_unlink(&mut self, id: EntryId, ticket: u32, sink: &mut impl Sink) {
        let slot = self.ids.get(&id.0).copied().unwrap_or(NONE);
        let Some(entry) = self.entries.get_mut(slot) else { return reply(ticket, ReplyCode::Unknown, sink) };
        if entry.headers > 0 || !entry.linked {
            return reply(ticket, ReplyCode::InUse, sink);
        }
        entry.linked = false;
        entry.unlinks = Some(ticket);
        let (pt, list, order) = (entry.pt, entry.list, entry.order);
        self.declared.left_list(pt, list);
        if let Some(table) = self.table_mut(pt) {
            if list == List::Priority { table.priority.remove(order) } else { table.overflow.remove(order) }
        }
        // What is held for want of room behind this entry may match another one now.
        self.relieved = true;
        self.settle(slot, sink);
    }
}
