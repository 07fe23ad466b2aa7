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

/// x^10 + x^3 + 1.
const FIELD: u32 = 0x409;
/// Nonzero elements of the field.
const ORDER: usize = 1023;

/// Powers of alpha, twice over, so that the sum of two logarithms needs no modulus.
static POWER: [u16; 2 * ORDER] = TABLES.0;
static LOGARITHM: [u16; ORDER + 1] = TABLES.1;

const TABLES: ([u16; 2 * ORDER], [u16; ORDER + 1]) = {
    let (mut power, mut logarithm) = ([0; 2 * ORDER], [0; ORDER + 1]);
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

const fn product(tables: &([u16; 2 * ORDER], [u16; ORDER + 1]), a: u16, b: u16) -> u16 {
    if a == 0 || b == 0 { 0 } else { tables.0[tables.1[a as usize] as usize + tables.1[b as usize] as usize] }
}

fn times(a: u16, b: u16) -> u16 {
    if a == 0 || b == 0 { 0 } else { POWER[usize::from(LOGARITHM[usize::from(a)]) + usize::from(LOGARITHM[usize::from(b)])] }
}

fn inverse(a: u16) -> u16 {
    POWER[ORDER - usize::from(LOGARITHM[usize::from(a)])]
}

/// alpha^exponent.
fn power(exponent: usize) -> u16 {
    POWER[exponent % ORDER]
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
            g[degree] = g[degree - 1] ^ product(&TABLES, g[degree], TABLES.0[root]);
            degree -= 1;
        }
        g[0] = product(&TABLES, g[0], TABLES.0[root]);
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

/// A polynomial of degree 13 at most in the upper 140 of 192 bits: x^13 stands highest.
type Remainder = [u64; 3];

const fn set(remainder: Remainder, place: usize, symbol: u16) -> Remainder {
    let (mut result, high) = (remainder, 192 - SYMBOL_BITS * (place + 1));
    result[high / 64] ^= (symbol as u64) << (high % 64);
    if high % 64 > 54 {
        result[high / 64 + 1] ^= (symbol as u64) >> (64 - high % 64);
    }
    result
}

fn get(remainder: &Remainder, place: usize) -> u16 {
    let low = 192 - SYMBOL_BITS * (place + 1);
    let mut value = remainder[low / 64] >> (low % 64);
    if low % 64 > 54 {
        value |= remainder[low / 64 + 1] << (64 - low % 64);
    }
    (value & 0x3ff) as u16
}

/// x^exponent mod g, coefficients from x^13 down.
const fn residue(exponent: usize) -> [u16; PARITY] {
    let mut value = [0u16; PARITY];
    value[PARITY - 1] = 1;
    let mut step = 0;
    while step < exponent {
        let (top, mut place) = (value[0], 0);
        while place < PARITY {
            let below = if place + 1 < PARITY { value[place + 1] } else { 0 };
            value[place] = below ^ product(&TABLES, top, GENERATOR[place + 1]);
            place += 1;
        }
        step += 1;
    }
    value
}

const fn scaled(residue: &[u16; PARITY], factor: u16) -> Remainder {
    let (mut result, mut place) = ([0; 3], 0);
    while place < PARITY {
        result = set(result, place, product(&TABLES, factor, residue[place]));
        place += 1;
    }
    result
}

/// `ROWS[a]` = a x^14 mod g.
static ROWS: [Remainder; ORDER + 1] = {
    let (residue, mut rows, mut symbol) = (residue(PARITY), [[0; 3]; ORDER + 1], 0);
    while symbol <= ORDER {
        rows[symbol] = scaled(&residue, symbol as u16);
        symbol += 1;
    }
    rows
};

/// A message is divided in parts, so that no look-up waits for the one before: 3 of 172 symbols, the first of which
/// begins with two zeros that are not sent. More would need more registers than there are.
const PARTS: usize = 3;
const PART: usize = MESSAGE.div_ceil(PARTS);

/// `BEHIND[i][h][a]`: what x^172 makes of the coefficient of x^(13 - i): of its lower or upper five bits.
static BEHIND: [[[Remainder; 32]; 2]; PARITY] = {
    let (mut rows, mut place) = ([[[[0; 3]; 32]; 2]; PARITY], 0);
    while place < PARITY {
        let (residue, mut bits) = (residue(PART + PARITY - 1 - place), 0);
        while bits < 32 {
            rows[place][0][bits] = scaled(&residue, bits as u16);
            rows[place][1][bits] = scaled(&residue, (bits as u16) << 5);
            bits += 1;
        }
        place += 1;
    }
    rows
};

fn sum(a: Remainder, b: &Remainder) -> Remainder {
    [a[0] ^ b[0], a[1] ^ b[1], a[2] ^ b[2]]
}

/// One more symbol behind those that this is the remainder of.
#[inline(always)]
fn step([low, middle, high]: Remainder, symbol: u16) -> Remainder {
    let row = &ROWS[(high >> 54) as usize ^ usize::from(symbol & 0x3ff)];
    sum([low << 10, middle << 10 | low >> 54, high << 10 | middle >> 54], row)
}

/// m(x) x^14 mod g.
fn remainder(message: &[u16; MESSAGE]) -> Remainder {
    let absent = PARTS * PART - MESSAGE;
    let (first, rest) = message.split_at(PART - absent);
    let (second, third) = rest.split_at(PART);
    let mut parts = [[0; 3]; PARTS];
    for index in 0..PART {
        let before = if index < absent { 0 } else { first[index - absent] };
        parts[0] = step(parts[0], before);
        parts[1] = step(parts[1], second[index]);
        parts[2] = step(parts[2], third[index]);
    }
    parts
        .into_iter()
        .reduce(|before, part| {
            (0..PARITY).fold(part, |result, place| {
                let coefficient = get(&before, place);
                let [lower, upper] = &BEHIND[place];
                sum(sum(result, &lower[usize::from(coefficient & 0x1f)]), &upper[usize::from(coefficient >> 5)])
            })
        })
        .expect("there are parts")
}

/// The parity of a message, in the order of transmission.
pub fn parity(message: &[u16; MESSAGE]) -> [u16; PARITY] {
    let remainder = remainder(message);
    std::array::from_fn(|place| get(&remainder, place))
}

/// A codeword is beyond correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncorrectable;

/// The symbols that were wrong: their places.
pub type Corrected = Vec<usize>;

/// Corrects a codeword.
///
/// # Errors
/// More symbols are wrong than can be corrected; it is as before then.
pub fn correct(codeword: &mut [u16; CODEWORD]) -> Result<Corrected, Uncorrectable> {
    correct_with_erasures(codeword, &[])
}

/// Corrects a codeword of which the symbols at `erased` are known to be worthless.
///
/// # Errors
/// As [`correct`]; or more than 14 are erased.
///
/// # Panics
/// A place is beyond the codeword.
pub fn correct_with_erasures(codeword: &mut [u16; CODEWORD], erased: &[usize]) -> Result<Corrected, Uncorrectable> {
    // The remainder of what was received has the same syndromes as the codeword, and is 0 where nothing is wrong.
    let message: &[u16; MESSAGE] = codeword.first_chunk().expect("a codeword is longer than its message");
    let expected = remainder(message);
    let difference: [u16; PARITY] = std::array::from_fn(|place| get(&expected, place) ^ codeword[MESSAGE + place]);
    if difference == [0; PARITY] {
        return Ok(Corrected::new());
    }
    if erased.len() > PARITY {
        return Err(Uncorrectable);
    }
    let syndromes: [u16; PARITY] =
        std::array::from_fn(|j| difference.iter().fold(0, |sum, &coefficient| times(sum, POWER[j]) ^ coefficient));
    let (locator, degree) = locator(&syndromes, erased)?;
    let places = roots(&locator, degree)?;
    // Forney: with the first root alpha^0, the value at X is X Omega(1/X) / Lambda'(1/X).
    let mut evaluator = [0u16; PARITY];
    for (place, value) in evaluator.iter_mut().enumerate() {
        *value = (0..=place.min(degree)).fold(0, |sum, i| sum ^ times(locator[i], syndromes[place - i]));
    }
    let mut values = Vec::with_capacity(degree);
    for &place in &places {
        let x = CODEWORD - 1 - place;
        let at = power(ORDER - x % ORDER);
        let omega = evaluator.iter().rev().fold(0, |sum, &coefficient| times(sum, at) ^ coefficient);
        let square = times(at, at);
        let slope = (1..=degree).rev().filter(|i| i % 2 == 1).fold(0, |sum, i| times(sum, square) ^ locator[i]);
        if slope == 0 {
            return Err(Uncorrectable);
        }
        values.push(times(times(power(x), omega), inverse(slope)));
    }
    let mut corrected = Corrected::with_capacity(degree);
    for (place, value) in places.into_iter().zip(values) {
        codeword[place] ^= value;
        if value != 0 {
            corrected.push(place);
        }
    }
    Ok(corrected)
}

type Polynomial = [u16; PARITY + 1];

/// Berlekamp and Massey, beginning with the erasures (Blahut, Algebraic Codes for Data Transmission, section 7.4): the
/// polynomial whose roots are the inverse places, and its degree.
fn locator(syndromes: &[u16; PARITY], erased: &[usize]) -> Result<(Polynomial, usize), Uncorrectable> {
    let mut locator: Polynomial = [0; PARITY + 1];
    locator[0] = 1;
    for (count, &place) in erased.iter().enumerate() {
        let x = power(CODEWORD - 1 - place);
        for i in (1..=count + 1).rev() {
            locator[i] ^= times(locator[i - 1], x);
        }
    }
    let (mut other, mut degree) = (locator, erased.len());
    for step in erased.len()..PARITY {
        let discrepancy = (0..=step.min(degree)).fold(0, |sum, i| sum ^ times(locator[i], syndromes[step - i]));
        other.copy_within(0..PARITY, 1);
        other[0] = 0;
        if discrepancy != 0 {
            let mut next = locator;
            next.iter_mut().zip(&other).for_each(|(a, &b)| *a ^= times(discrepancy, b));
            if 2 * degree <= step + erased.len() {
                degree = step + 1 + erased.len() - degree;
                let scale = inverse(discrepancy);
                other = locator.map(|coefficient| times(coefficient, scale));
            }
            locator = next;
        }
    }
    let true_degree = locator.iter().rposition(|&coefficient| coefficient != 0).unwrap_or(0);
    if true_degree != degree || 2 * degree > PARITY + erased.len() { Err(Uncorrectable) } else { Ok((locator, degree)) }
}

/// Chien: the places of the codeword where the locator is 0; as many as its degree.
fn roots(locator: &Polynomial, degree: usize) -> Result<Vec<usize>, Uncorrectable> {
    // Logarithms of the terms at the first symbol, alpha^-527; from one symbol to the next the k-th grows by k.
    let mut terms = [(0usize, 0usize); PARITY];
    let mut count = 0;
    for (k, &coefficient) in locator.iter().enumerate().take(degree + 1).skip(1).filter(|&(_, &coefficient)| coefficient != 0) {
        terms[count] = ((usize::from(LOGARITHM[usize::from(coefficient)]) + k * (ORDER - (CODEWORD - 1))) % ORDER, k);
        count += 1;
    }
    let mut places = Vec::with_capacity(degree);
    for place in 0..CODEWORD {
        let mut sum = locator[0];
        for (exponent, step) in &mut terms[..count] {
            sum ^= POWER[*exponent];
            *exponent += *step;
            if *exponent >= ORDER {
                *exponent -= ORDER;
            }
        }
        if sum == 0 {
            places.push(place);
            if places.len() == degree {
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

    fn codeword(message: &[u16; MESSAGE]) -> [u16; CODEWORD] {
        let parity = parity(message);
        std::array::from_fn(|place| if place < MESSAGE { message[place] } else { parity[place - MESSAGE] })
    }

    #[test]
    fn the_generator_is_that_of_table_91_1() {
        assert_eq!(GENERATOR, [1, 904, 6, 701, 32, 656, 925, 900, 614, 391, 592, 265, 945, 290, 432]);
    }

    #[test]
    fn parities_of_three_messages() {
        let message = |of: fn(usize) -> u16| -> [u16; MESSAGE] { std::array::from_fn(of) };
        assert_eq!(parity(&message(|i| u16::from(i == 0))), [355, 381, 108, 865, 358, 653, 751, 46, 313, 484, 1012, 278, 40, 47]);
        assert_eq!(parity(&message(|i| u16::from(i == 513))), [904, 6, 701, 32, 656, 925, 900, 614, 391, 592, 265, 945, 290, 432]);
        assert_eq!(parity(&message(|i| i as u16)), [50, 868, 380, 280, 841, 435, 1015, 875, 433, 667, 96, 823, 273, 57]);
    }

    #[test]
    fn a_codeword_is_zero_at_all_roots_of_the_generator() {
        let word = codeword(&std::array::from_fn(|i| (i * 331 % 1024) as u16));
        for &root in &POWER[..PARITY] {
            assert_eq!(word.iter().fold(0, |sum, &symbol| times(sum, root) ^ symbol), 0);
        }
    }

    /// Different places, each with what is wrong there.
    fn errors(count: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<(usize, u16)>> {
        prop::collection::btree_map(0..CODEWORD, 1u16..1024, count).prop_map(|errors| errors.into_iter().collect())
    }

    proptest! {
        #[test]
        fn seven_errors_are_corrected(seed in any::<u64>(), errors in errors(0..=7)) {
            let sent = codeword(&std::array::from_fn(|i| (seed.wrapping_mul(2 * i as u64 + 1) >> 54) as u16));
            let mut word = sent;
            errors.iter().for_each(|&(place, value)| word[place] ^= value);
            let corrected = correct(&mut word);
            prop_assert_eq!(corrected, Ok(errors.iter().map(|&(place, _)| place).collect()));
            prop_assert!(word == sent);
        }

        #[test]
        fn erasures_cost_half_of_an_error(seed in any::<u64>(), errors in errors(1..=14), erasures in 0usize..15) {
            let sent = codeword(&std::array::from_fn(|i| (seed.wrapping_mul(2 * i as u64 + 1) >> 54) as u16));
            let mut word = sent;
            errors.iter().for_each(|&(place, value)| word[place] ^= value);
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
                    Ok(_) => prop_assert!(parity(word.first_chunk().unwrap()) == word[MESSAGE..]),
                }
            }
        }
    }
}
