//! What of a process's allocations is true once all its commands have arrived. Checked when a
//! command is written, so that the library hears of its error at once.

use narrows_portals::{CtId, EqId, pt};

use crate::error::CommandError;
use crate::portal::{MAX_HANDLE, MAX_PT_INDEX};

#[derive(Default, Debug)]
pub(crate) struct Declared {
    eqs: Vec<bool>,
    cts: Vec<bool>,
    pts: Vec<bool>,
}

fn set(bits: &mut Vec<bool>, index: u32, value: bool) {
    let index = index as usize;
    if index >= bits.len() {
        bits.resize(index + 1, false);
    }
    bits[index] = value;
}

fn is_set(bits: &[bool], index: u32) -> bool {
    bits.get(index as usize).copied().unwrap_or(false)
}

impl Declared {
    pub fn declare_eq(&mut self, eq: EqId) -> Result<(), CommandError> {
        if eq.0 > MAX_HANDLE {
            return Err(CommandError::EqOutOfRange(eq));
        }
        if is_set(&self.eqs, eq.0) {
            return Err(CommandError::EqInUse(eq));
        }
        set(&mut self.eqs, eq.0, true);
        Ok(())
    }

    pub fn undeclare_eq(&mut self, eq: EqId) -> Result<(), CommandError> {
        self.known_eq(eq)?;
        set(&mut self.eqs, eq.0, false);
        Ok(())
    }

    pub fn known_eq(&self, eq: EqId) -> Result<(), CommandError> {
        if is_set(&self.eqs, eq.0) { Ok(()) } else { Err(CommandError::EqUnknown(eq)) }
    }

    pub fn declare_ct(&mut self, ct: CtId) -> Result<(), CommandError> {
        if ct.0 > MAX_HANDLE {
            return Err(CommandError::CtOutOfRange(ct));
        }
        if is_set(&self.cts, ct.0) {
            return Err(CommandError::CtInUse(ct));
        }
        set(&mut self.cts, ct.0, true);
        Ok(())
    }

    pub fn undeclare_ct(&mut self, ct: CtId) -> Result<(), CommandError> {
        self.known_ct(ct)?;
        set(&mut self.cts, ct.0, false);
        Ok(())
    }

    pub fn known_ct(&self, ct: CtId) -> Result<(), CommandError> {
        if is_set(&self.cts, ct.0) { Ok(()) } else { Err(CommandError::CtUnknown(ct)) }
    }

    pub fn declare_pt(&mut self, index: u32, options: u32, eq: EqId) -> Result<(), CommandError> {
        if index > MAX_PT_INDEX {
            return Err(CommandError::PtOutOfRange(index));
        }
        if is_set(&self.pts, index) {
            return Err(CommandError::PtInUse(index));
        }
        if eq != EqId::NONE {
            self.known_eq(eq)?;
        } else if options & pt::FLOWCTRL != 0 {
            return Err(CommandError::EqNeeded(index));
        }
        set(&mut self.pts, index, true);
        Ok(())
    }

    pub fn undeclare_pt(&mut self, index: u32) -> Result<(), CommandError> {
        self.known_pt(index)?;
        set(&mut self.pts, index, false);
        Ok(())
    }

    /// A freeing that the NIC refused.
    pub fn redeclare_pt(&mut self, index: u32) {
        set(&mut self.pts, index, true);
    }

    pub fn known_pt(&self, index: u32) -> Result<(), CommandError> {
        if is_set(&self.pts, index) { Ok(()) } else { Err(CommandError::PtUnknown(index)) }
    }
}
