//! Atomic operations: which there are, on which types, and what they do to memory (section 3.15.4).
//!
//! ```
//! use narrows_portals::{AtomicOperation, Datatype, apply};
//! let mut target = 40_u32.to_le_bytes();
//! apply(AtomicOperation::Sum, Datatype::Uint32, &mut target, &2_u32.to_le_bytes(), &[0; 32]);
//! assert_eq!(u32::from_le_bytes(target), 42);
//! ```

use crate::arch;
use serde::{Deserialize, Serialize};

/// What is done to the target's memory. The numbers are those of `portals4.h`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[repr(u32)]
pub enum AtomicOperation {
    /// The smaller one.
    Min = 0,
    /// The larger one.
    Max = 1,
    /// The sum.
    Sum = 2,
    /// The product.
    Product = 3,
    /// 1 if one of them is not 0, else 0.
    LogicalOr = 4,
    /// 1 if neither is 0, else 0.
    LogicalAnd = 5,
    /// Bit by bit.
    BitOr = 6,
    /// Bit by bit.
    BitAnd = 7,
    /// 1 if exactly one of them is not 0, else 0.
    LogicalXor = 8,
    /// Bit by bit.
    BitXor = 9,
    /// The new value replaces the old one.
    Swap = 10,
    /// ... if the operand equals the old value.
    CompareSwap = 11,
    /// ... if they differ.
    CompareSwapNotEqual = 12,
    /// ... if the operand is less than or equal to the old value.
    CompareSwapLessOrEqual = 13,
    /// ... if it is less.
    CompareSwapLess = 14,
    /// ... if it is greater or equal.
    CompareSwapGreaterOrEqual = 15,
    /// ... if it is greater.
    CompareSwapGreater = 16,
    /// The new value replaces those bits that are set in the operand.
    MaskedSwap = 17,
}

/// What memory holds. The numbers are those of `portals4.h`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[repr(u32)]
pub enum Datatype {
    /// `int8_t`.
    Int8 = 0,
    /// `uint8_t`.
    Uint8 = 1,
    /// `int16_t`.
    Int16 = 2,
    /// `uint16_t`.
    Uint16 = 3,
    /// `int32_t`.
    Int32 = 4,
    /// `uint32_t`.
    Uint32 = 5,
    /// `float`.
    Float = 6,
    /// `int64_t`.
    Int64 = 7,
    /// `uint64_t`.
    Uint64 = 8,
    /// `double`.
    Double = 9,
    /// `float _Complex`.
    FloatComplex = 10,
    /// `double _Complex`.
    DoubleComplex = 11,
    /// `long double`: x87 extended precision, in 16 bytes.
    LongDouble = 12,
    /// `long double _Complex`.
    LongDoubleComplex = 13,
}

impl AtomicOperation {
    /// All, by number.
    pub const ALL: [AtomicOperation; 18] = {
        use AtomicOperation::*;
        [
            Min,
            Max,
            Sum,
            Product,
            LogicalOr,
            LogicalAnd,
            BitOr,
            BitAnd,
            LogicalXor,
            BitXor,
            Swap,
            CompareSwap,
            CompareSwapNotEqual,
            CompareSwapLessOrEqual,
            CompareSwapLess,
            CompareSwapGreaterOrEqual,
            CompareSwapGreater,
            MaskedSwap,
        ]
    };

    /// By its number.
    pub fn from_number(number: u32) -> Option<AtomicOperation> {
        Self::ALL.get(number as usize).copied()
    }

    /// A member of the swap family (`PtlSwap`), not of the arithmetic one (`PtlAtomic`, `PtlFetchAtomic`).
    pub fn swaps(self) -> bool {
        self as u32 >= AtomicOperation::Swap as u32
    }

    /// It needs an operand and works on one item only.
    pub fn has_operand(self) -> bool {
        self as u32 > AtomicOperation::Swap as u32
    }

    /// Whether the operation exists for a type: no order among complex numbers, no bits in
    /// floating-point ones.
    pub fn accepts(self, datatype: Datatype) -> bool {
        use AtomicOperation::*;
        match self {
            Sum | Product | Swap | CompareSwap | CompareSwapNotEqual => true,
            Min | Max | CompareSwapLessOrEqual | CompareSwapLess | CompareSwapGreaterOrEqual | CompareSwapGreater => !datatype.is_complex(),
            LogicalOr | LogicalAnd | BitOr | BitAnd | LogicalXor | BitXor | MaskedSwap => datatype.is_integer(),
        }
    }
}

impl Datatype {
    /// All, by number.
    pub const ALL: [Datatype; 14] = {
        use Datatype::*;
        [
            Int8,
            Uint8,
            Int16,
            Uint16,
            Int32,
            Uint32,
            Float,
            Int64,
            Uint64,
            Double,
            FloatComplex,
            DoubleComplex,
            LongDouble,
            LongDoubleComplex,
        ]
    };

    /// By its number.
    pub fn from_number(number: u32) -> Option<Datatype> {
        Self::ALL.get(number as usize).copied()
    }

    /// Bytes of one item.
    pub fn size(self) -> u64 {
        use Datatype::*;
        match self {
            Int8 | Uint8 => 1,
            Int16 | Uint16 => 2,
            Int32 | Uint32 | Float => 4,
            Int64 | Uint64 | Double | FloatComplex => 8,
            DoubleComplex | LongDouble => 16,
            LongDoubleComplex => 32,
        }
    }

    fn is_complex(self) -> bool {
        matches!(self, Datatype::FloatComplex | Datatype::DoubleComplex | Datatype::LongDoubleComplex)
    }

    fn is_integer(self) -> bool {
        use Datatype::*;
        matches!(self, Int8 | Uint8 | Int16 | Uint16 | Int32 | Uint32 | Int64 | Uint64)
    }
}

/// One item in memory.
trait Item: Copy + PartialEq {
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    /// `None` when one is not a number, or complex.
    fn order(self, other: Self) -> Option<std::cmp::Ordering>;
    /// As bits, when it is an integer.
    fn bits(self) -> Option<u64> {
        None
    }
    /// An integer of these bits.
    fn from_bits(_: u64) -> Option<Self> {
        None
    }
}

macro_rules! integer {
    ($($type:ty)*) => {$(
        impl Item for $type {
            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$type>()];
                own.copy_from_slice(bytes);
                <$type>::from_le_bytes(own)
            }
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn order(self, other: Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(&other))
            }
            fn bits(self) -> Option<u64> {
                Some(self as u64)
            }
            fn from_bits(bits: u64) -> Option<Self> {
                Some(bits as $type)
            }
        }
    )*};
}

integer!(i8 u8 i16 u16 i32 u32 i64 u64);

/// Floating point; complex numbers need the difference.
trait Real: Item {
    fn difference(self, other: Self) -> Self;
}

macro_rules! real {
    ($($type:ty)*) => {$(
        impl Item for $type {
            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$type>()];
                own.copy_from_slice(bytes);
                <$type>::from_le_bytes(own)
            }
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
            fn sum(self, other: Self) -> Self {
                self + other
            }
            fn product(self, other: Self) -> Self {
                self * other
            }
            fn order(self, other: Self) -> Option<std::cmp::Ordering> {
                self.partial_cmp(&other)
            }
        }
        impl Real for $type {
            fn difference(self, other: Self) -> Self {
                self - other
            }
        }
    )*};
}

real!(f32 f64);

/// `long double`, sixteen bytes. Rust has no such type, so the processor's instructions are named in `arch/`.
#[derive(Clone, Copy)]
struct Extended([u8; 16]);

impl PartialEq for Extended {
    fn eq(&self, other: &Extended) -> bool {
        self.order(*other) == Some(std::cmp::Ordering::Equal)
    }
}

impl Item for Extended {
    fn read(bytes: &[u8]) -> Self {
        let mut own = [0; 16];
        own.copy_from_slice(bytes);
        Extended(own)
    }
    fn write(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0);
    }
    fn sum(self, other: Self) -> Self {
        Extended(arch::sum(&self.0, &other.0))
    }
    fn product(self, other: Self) -> Self {
        Extended(arch::product(&self.0, &other.0))
    }
    fn order(self, other: Self) -> Option<std::cmp::Ordering> {
        arch::order(&self.0, &other.0)
    }
}

impl Real for Extended {
    fn difference(self, other: Self) -> Self {
        Extended(arch::difference(&self.0, &other.0))
    }
}

#[derive(Clone, Copy, PartialEq)]
struct Complex<T> {
    real: T,
    imaginary: T,
}

impl<T: Real> Item for Complex<T> {
    fn read(bytes: &[u8]) -> Self {
        let (real, imaginary) = bytes.split_at(bytes.len() / 2);
        Complex { real: T::read(real), imaginary: T::read(imaginary) }
    }
    fn write(self, bytes: &mut [u8]) {
        let (real, imaginary) = bytes.split_at_mut(bytes.len() / 2);
        self.real.write(real);
        self.imaginary.write(imaginary);
    }
    fn sum(self, other: Self) -> Self {
        Complex { real: self.real.sum(other.real), imaginary: self.imaginary.sum(other.imaginary) }
    }
    fn product(self, other: Self) -> Self {
        Complex {
            real: self.real.product(other.real).difference(self.imaginary.product(other.imaginary)),
            imaginary: self.real.product(other.imaginary).sum(self.imaginary.product(other.real)),
        }
    }
    fn order(self, _: Self) -> Option<std::cmp::Ordering> {
        None
    }
}

/// The new value of one item.
fn combine<T: Item>(operation: AtomicOperation, old: T, new: T, operand: T) -> T {
    use AtomicOperation::*;
    use std::cmp::Ordering::{Equal, Greater, Less};
    let when = |holds: bool| if holds { new } else { old };
    let bitwise = |with: fn(u64, u64) -> u64| match (old.bits(), new.bits()) {
        (Some(old_bits), Some(new_bits)) => T::from_bits(with(old_bits, new_bits)).unwrap_or(old),
        _ => old,
    };
    match operation {
        Min => when(new.order(old) == Some(Less)),
        Max => when(new.order(old) == Some(Greater)),
        Sum => old.sum(new),
        Product => old.product(new),
        LogicalOr => bitwise(|a, b| u64::from(a != 0 || b != 0)),
        LogicalAnd => bitwise(|a, b| u64::from(a != 0 && b != 0)),
        BitOr => bitwise(|a, b| a | b),
        BitAnd => bitwise(|a, b| a & b),
        LogicalXor => bitwise(|a, b| u64::from((a != 0) != (b != 0))),
        BitXor => bitwise(|a, b| a ^ b),
        Swap => new,
        CompareSwap => when(operand == old),
        CompareSwapNotEqual => when(operand != old),
        CompareSwapLessOrEqual => when(matches!(operand.order(old), Some(Less | Equal))),
        CompareSwapLess => when(operand.order(old) == Some(Less)),
        CompareSwapGreaterOrEqual => when(matches!(operand.order(old), Some(Greater | Equal))),
        CompareSwapGreater => when(operand.order(old) == Some(Greater)),
        MaskedSwap => match (old.bits(), new.bits(), operand.bits()) {
            (Some(old_bits), Some(new_bits), Some(mask)) => T::from_bits(old_bits & !mask | new_bits & mask).unwrap_or(old),
            _ => old,
        },
    }
}

fn all<T: Item>(operation: AtomicOperation, size: usize, target: &mut [u8], source: &[u8], operand: &[u8; 32]) {
    let operand = T::read(&operand[..size]);
    for (target, source) in target.chunks_exact_mut(size).zip(source.chunks_exact(size)) {
        combine(operation, T::read(target), T::read(source), operand).write(target);
    }
}

/// Does `operation` on all whole items that both `target` and `source` hold, little-endian as in
/// memory. `operand` is read by operations that have one. An operation that does not accept the
/// type changes nothing or gives an unspecified value of it; it never panics.
pub fn apply(operation: AtomicOperation, datatype: Datatype, target: &mut [u8], source: &[u8], operand: &[u8; 32]) {
    let size = datatype.size() as usize;
    let work: fn(AtomicOperation, usize, &mut [u8], &[u8], &[u8; 32]) = match datatype {
        Datatype::Int8 => all::<i8>,
        Datatype::Uint8 => all::<u8>,
        Datatype::Int16 => all::<i16>,
        Datatype::Uint16 => all::<u16>,
        Datatype::Int32 => all::<i32>,
        Datatype::Uint32 => all::<u32>,
        Datatype::Float => all::<f32>,
        Datatype::Int64 => all::<i64>,
        Datatype::Uint64 => all::<u64>,
        Datatype::Double => all::<f64>,
        Datatype::FloatComplex => all::<Complex<f32>>,
        Datatype::DoubleComplex => all::<Complex<f64>>,
        Datatype::LongDouble => all::<Extended>,
        Datatype::LongDoubleComplex => all::<Complex<Extended>>,
    };
    work(operation, size, target, source, operand);
}

#[cfg(test)]
mod tests {
    use super::*;
    use AtomicOperation::*;

    /// An x87 number that is a whole number.
    fn extended(value: i64) -> [u8; 16] {
        let mut bytes = [0; 16];
        if value != 0 {
            let size = value.unsigned_abs();
            let exponent = 63 - size.leading_zeros();
            bytes[..8].copy_from_slice(&(size << (63 - exponent)).to_le_bytes());
            let sign = if value < 0 { 0x8000 } else { 0 };
            bytes[8..10].copy_from_slice(&((16_383 + exponent as u16) | sign).to_le_bytes());
        }
        bytes
    }

    /// A whole number in memory.
    fn item(datatype: Datatype, value: i64) -> Vec<u8> {
        let real = |size: usize| value.to_le_bytes()[..size].to_vec();
        let pair = |part: &[u8]| [part, &vec![0; part.len()]].concat();
        match datatype {
            Datatype::Float => (value as f32).to_le_bytes().to_vec(),
            Datatype::Double => (value as f64).to_le_bytes().to_vec(),
            Datatype::LongDouble => extended(value).to_vec(),
            Datatype::FloatComplex => pair(&(value as f32).to_le_bytes()),
            Datatype::DoubleComplex => pair(&(value as f64).to_le_bytes()),
            Datatype::LongDoubleComplex => pair(&extended(value)),
            integer => real(integer.size() as usize),
        }
    }

    /// What the specification's table says, on small whole numbers that every type holds.
    fn expected(operation: AtomicOperation, old: i64, new: i64, operand: i64) -> i64 {
        match operation {
            Min => old.min(new),
            Max => old.max(new),
            Sum => old + new,
            Product => old * new,
            LogicalOr => i64::from(old != 0 || new != 0),
            LogicalAnd => i64::from(old != 0 && new != 0),
            BitOr => old | new,
            BitAnd => old & new,
            LogicalXor => i64::from((old != 0) ^ (new != 0)),
            BitXor => old ^ new,
            Swap => new,
            CompareSwap => [old, new][usize::from(operand == old)],
            CompareSwapNotEqual => [old, new][usize::from(operand != old)],
            CompareSwapLessOrEqual => [old, new][usize::from(operand <= old)],
            CompareSwapLess => [old, new][usize::from(operand < old)],
            CompareSwapGreaterOrEqual => [old, new][usize::from(operand >= old)],
            CompareSwapGreater => [old, new][usize::from(operand > old)],
            MaskedSwap => old & !operand | new & operand,
        }
    }

    #[test]
    fn every_operation_on_every_type_is_what_whole_numbers_give() {
        let mut combinations = 0;
        for operation in AtomicOperation::ALL {
            for datatype in Datatype::ALL.into_iter().filter(|datatype| operation.accepts(*datatype)) {
                combinations += 1;
                for old in 0..8 {
                    for new in 0..8 {
                        for value in 0..8 {
                            let mut operand = [0; 32];
                            let bytes = item(datatype, value);
                            operand[..bytes.len()].copy_from_slice(&bytes);
                            let mut target = [item(datatype, old), item(datatype, new)].concat();
                            let source = [item(datatype, new), item(datatype, old)].concat();
                            apply(operation, datatype, &mut target, &source, &operand);
                            let both = [expected(operation, old, new, value), expected(operation, new, old, value)];
                            let both = both.map(|value| item(datatype, value)).concat();
                            assert_eq!(target, both, "{operation:?} on {datatype:?} of {old}, {new}, operand {value}");
                        }
                    }
                }
            }
        }
        // 5 operations take all 14 types, 6 all but 3 complex ones, 7 the 8 integers.
        assert_eq!(combinations, 5 * 14 + 6 * 11 + 7 * 8);
    }

    #[test]
    fn signs_overflow_and_complex_products() {
        let mut target = (-3_i8).to_le_bytes();
        apply(Min, Datatype::Int8, &mut target, &[2], &[0; 32]);
        assert_eq!(target, (-3_i8).to_le_bytes());
        let mut target = [0xff];
        apply(Sum, Datatype::Uint8, &mut target, &[2], &[0; 32]);
        assert_eq!(target, [1], "integers wrap");
        // (1 + 2i) (3 + 4i) = -5 + 10i
        let complex = |real: [u8; 16], imaginary: [u8; 16]| [real, imaginary].concat();
        let mut target = complex(extended(1), extended(2));
        apply(Product, Datatype::LongDoubleComplex, &mut target, &complex(extended(3), extended(4)), &[0; 32]);
        assert_eq!(target, complex(extended(-5), extended(10)));
        let mut target = [1_f32.to_le_bytes(), 2_f32.to_le_bytes()].concat();
        apply(Product, Datatype::FloatComplex, &mut target, &[3_f32.to_le_bytes(), 4_f32.to_le_bytes()].concat(), &[0; 32]);
        assert_eq!(target, [(-5_f32).to_le_bytes(), 10_f32.to_le_bytes()].concat());
    }

    #[test]
    fn extended_precision_keeps_64_bits_and_not_a_number_is_never_less() {
        // 2^63 + 1 needs all 64 bits of the mantissa; a double would lose the 1.
        let mut target = extended(1);
        apply(Sum, Datatype::LongDouble, &mut target, &extended(i64::MIN), &[0; 32]);
        let mut back = target;
        apply(Sum, Datatype::LongDouble, &mut back, &extended(i64::MAX), &[0; 32]);
        assert_eq!(back, [0; 16], "1 - 2^63 + (2^63 - 1) = 0");
        let mut nan = [0; 16];
        nan[..10].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0x7f]);
        let mut target = extended(5);
        apply(Min, Datatype::LongDouble, &mut target, &nan, &[0; 32]);
        assert_eq!(target, extended(5));
        let mut target = 5_f64.to_le_bytes();
        apply(Max, Datatype::Double, &mut target, &f64::NAN.to_le_bytes(), &[0; 32]);
        assert_eq!(target, 5_f64.to_le_bytes());
    }

    #[test]
    fn half_an_item_is_left_alone() {
        let mut target = [1, 0, 0, 0, 9, 9];
        apply(Sum, Datatype::Uint32, &mut target, &[1, 0, 0, 0, 1, 1], &[0; 32]);
        assert_eq!(target, [2, 0, 0, 0, 9, 9]);
    }
}
