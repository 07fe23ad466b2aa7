use narrows_units::SimTime;

/// A 64-bit fingerprint of what happened, in order: FNV-1a over 64-bit words with a final mix.
///
/// The same inputs give the same digest on any number of threads and on any host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Adds one word.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    }

    /// Adds an instant and what happened then.
    #[inline]
    pub fn event(&mut self, at: SimTime, what: u64) {
        self.word(at.as_ps());
        self.word(what);
    }

    /// The fingerprint so far.
    pub fn value(self) -> u64 {
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
