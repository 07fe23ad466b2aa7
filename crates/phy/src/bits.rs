//! Bits in the order of the wire.

/// A queue of bits. Of a number that is pushed, bit 0 goes first, as everywhere in clauses 82 and 91.
#[derive(Clone, Debug, Default)]
pub struct Bits {
    /// One more than the word of the next bit at least, once anything has come. In that one, what is not there yet is
    /// 0; those behind it are anything.
    words: Vec<u64>,
    /// The first bit that is still there.
    begin: usize,
    end: usize,
}

/// So many words at least are given back at once.
const SPARE_WORDS: usize = 1 << 12;
/// So many words are there from the first bit on.
const FIRST_WORDS: usize = 128;

/// The lowest `count` bits.
fn mask(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

impl Bits {
    /// None yet.
    pub fn new() -> Bits {
        Bits::default()
    }

    /// Number of bits.
    pub fn len(&self) -> usize {
        self.end - self.begin
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Appends the lowest `count` bits (at most 64) of `value`.
    #[inline]
    pub fn push(&mut self, value: u64, count: u32) {
        let (value, word, offset) = (value & mask(count), self.end / 64, (self.end % 64) as u32);
        if word + 2 > self.words.len() {
            self.words.resize(FIRST_WORDS.max(2 * self.words.len()), 0);
        }
        self.words[word] |= value << offset;
        self.words[word + 1] = value >> 1 >> (63 - offset);
        self.end += count as usize;
    }

    /// Appends the lowest `count` bits (at most 64, the others are 0) of each value.
    #[inline]
    pub fn push_all(&mut self, values: &[u64], count: u32) {
        let (mut word, mut offset) = (self.end / 64, (self.end % 64) as u32);
        self.end += count as usize * values.len();
        let needed = self.end / 64 + 2;
        if needed > self.words.len() {
            self.words.resize(FIRST_WORDS.max(2 * needed), 0);
        }
        let mut last = self.words[word];
        for &value in values {
            last |= value << offset;
            offset += count;
            if offset >= 64 {
                self.words[word] = last;
                offset -= 64;
                word += 1;
                // What of the value did not fit; all of it did where the next one begins a word.
                last = value >> 1 >> (count - 1 - offset);
            }
        }
        self.words[word] = last;
    }

    /// Appends all bits of `other`.
    pub fn append(&mut self, other: &Bits) {
        let mut at = 0;
        while at < other.len() {
            let count = (other.len() - at).min(64) as u32;
            self.push(other.peek(at, count), count);
            at += count as usize;
        }
    }

    /// Numbers of `count` bits (at most 64) that stand one behind the other from the first bit on; what is behind the
    /// end is anything.
    #[inline]
    pub fn peek_all(&self, count: u32, values: &mut [u64]) {
        let mut at = self.begin;
        for value in values {
            let offset = (at % 64) as u32;
            let Some(&[low, high]) = self.words.get(at / 64..).and_then(|words| words.first_chunk()) else { return };
            *value = (low >> offset | high << 1 << (63 - offset)) & mask(count);
            at += count as usize;
        }
    }

    /// `count` bits (at most 64) from place `at` on; what is behind the end is 0.
    #[inline]
    pub fn peek(&self, at: usize, count: u32) -> u64 {
        let (word, offset, there) = ((self.begin + at) / 64, ((self.begin + at) % 64) as u32, self.len());
        let Some(&[low, high]) = self.words.get(word..).and_then(|words| words.first_chunk()) else { return 0 };
        let count = if at + count as usize <= there { count } else { there.saturating_sub(at) as u32 };
        (low >> offset | high << 1 << (63 - offset)) & mask(count)
    }

    /// Turns the bit at place `at` over.
    ///
    /// # Panics
    /// There is no such bit.
    pub fn flip(&mut self, at: usize) {
        assert!(at < self.len(), "bit {at} of {}", self.len());
        self.words[(self.begin + at) / 64] ^= 1 << ((self.begin + at) % 64);
    }

    /// Takes `count` bits away from the front, or as many as there are.
    pub fn skip(&mut self, count: usize) {
        self.begin = self.end.min(self.begin + count);
        if self.begin == self.end {
            if let Some(first) = self.words.first_mut() {
                *first = 0;
            }
            (self.begin, self.end) = (0, 0);
        } else if self.begin / 64 >= SPARE_WORDS.max(self.end / 64 / 2) {
            let spare = self.begin / 64;
            self.words.copy_within(spare..=self.end / 64, 0);
            self.begin -= 64 * spare;
            self.end -= 64 * spare;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out_in_its_order(parts in prop::collection::vec((any::<u64>(), 0u32..65), 0..60), skip in 0usize..2000) {
            let mut bits = Bits::new();
            let mut plain = Vec::new();
            for &(value, count) in &parts {
                bits.push(value, count);
                plain.extend((0..count).map(|bit| value >> bit & 1));
            }
            bits.skip(skip);
            plain.drain(..skip.min(plain.len()));
            prop_assert_eq!(bits.len(), plain.len());
            let mut again = Bits::new();
            again.push(5, 3);
            again.append(&bits);
            for (at, &bit) in plain.iter().enumerate() {
                prop_assert_eq!(bits.peek(at, 1), bit);
                prop_assert_eq!(again.peek(at + 3, 1), bit);
                let wide = (0..64).filter(|i| plain.get(at + i).copied().unwrap_or(0) == 1).fold(0u64, |sum, i| sum | 1 << i);
                prop_assert_eq!(bits.peek(at, 64), wide);
            }
        }
    }

    #[test]
    fn a_long_queue_gives_its_memory_back() {
        let mut bits = Bits::new();
        for number in 0..100_000u64 {
            bits.push(number, 60);
            if number >= 100 {
                assert_eq!(bits.peek(0, 60), number - 100);
                bits.skip(60);
            }
        }
        assert!(bits.words.len() < 3 * SPARE_WORDS);
        bits.flip(3);
        assert_eq!(bits.peek(0, 60), 99_900 ^ 8);
    }
}
