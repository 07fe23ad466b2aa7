//! What of a process's allocations is true once all its commands have arrived. Checked when a
//! command is written, so that the library hears of its error at once.

use narrows_portals::{CtId, EqId, INTERFACES, Limits, List, PT_PER_INTERFACE, pt};

use crate::error::CommandError;
use crate::interface::MAX_PT_INDEX;

/// What a process has allocated or is about to, as its commands say: a command that names anything else is refused.
#[derive(Debug)]
pub struct Declared {
    /// By slot: which queue is there.
    eqs: Vec<Option<EqId>>,
    cts: Vec<Option<CtId>>,
    pts: Vec<Option<()>>,
    /// By network interface.
    limits: [Limits; INTERFACES as usize],
    /// By network interface: entries from their append to their end, which may be after they have left their list.
    entries: [u32; INTERFACES as usize],
    /// By portal table index: entries from their append to their leaving the priority list, the overflow list.
    lists: Vec<[u32; 2]>,
}

/// The network interface that a portal table entry belongs to.
pub fn interface_of(pt: u32) -> usize {
    (pt / PT_PER_INTERFACE % INTERFACES) as usize
}

fn set<T: Clone>(places: &mut Vec<Option<T>>, slot: usize, value: Option<T>) {
    if slot >= places.len() {
        places.resize(slot + 1, None);
    }
    places[slot] = value;
}

fn get<T: Copy>(places: &[Option<T>], slot: usize) -> Option<T> {
    places.get(slot).copied().flatten()
}

impl Declared {
    /// Nothing yet, within these limits.
    pub fn new(limits: Limits) -> Declared {
        let entries = [0; INTERFACES as usize];
        Declared { eqs: Vec::new(), cts: Vec::new(), pts: Vec::new(), limits: [limits; INTERFACES as usize], entries, lists: Vec::new() }
    }

    /// It is near, and about to be looked at: see [`narrows_engine::prefetch`].
    #[inline]
    pub fn prefetch(&self) {
        self.lists.first().into_iter().for_each(narrows_engine::prefetch);
        self.pts.first().into_iter().for_each(narrows_engine::prefetch);
    }

    /// What a network interface may have from now on.
    pub fn limit(&mut self, interface: u32, limits: Limits) {
        if let Some(place) = self.limits.get_mut(interface as usize) {
            *place = limits;
        }
    }

    /// List entries of a network interface.
    pub fn entries(&self, interface: u32) -> u32 {
        self.entries.get(interface as usize).copied().unwrap_or(0)
    }

    /// Entries of a list.
    pub fn list_size(&self, pt: u32, list: List) -> u32 {
        self.lists.get(pt as usize).map_or(0, |lists| lists[list as usize])
    }

    /// An append is on its way.
    pub fn declare_entry(&mut self, pt: u32, list: List) -> Result<(), CommandError> {
        let (interface, index) = (interface_of(pt), pt as usize);
        let Limits { entries, list_size, .. } = self.limits[interface];
        if self.list_size(pt, list) >= list_size {
            return Err(CommandError::ListTooLong(list_size));
        }
        if self.entries[interface] >= entries {
            return Err(CommandError::NoSpace(entries));
        }
        if index >= self.lists.len() {
            self.lists.resize(index + 1, [0; 2]);
        }
        self.lists[index][list as usize] += 1;
        self.entries[interface] += 1;
        Ok(())
    }

    /// An entry has left its list, or will never be in it.
    pub fn left_list(&mut self, pt: u32, list: List) {
        self.lists[pt as usize][list as usize] -= 1;
    }

    /// An entry is no more.
    pub fn undeclare_entry(&mut self, pt: u32) {
        self.entries[interface_of(pt)] -= 1;
    }

    /// An event queue is allocated.
    ///
    /// # Errors
    /// It is none, or there already.
    pub fn declare_eq(&mut self, eq: EqId) -> Result<(), CommandError> {
        if eq == EqId::NONE {
            return Err(CommandError::EqOutOfRange(eq));
        }
        if get(&self.eqs, eq.slot()).is_some() {
            return Err(CommandError::EqInUse(eq));
        }
        set(&mut self.eqs, eq.slot(), Some(eq));
        Ok(())
    }

    /// It is freed.
    ///
    /// # Errors
    /// It is not there.
    pub fn undeclare_eq(&mut self, eq: EqId) -> Result<(), CommandError> {
        self.known_eq(eq)?;
        set(&mut self.eqs, eq.slot(), None);
        Ok(())
    }

    /// It is used.
    ///
    /// # Errors
    /// It is not there.
    pub fn known_eq(&self, eq: EqId) -> Result<(), CommandError> {
        if get(&self.eqs, eq.slot()) == Some(eq) { Ok(()) } else { Err(CommandError::EqUnknown(eq)) }
    }

    /// A counting event is allocated.
    ///
    /// # Errors
    /// It is none, or there already.
    pub fn declare_ct(&mut self, ct: CtId) -> Result<(), CommandError> {
        if ct == CtId::NONE {
            return Err(CommandError::CtOutOfRange(ct));
        }
        if get(&self.cts, ct.slot()).is_some() {
            return Err(CommandError::CtInUse(ct));
        }
        set(&mut self.cts, ct.slot(), Some(ct));
        Ok(())
    }

    /// It is freed.
    ///
    /// # Errors
    /// It is not there.
    pub fn undeclare_ct(&mut self, ct: CtId) -> Result<(), CommandError> {
        self.known_ct(ct)?;
        set(&mut self.cts, ct.slot(), None);
        Ok(())
    }

    /// It is used.
    ///
    /// # Errors
    /// It is not there.
    pub fn known_ct(&self, ct: CtId) -> Result<(), CommandError> {
        if get(&self.cts, ct.slot()) == Some(ct) { Ok(()) } else { Err(CommandError::CtUnknown(ct)) }
    }

    /// A portal table entry is allocated.
    ///
    /// # Errors
    /// It is beyond the table, or there already, or its event queue is not there or missing.
    pub fn declare_pt(&mut self, index: u32, options: u32, eq: EqId) -> Result<(), CommandError> {
        if index > MAX_PT_INDEX {
            return Err(CommandError::PtOutOfRange(index));
        }
        if get(&self.pts, index as usize).is_some() {
            return Err(CommandError::PtInUse(index));
        }
        if eq != EqId::NONE {
            self.known_eq(eq)?;
        } else if options & pt::FLOWCTRL != 0 {
            return Err(CommandError::EqNeeded(index));
        }
        set(&mut self.pts, index as usize, Some(()));
        Ok(())
    }

    /// It is freed.
    ///
    /// # Errors
    /// It is not there.
    pub fn undeclare_pt(&mut self, index: u32) -> Result<(), CommandError> {
        self.known_pt(index)?;
        set(&mut self.pts, index as usize, None);
        Ok(())
    }

    /// A freeing that the NIC refused.
    pub fn redeclare_pt(&mut self, index: u32) {
        set(&mut self.pts, index as usize, Some(()));
    }

    /// It is used.
    ///
    /// # Errors
    /// It is not there.
    pub fn known_pt(&self, index: u32) -> Result<(), CommandError> {
        if get(&self.pts, index as usize).is_some() { Ok(()) } else { Err(CommandError::PtUnknown(index)) }
    }
}
