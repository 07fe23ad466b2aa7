//! RS(528,514) over GF(2^10) (clause 91.5.2.7): seven wrong symbols of a codeword are corrected, or errors and erasures
//! with 2 errors + erasures <= 14.

/// Symbols of a codeword.
pub const CODEWORD: usize = 528;
/// Symbols of its message.
pub const MESSAGE: usize = 514;
/// Symbols of its parity.
pub const PARITY: usize = CODEWORD - MESSAGE;
/// Wrong symbols that are corrected.
pub const CORRECTABLE: usize = PARITY / 2;
/// Bits of a symbol.
pub const SYMBOL_BITS: usize = 10;
/// Bits of a message and of a codeword.
pub const MESSAGE_BITS: usize = MESSAGE * SYMBOL_BITS;
/// With the parity.
pub const CODEWORD_BITS: usize = CODEWORD * SYMBOL_BITS;
/// As many symbols as fit into a word.
pub const WORD_SYMBOLS: usize = 6;
/// Bits of them.
pub const WORD_BITS: usize = WORD_SYMBOLS * SYMBOL_BITS;
/// Words of a codeword.
pub const WORDS: usize = CODEWORD / WORD_SYMBOLS;

/// A codeword in the order of transmission: six symbols in the lowest 60 bits of each word, the first one lowest.
pub type Codeword = [u64; WORDS];

/// Adds a value of ten bits to the symbol at a place: an error, or a symbol where there was none.
///
/// # Panics
/// The place is beyond the codeword.
pub fn add(codeword: &mut Codeword, place: usize, value: u16) {
    codeword[place / WORD_SYMBOLS] ^= u64::from(value) << (SYMBOL_BITS * (place % WORD_SYMBOLS));
}

/// The symbol at a place.
///
/// # Panics
/// The place is beyond the codeword.
pub fn symbol(codeword: &Codeword, place: usize) -> u16 {
    slot(codeword[place / WORD_SYMBOLS], place % WORD_SYMBOLS)
}

fn slot(word: u64, slot: usize) -> u16 {
    (word >> (SYMBOL_BITS * slot)) as u16 & ORDER as u16
}

/// The lowest so many symbols of a word.
const fn lowest(symbols: usize) -> u64 {
    (1 << (SYMBOL_BITS * symbols)) - 1
}

/// x^10 + x^3 + 1.
const FIELD: u32 = 0x409;
/// Nonzero elements of the field.
const ORDER: usize = 1023;

/// The logarithm of 0: with it, sums of logarithms lie where [`POWER`] is 0.
const NONE: usize = 2 * ORDER;

/// Powers of alpha, twice over, so that the sum of two logarithms needs no modulus; then zeros.
static POWER: [u16; 2 * NONE + 1] = TABLES.0;
static LOGARITHM: [u16; ORDER + 1] = TABLES.1;

const TABLES: ([u16; 2 * NONE + 1], [u16; ORDER + 1]) = {
    let (mut power, mut logarithm) = ([0; 2 * NONE + 1], [NONE as u16; ORDER + 1]);
    let (mut value, mut exponent) = (1u32, 0);
    while exponent < ORDER {
        power[exponent] = value as u16;
        power[exponent + ORDER] = value as u16;
        logarithm[value as usize] = exponent as u16;
        value <<= 1;
        if value > ORDER as u32 {
            value ^= FIELD;
        }
        exponent += 1;
    }
    (power, logarithm)
};

const fn product(a: u16, b: u16) -> u16 {
    TABLES.0[TABLES.1[a as usize] as usize + TABLES.1[b as usize] as usize]
}

fn logarithm(a: u16) -> usize {
    usize::from(LOGARITHM[usize::from(a)])
}

fn times(a: u16, b: u16) -> u16 {
    POWER[logarithm(a) + logarithm(b)]
}

/// Of one that is not 0.
fn inverse(a: u16) -> u16 {
    POWER[ORDER - logarithm(a)]
}

/// g(x), the product of x - alpha^j for j = 0 to 13: coefficients from x^14 down.
const GENERATOR: [u16; PARITY + 1] = {
    // From x^0 up.
    let mut g = [0u16; PARITY + 1];
    g[0] = 1;
    let mut root = 0;
    while root < PARITY {
        let mut degree = root + 1;
        while degree > 0 {
            g[degree] = g[degree - 1] ^ product(g[degree], TABLES.0[root]);
            degree -= 1;
        }
        g[0] = product(g[0], TABLES.0[root]);
        root += 1;
    }
    let mut down = [0u16; PARITY + 1];
    let mut degree = 0;
    while degree <= PARITY {
        down[PARITY - degree] = g[degree];
        degree += 1;
    }
    down
};

/// Words of a remainder.
const REMAINDER: usize = PARITY.div_ceil(WORD_SYMBOLS);

/// A polynomial of degree 13 at most, as in a codeword: x^13 stands lowest in the first word. The fourth word is 0: an
/// even number of them can be added two at a time.
type Remainder = [u64; REMAINDER + 1];

/// x^exponent mod g, coefficients from x^13 down.
const fn residue(exponent: usize) -> [u16; PARITY] {
    let mut value = [0u16; PARITY];
    value[PARITY - 1] = 1;
    let mut step = 0;
    while step < exponent {
        let (top, mut place) = (value[0], 0);
        while place < PARITY {
            let below = if place + 1 < PARITY { value[place + 1] } else { 0 };
            value[place] = below ^ product(top, GENERATOR[place + 1]);
            place += 1;
        }
        step += 1;
    }
    value
}

/// `[i][bits]`: the remainder of a polynomial whose highest term is x^exponent, where its group i of bits is `bits` and
/// all others are 0. It is linear in each bit, so it does not matter where symbols begin and end.
const fn look_ups<const GROUPS: usize, const SIZE: usize>(exponent: usize) -> [[Remainder; SIZE]; GROUPS] {
    let group_bits = SIZE.ilog2() as usize;
    let (mut table, mut symbol) = ([[[0; REMAINDER + 1]; SIZE]; GROUPS], 0);
    while symbol < GROUPS * group_bits / SYMBOL_BITS {
        let (residue, mut bit) = (residue(exponent - symbol), 0);
        while bit < SYMBOL_BITS {
            let (mut value, mut place) = ([0; REMAINDER + 1], 0);
            while place < PARITY {
                let coefficient = product(residue[place], 1 << bit);
                value[place / WORD_SYMBOLS] |= (coefficient as u64) << (SYMBOL_BITS * (place % WORD_SYMBOLS));
                place += 1;
            }
            let (at, mut bits) = (SYMBOL_BITS * symbol + bit, 0);
            while bits < SIZE {
                if bits >> (at % group_bits) & 1 == 1 {
                    let (row, mut word) = (&mut table[at / group_bits][bits], 0);
                    while word < REMAINDER {
                        row[word] ^= value[word];
                        word += 1;
                    }
                }
                bits += 1;
            }
            bit += 1;
        }
        symbol += 1;
    }
    table
}

/// At addresses that are multiples of 16, as the processor wants them to add two words at once.
#[repr(align(64))]
struct Aligned<T>(T);

/// For w(x) x^14 mod g of a word w. Ten look-ups of six bits: the table fits into the first cache.
static AHEAD: Aligned<[[Remainder; 64]; 10]> = Aligned(look_ups(PARITY + WORD_SYMBOLS - 1));

/// A look-up waits for the one before, so two halves of a message take turns: this is what the second one makes of the
/// remainder of the first.
static BEHIND: Aligned<[[Remainder; 16]; 35]> = Aligned(look_ups(WORD_SYMBOLS * HALF + PARITY - 1));

/// Whole words of a message, and those of a half.
const WHOLE: usize = MESSAGE / WORD_SYMBOLS;
const HALF: usize = WHOLE / 2;

/// Symbols of a message that do not fill a word.
const REST: usize = MESSAGE % WORD_SYMBOLS;

#[inline(always)]
fn sum(a: Remainder, b: &Remainder) -> Remainder {
    std::array::from_fn(|word| a[word] ^ b[word])
}

/// One more word behind those that this is the remainder of.
#[inline(always)]
fn step(before: Remainder, word: u64) -> Remainder {
    let [first, second, third, _] = before;
    let bits = word ^ first;
    let mut next = [0; REMAINDER + 1];
    for (group, rows) in AHEAD.0.iter().enumerate() {
        let row = &rows[(bits >> (6 * group)) as usize & 63];
        for word in 0..REMAINDER + 1 {
            next[word] ^= row[word];
        }
    }
    [next[0] ^ second, next[1] ^ third, next[2], 0]
}

/// m(x) x^14 mod g for the message of a codeword.
fn remainder(codeword: &Codeword) -> Remainder {
    let mut halves = [[0; REMAINDER + 1]; 2];
    for (&first, &second) in codeword[..HALF].iter().zip(&codeword[HALF..2 * HALF]) {
        halves = [step(halves[0], first), step(halves[1], second)];
    }
    let [before, behind] = halves;
    let joined = (0..BEHIND.0.len()).fold(behind, |result, group| {
        let bits = before[group / 15] >> (4 * (group % 15));
        sum(result, &BEHIND.0[group][bits as usize & 15])
    });
    let whole = codeword[2 * HALF..WHOLE].iter().fold(joined, |before, &word| step(before, word));
    // The last symbols do not fill a word: as if there were zeros in front of them, which take nothing off.
    let (absent, [first, second, third, _]) = (SYMBOL_BITS * (WORD_SYMBOLS - REST), whole);
    let upper = |word: u64, next: u64| word >> (SYMBOL_BITS * REST) | (next << absent) & lowest(WORD_SYMBOLS);
    let shifted = [(first << absent) & lowest(WORD_SYMBOLS), upper(first, second), upper(second, third), 0];
    let rest = (codeword[WHOLE] << absent) & lowest(WORD_SYMBOLS);
    step(shifted, rest)
}

/// Puts the parity behind the message.
pub fn encode(codeword: &mut Codeword) {
    let ([first, second, third, _], bit) = (remainder(codeword), SYMBOL_BITS * REST);
    codeword[WHOLE] = codeword[WHOLE] & lowest(REST) | (first << bit) & lowest(WORD_SYMBOLS);
    codeword[WHOLE + 1] = first >> (WORD_BITS - bit) | (second << bit) & lowest(WORD_SYMBOLS);
    codeword[WHOLE + 2] = second >> (WORD_BITS - bit) | third << bit;
}

/// The parity of a codeword.
fn parity(codeword: &Codeword) -> Remainder {
    let bit = SYMBOL_BITS * REST;
    let at = |word: u64, next: u64| word >> bit | (next << (WORD_BITS - bit)) & lowest(WORD_SYMBOLS);
    let [first, second, third] = [codeword[WHOLE], codeword[WHOLE + 1], codeword[WHOLE + 2]];
    [at(first, second), at(second, third), at(third, 0), 0]
}

/// A codeword is beyond correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncorrectable;

/// The symbols that were wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Corrected {
    places: [usize; PARITY],
    count: usize,
}

impl Corrected {
    /// Their places, in the order of transmission.
    pub fn places(&self) -> &[usize] {
        &self.places[..self.count]
    }

    fn push(&mut self, place: usize) {
        self.places[self.count] = place;
        self.count += 1;
    }
}

/// Corrects a codeword.
///
/// # Errors
/// More symbols are wrong than can be corrected; it is as before then.
pub fn correct(codeword: &mut Codeword) -> Result<Corrected, Uncorrectable> {
    correct_with_erasures(codeword, &[])
}

/// Corrects a codeword of which the symbols at `erased` are known to be worthless.
///
/// # Errors
/// As [`correct`]; or more than 14 are erased.
///
/// # Panics
/// A place is beyond the codeword.
pub fn correct_with_erasures(codeword: &mut Codeword, erased: &[usize]) -> Result<Corrected, Uncorrectable> {
    // The remainder of what was received has the same syndromes as the codeword, and is 0 where nothing is wrong.
    let (expected, parity) = (remainder(codeword), parity(codeword));
    let difference = sum(expected, &parity);
    if difference == [0; REMAINDER + 1] {
        return Ok(Corrected::default());
    }
    if erased.len() > PARITY {
        return Err(Uncorrectable);
    }
    let syndromes = syndromes(&difference);
    let (locator, degree) = locator(&syndromes, erased)?;
    let places = roots(&locator, degree)?;
    // Forney: with the first root alpha^0, the value at X is X Omega(1/X) / Lambda'(1/X). Omega has a lower degree than
    // Lambda.
    let mut evaluator = [0u16; PARITY];
    for (place, value) in evaluator[..degree].iter_mut().enumerate() {
        *value = (0..=place).fold(0, |sum, i| sum ^ times(locator[i], syndromes[place - i]));
    }
    let mut values = [0; PARITY];
    for (value, &place) in values.iter_mut().zip(places.places()) {
        let x = CODEWORD - 1 - place;
        let at = ORDER - x;
        let omega = evaluator[..degree].iter().rev().fold(0, |sum, &coefficient| POWER[logarithm(sum) + at] ^ coefficient);
        let square = 2 * at % ORDER;
        let slope = locator[1..=degree].iter().step_by(2).rev().fold(0, |sum, &odd| POWER[logarithm(sum) + square] ^ odd);
        if slope == 0 {
            return Err(Uncorrectable);
        }
        *value = times(POWER[logarithm(omega) + x], inverse(slope));
    }
    let mut corrected = Corrected::default();
    for (&place, &value) in places.places().iter().zip(&values) {
        add(codeword, place, value);
        if value != 0 {
            corrected.push(place);
        }
    }
    Ok(corrected)
}

/// The values of a remainder at alpha^0 to alpha^13.
fn syndromes(remainder: &Remainder) -> [u16; PARITY] {
    let mut syndromes = [0; PARITY];
    for place in 0..PARITY {
        let coefficient = logarithm(slot(remainder[place / WORD_SYMBOLS], place % WORD_SYMBOLS));
        for (j, syndrome) in syndromes.iter_mut().enumerate() {
            *syndrome ^= POWER[coefficient + j * (PARITY - 1 - place)];
        }
    }
    syndromes
}

type Polynomial = [u16; PARITY + 1];

/// Berlekamp and Massey, beginning with the erasures (Blahut, Algebraic Codes for Data Transmission, section 7.4): the
/// polynomial whose roots are the inverse places, and its degree.
fn locator(syndromes: &[u16; PARITY], erased: &[usize]) -> Result<(Polynomial, usize), Uncorrectable> {
    let mut locator: Polynomial = [0; PARITY + 1];
    locator[0] = 1;
    for (count, &place) in erased.iter().enumerate() {
        let x = POWER[CODEWORD - 1 - place];
        for i in (1..=count + 1).rev() {
            locator[i] ^= times(locator[i - 1], x);
        }
    }
    let (syndromes, mut degree) = (syndromes.map(logarithm), erased.len());
    // The polynomial before the degree grew last, how many coefficients it has, its discrepancy, and how many steps ago
    // that was: logarithms.
    let (mut other, mut others, mut divisor, mut age) = (locator.map(logarithm), degree + 1, 0, 0);
    for step in erased.len()..PARITY {
        age += 1;
        let discrepancy = (0..=step.min(degree)).fold(0, |sum, i| sum ^ POWER[logarithm(locator[i]) + syndromes[step - i]]);
        if discrepancy == 0 {
            continue;
        }
        let (before, discrepancy) = (locator, logarithm(discrepancy));
        let factor = (discrepancy + ORDER - divisor) % ORDER;
        locator[age..].iter_mut().zip(&other[..others]).for_each(|(a, &b)| *a ^= POWER[b + factor]);
        if 2 * degree <= step + erased.len() {
            (other, others, divisor, age) = (before.map(logarithm), degree + 1, discrepancy, 0);
            degree = step + 1 + erased.len() - degree;
        }
    }
    let true_degree = locator.iter().rposition(|&coefficient| coefficient != 0).unwrap_or(0);
    if true_degree != degree || 2 * degree > PARITY + erased.len() { Err(Uncorrectable) } else { Ok((locator, degree)) }
}

const fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// How a x^k goes from a place to the next, for a k: the exponent of alpha grows by k.
#[derive(Clone, Copy)]
struct Progression {
    /// The greatest common divisor of k and 1023: exponents that differ modulo it never meet.
    divisor: usize,
    /// Elements until it comes again.
    period: usize,
    /// So many steps add the divisor to the exponent, modulo the period.
    steps: usize,
    /// Where it stands in [`PROGRESSIONS`], for a remainder of 0.
    at: usize,
}

/// Elements of a progression: from any of its places on, as many as a codeword has.
const fn length(period: usize) -> usize {
    period + CODEWORD - 1
}

/// For each k, and behind the last one.
const KINDS: [Progression; PARITY + 2] = {
    let (mut kinds, mut k, mut at) = ([Progression { divisor: 0, period: 0, steps: 0, at: 0 }; PARITY + 2], 1, 0);
    while k <= PARITY {
        let divisor = greatest_common_divisor(k, ORDER);
        let (period, mut steps) = (ORDER / divisor, 0);
        while steps * k % ORDER != divisor {
            steps += 1;
        }
        kinds[k] = Progression { divisor, period, steps, at };
        at += divisor * length(period);
        k += 1;
    }
    kinds[k].at = at;
    kinds
};

/// For each k and each remainder r of exponents: alpha^(r + k i) for i from 0 on.
static PROGRESSIONS: [u16; KINDS[PARITY + 1].at] = {
    let (mut table, mut k) = ([0; KINDS[PARITY + 1].at], 1);
    while k <= PARITY {
        let (kind, mut remainder) = (KINDS[k], 0);
        while remainder < kind.divisor {
            let (mut i, mut exponent) = (0, remainder);
            while i < length(kind.period) {
                table[kind.at + remainder * length(kind.period) + i] = TABLES.0[exponent];
                exponent = (exponent + k) % ORDER;
                i += 1;
            }
            remainder += 1;
        }
        k += 1;
    }
    table
};

/// a x^k at all places of a codeword.
fn term(a: u16, k: usize) -> &'static [u16; CODEWORD] {
    let kind = KINDS[k];
    // Its exponent at the first place, whose x is alpha^-527.
    let exponent = (logarithm(a) + k * (ORDER - (CODEWORD - 1))) % ORDER;
    let (steps, remainder) = (exponent / kind.divisor * kind.steps % kind.period, exponent % kind.divisor);
    let at = kind.at + remainder * length(kind.period) + steps;
    PROGRESSIONS[at..].first_chunk().expect("a progression goes on for a codeword")
}

/// Places that are looked at at once.
const PLACES: usize = 16;

/// Chien: the places of the codeword where the locator is 0; as many as its degree.
fn roots(locator: &Polynomial, degree: usize) -> Result<Corrected, Uncorrectable> {
    let mut terms = [&[[0; PLACES]; CODEWORD / PLACES]; PARITY];
    let mut count = 0;
    for (k, &coefficient) in locator.iter().enumerate().take(degree + 1).skip(1).filter(|&(_, &coefficient)| coefficient != 0) {
        terms[count] = term(coefficient, k).as_chunks().0.first_chunk().expect("places divide a codeword");
        count += 1;
    }
    let mut places = Corrected::default();
    for block in 0..CODEWORD / PLACES {
        let mut sums = [locator[0]; PLACES];
        for term in &terms[..count] {
            sums.iter_mut().zip(&term[block]).for_each(|(sum, &value)| *sum ^= value);
        }
        if sums.iter().fold(false, |any, &sum| any | (sum == 0)) {
            for (place, _) in sums.iter().enumerate().filter(|&(_, &sum)| sum == 0) {
                places.push(PLACES * block + place);
            }
            if places.count == degree {
                return Ok(places);
            }
        }
    }
    Err(Uncorrectable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn symbols(codeword: &Codeword) -> [u16; CODEWORD] {
        std::array::from_fn(|place| symbol(codeword, place))
    }

    fn codeword(message: impl Fn(usize) -> u16) -> Codeword {
        let mut codeword = [0; WORDS];
        (0..MESSAGE).for_each(|place| add(&mut codeword, place, message(place)));
        encode(&mut codeword);
        codeword
    }

    /// A codeword that looks random.
    fn any_codeword(seed: u64) -> Codeword {
        codeword(|i| (seed.wrapping_mul(2 * i as u64 + 1) >> 54) as u16)
    }

    /// Whether it is zero at all roots of the generator.
    fn is_codeword(word: &Codeword) -> bool {
        POWER[..PARITY].iter().all(|&root| symbols(word).iter().fold(0, |sum, &symbol| times(sum, root) ^ symbol) == 0)
    }

    #[test]
    fn the_generator_is_that_of_table_91_1() {
        assert_eq!(GENERATOR, [1, 904, 6, 701, 32, 656, 925, 900, 614, 391, 592, 265, 945, 290, 432]);
    }

    #[test]
    fn parities_of_three_messages() {
        let parity = |of: fn(usize) -> u16| symbols(&codeword(of))[MESSAGE..].to_vec();
        assert_eq!(parity(|i| u16::from(i == 0)), [355, 381, 108, 865, 358, 653, 751, 46, 313, 484, 1012, 278, 40, 47]);
        assert_eq!(parity(|i| u16::from(i == 513)), [904, 6, 701, 32, 656, 925, 900, 614, 391, 592, 265, 945, 290, 432]);
        assert_eq!(parity(|i| i as u16), [50, 868, 380, 280, 841, 435, 1015, 875, 433, 667, 96, 823, 273, 57]);
    }

    #[test]
    fn a_codeword_is_zero_at_all_roots_of_the_generator() {
        assert!(is_codeword(&codeword(|i| (i * 331 % 1024) as u16)));
    }

    /// Solves equations, each with its right side behind its coefficients; some solution, if there is one.
    fn solve(mut equations: Vec<Vec<u16>>, unknowns: usize) -> Option<Vec<u16>> {
        let mut pivots = Vec::new();
        for column in 0..unknowns {
            let Some(row) = (pivots.len()..equations.len()).find(|&row| equations[row][column] != 0) else { continue };
            equations.swap(row, pivots.len());
            let scale = inverse(equations[pivots.len()][column]);
            let pivot: Vec<u16> = equations[pivots.len()].iter().map(|&value| times(value, scale)).collect();
            for (_, equation) in equations.iter_mut().enumerate().filter(|&(row, _)| row != pivots.len()) {
                let factor = equation[column];
                equation.iter_mut().zip(&pivot).for_each(|(value, &of_pivot)| *value ^= times(factor, of_pivot));
            }
            equations[pivots.len()] = pivot;
            pivots.push(column);
        }
        let mut solution = vec![0; unknowns];
        for (equation, &column) in equations.iter().zip(&pivots) {
            solution[column] = equation[unknowns];
        }
        equations[pivots.len()..].iter().all(|equation| equation[unknowns] == 0).then_some(solution)
    }

    fn raised(base: u16, exponent: usize) -> u16 {
        (0..exponent).fold(1, |product, _| times(product, base))
    }

    /// A decoder after Peterson, Gorenstein and Zierler: for each number of errors, from 0 on, the linear equations for
    /// the locator, all places tried, and the linear equations for the values. With erasures the equations are those of
    /// the syndromes times the polynomial of the erasures.
    fn slow(word: &Codeword, erased: &[usize]) -> Option<Codeword> {
        let at = |place: usize| raised(2, CODEWORD - 1 - place);
        let syndromes: Vec<u16> =
            (0..PARITY).map(|j| symbols(word).iter().fold(0, |sum, &symbol| times(sum, raised(2, j)) ^ symbol)).collect();
        if syndromes.iter().all(|&syndrome| syndrome == 0) {
            return Some(*word);
        }
        let mut modified = syndromes.clone();
        for &place in erased {
            (1..PARITY).rev().for_each(|j| modified[j] ^= times(modified[j - 1], at(place)));
        }
        let known = modified.get(erased.len()..)?;
        for errors in 0..=known.len() / 2 {
            let equation = |end: usize| known[end - errors..=end].to_vec();
            let Some(reversed) = solve((errors..known.len()).map(equation).collect(), errors) else { continue };
            let locator = |x: u16| reversed.iter().rev().fold(1, |sum, &coefficient| times(sum, x) ^ coefficient);
            let unknown: Vec<usize> = (0..CODEWORD).filter(|&place| !erased.contains(&place) && locator(at(place)) == 0).collect();
            if unknown.len() != errors {
                continue;
            }
            let places: Vec<usize> = erased.iter().copied().chain(unknown).collect();
            let equation = |j: usize| places.iter().map(|&place| raised(at(place), j)).chain([syndromes[j]]).collect();
            let Some(values) = solve((0..PARITY).map(equation).collect(), places.len()) else { continue };
            let mut corrected = *word;
            places.iter().zip(values).for_each(|(&place, value)| add(&mut corrected, place, value));
            return Some(corrected);
        }
        None
    }

    /// As the slow one says; and what it says of the places is what it does.
    fn agrees(word: Codeword, erased: &[usize]) -> Result<(), TestCaseError> {
        let mut corrected = word;
        let result = correct_with_erasures(&mut corrected, erased);
        prop_assert_eq!(result.is_ok().then_some(corrected), slow(&word, erased));
        let changed: Vec<usize> = (0..CODEWORD).filter(|&place| symbol(&word, place) != symbol(&corrected, place)).collect();
        let mut places = result.map_or(Vec::new(), |corrected| corrected.places().to_vec());
        places.sort_unstable();
        prop_assert_eq!(changed, places);
        Ok(())
    }

    /// Different places, each with what is wrong there.
    fn errors(count: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<(usize, u16)>> {
        prop::collection::btree_map(0..CODEWORD, 1u16..1024, count).prop_map(|errors| errors.into_iter().collect())
    }

    proptest! {
        #[test]
        fn errors_and_erasures_are_decoded_as_by_linear_equations(
            seed in any::<u64>(),
            errors in errors(0..=10),
            others in prop::collection::btree_set(0..CODEWORD, 0..8),
            erasures in 0usize..12,
        ) {
            let mut word = any_codeword(seed);
            errors.iter().for_each(|&(place, value)| add(&mut word, place, value));
            agrees(word, &[])?;
            // Some that are wrong, and some that are right.
            let mut erased = others;
            erased.extend(errors.iter().take(erasures).map(|&(place, _)| place));
            agrees(word, &erased.into_iter().collect::<Vec<usize>>())?;
        }

        #[test]
        fn between_two_codewords_the_nearer_one_is_found(
            seed in any::<u64>(),
            first in 0..=MESSAGE - 1,
            factor in 1u16..1024,
            changed in any::<u16>(),
            errors in errors(0..=2),
        ) {
            // The generator times a factor is a codeword of 15 symbols, the fewest: with eight of them or more another
            // codeword than the one that was sent is within seven.
            let mut word = any_codeword(seed);
            for (n, &coefficient) in GENERATOR.iter().enumerate().filter(|(n, _)| changed >> n & 1 == 1) {
                add(&mut word, first + n, times(coefficient, factor));
            }
            errors.iter().for_each(|&(place, value)| add(&mut word, place, value));
            agrees(word, &[])?;
        }

        #[test]
        fn seven_errors_are_corrected(seed in any::<u64>(), errors in errors(0..=7)) {
            let sent = any_codeword(seed);
            let mut word = sent;
            errors.iter().for_each(|&(place, value)| add(&mut word, place, value));
            let corrected = correct(&mut word).map(|corrected| corrected.places().to_vec());
            prop_assert_eq!(corrected, Ok(errors.iter().map(|&(place, _)| place).collect()));
            prop_assert!(word == sent);
        }

        #[test]
        fn erasures_cost_half_of_an_error(seed in any::<u64>(), errors in errors(1..=14), erasures in 0usize..15) {
            let sent = any_codeword(seed);
            let mut word = sent;
            errors.iter().for_each(|&(place, value)| add(&mut word, place, value));
            let erased: Vec<usize> = errors.iter().take(erasures).map(|&(place, _)| place).collect();
            let unknown = errors.len() - erased.len();
            let received = word;
            let result = correct_with_erasures(&mut word, &erased);
            if 2 * unknown + erased.len() <= PARITY {
                prop_assert!(result.is_ok() && word == sent);
            } else {
                // Beyond that: refused, or another codeword; never something that is none.
                match result {
                    Err(Uncorrectable) => prop_assert!(word == received),
                    Ok(_) => prop_assert!(is_codeword(&word)),
                }
            }
        }
    }
}
