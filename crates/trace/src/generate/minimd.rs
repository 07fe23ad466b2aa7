//! miniMD (github.com/Mantevo/miniMD, `ref/integrate.cpp` and `comm.cpp`), with half neighbour lists and forces of
//! ghosts sent back, which are its defaults: positions of ghosts come in six swaps, forces go back in six. Every 20
//! steps atoms move to the rank whose box they are in, and there are new ghosts. Every message of which the receiver
//! does not know the size comes behind its size.

use super::{ATOM_STEP_PS, CELL_ATOMS, DENSITY, FORWARD, REVERSE, Script};
use crate::TraceError;
use crate::operation::{Collective, Kind};
use narrows_units::{Bytes, SimTime};

/// `in.lj.miniMD.32`: steps between two rebuilds of neighbour lists, and between two outputs.
const REBUILD: u32 = 20;
const THERMO: u32 = 100;
/// Doubles of an atom that becomes a ghost (`Atom::pack_border`), and of one that moves (`pack_exchange`).
const BORDER: u64 = 4;
const EXCHANGE: u64 = 7;
/// Of a rebuild: 20 steps of 0.005. Half of the initial temperature of 1.44 goes into the potential of the melting
/// lattice.
const TIME: f64 = 0.1;
const TEMPERATURE: f64 = 0.72;

impl Script<'_> {
    pub(super) fn minimd(&mut self, number: u32) -> Result<(), TraceError> {
        if (number + 1).is_multiple_of(REBUILD) {
            self.move_atoms()?;
            self.swap_sizes()?;
            self.swaps(BORDER, false, 0)?;
        } else {
            self.swaps(FORWARD, false, 0)?;
        }
        let atoms = self.cells.iter().product::<u64>() as f64 * CELL_ATOMS;
        self.compute(SimTime((atoms * ATOM_STEP_PS) as u64));
        self.swaps(REVERSE, true, 0)?;
        if (number + 1).is_multiple_of(THERMO) {
            // Temperature, energy, pressure.
            for _ in 0..3 {
                self.call(Collective::Allreduce, 8, 8)?;
            }
        }
        Ok(())
    }

    /// `MPI_Sendrecv`.
    fn send_receive(&mut self, to: u32, from: u32, bytes: u64) -> Result<(), TraceError> {
        let receive = self.sequence.begin(self.rank, self.ahead, Kind::Receive { from: Some(from), bytes: Bytes(bytes), tag: Some(0) })?;
        self.sequence.call(self.rank, self.ahead, Kind::Send { to, bytes: Bytes(bytes), tag: 0 })?;
        self.sequence.wait(self.rank, self.ahead, receive)
    }

    /// All that leaves a box in one direction or the other goes both ways (`Comm::exchange`): their number, then the
    /// atoms. As many as a gas of this density and temperature would send through the two faces: more than a liquid
    /// does.
    fn move_atoms(&mut self) -> Result<(), TraceError> {
        let sides = self.cells.map(|cells| cells as f64 * (CELL_ATOMS / DENSITY).cbrt());
        let flux = DENSITY * (TEMPERATURE / std::f64::consts::TAU).sqrt() * TIME;
        for dimension in 0..3 {
            let ranks = self.dimensions[dimension];
            if ranks == 1 {
                continue;
            }
            let area = sides.iter().product::<f64>() / sides[dimension];
            let atoms = (2.0 * area * flux).round() as u64;
            let (up, down) = (self.around(dimension, 1), self.around(dimension, ranks - 1));
            // With two ranks, both ways lead to the same one.
            let ways = if ranks > 2 { &[(down, up), (up, down)][..] } else { &[(down, up)] };
            for bytes in [4, 8 * EXCHANGE * atoms] {
                for &(to, from) in ways {
                    self.send_receive(to, from, bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Of the six swaps of new ghosts.
    fn swap_sizes(&mut self) -> Result<(), TraceError> {
        for dimension in (0..3).filter(|&dimension| self.dimensions[dimension] > 1).collect::<Vec<_>>() {
            let (up, down) = (self.around(dimension, 1), self.around(dimension, self.dimensions[dimension] - 1));
            self.send_receive(up, down, 4)?;
            self.send_receive(down, up, 4)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{bytes, count};
    use super::super::{GHOST_WIDTH, Pattern};
    use super::*;

    #[test]
    fn swaps_in_each_step_and_moves_in_each_twentieth() {
        // 27 ranks, 3 x 3 x 3: 12 messages per step, and at two of 40 steps 12 for atoms that move and 6 for sizes.
        let (all, _) = count(Pattern::MinimdLike, 27, 40);
        assert_eq!((all.messages, all.calls), (27 * (40 * 12 + 2 * 18), 0));
        let (all, _) = count(Pattern::MinimdLike, 27, 100);
        assert_eq!(all.calls, 27 * 3);
        // Two ranks: atoms that move go one way.
        assert_eq!(count(Pattern::MinimdLike, 2, 20).0.messages, 2 * (20 * 4 + 2 + 2));
    }

    #[test]
    fn bytes_are_those_of_ghosts_and_of_atoms_that_move() {
        // A brick of 2 x 1 x 1 ranks with one direction to others: 19 steps with 3 doubles of each ghost there, one
        // with 4; 3 back in all. 0.0286 of an atom moves through each unit of a face.
        let lattice = (4.0 / DENSITY).cbrt();
        let area = 20.0 * lattice * 40.0 * lattice;
        let ghosts = (area * GHOST_WIDTH * DENSITY).round() as u64;
        let moved = (2.0 * area * DENSITY * (0.72 / std::f64::consts::TAU).sqrt() * 0.1).round() as u64;
        let per_rank = 2 * 8 * ghosts * (19 * 3 + 4 + 20 * 3) + 2 * 4 + 4 + 7 * 8 * moved;
        assert_eq!(bytes(Pattern::MinimdLike, 2, 20, "10x20x40"), 2 * per_rank);
    }
}
