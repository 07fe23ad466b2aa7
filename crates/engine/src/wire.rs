//! Values as bytes, for other processes: of fixed width, little endian, without names.
//!
//! ```
//! use narrows_engine::{Reader, Wire};
//! let mut bytes = Vec::new();
//! (7u32, vec![1u64, 2]).put(&mut bytes);
//! assert_eq!(bytes.len(), 4 + 8 + 2 * 8);
//! assert_eq!(<(u32, Vec<u64>)>::get(&mut Reader::new(&bytes)), Ok((7, vec![1, 2])));
//! assert!(<(u32, Vec<u64>)>::get(&mut Reader::new(&bytes[..20])).is_err());
//! ```

use narrows_units::{ByteRate, Bytes, SimTime};

/// What can be told to another process.
pub trait Wire: Sized {
    /// Appends its bytes.
    fn put(&self, out: &mut Vec<u8>);

    /// Takes it from the front of what another process has put.
    ///
    /// # Errors
    /// These are not the bytes of such a value.
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError>;
}

/// Bytes that are no such value: they end too early, or have what no such value has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError;

impl std::fmt::Display for WireError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("bytes that mean nothing here")
    }
}

impl std::error::Error for WireError {}

/// The bytes that are still to be read.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// All of them.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// All have been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next ones.
    ///
    /// # Errors
    /// There are not so many.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(WireError)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A value, after which there is nothing.
    ///
    /// # Errors
    /// It is another one, or not the only one.
    pub fn last<T: Wire>(mut self) -> Result<T, WireError> {
        let value = T::get(&mut self)?;
        if self.is_empty() { Ok(value) } else { Err(WireError) }
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Wire for $integer {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                let bytes = from.take(size_of::<$integer>())?;
                Ok(<$integer>::from_le_bytes(bytes.try_into().map_err(|_| WireError)?))
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 u128);

/// Implements [`Wire`] for a structure by its fields, in this order.
#[macro_export]
macro_rules! wire {
    ($name:ident { $($field:tt),+ $(,)? }) => {
        impl $crate::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::Wire::put(&self.$field, out);)+
            }
            fn get(from: &mut $crate::Reader<'_>) -> Result<Self, $crate::WireError> {
                Ok($name { $($field: $crate::Wire::get(from)?),+ })
            }
        }
    };
}

wire!(SimTime { 0 });
wire!(Bytes { 0 });
wire!(ByteRate { 0 });

impl Wire for () {
    fn put(&self, _: &mut Vec<u8>) {}
    fn get(_: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(())
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        match u8::get(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError),
        }
    }
}

/// To the bit.
impl Wire for f32 {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_bits().put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        u32::get(from).map(f32::from_bits)
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)*) => {$(
        impl<$($name: Wire),+> Wire for ($($name,)+) {
            #[allow(non_snake_case, reason = "a name for each type and its value")]
            fn put(&self, out: &mut Vec<u8>) {
                let ($($name,)+) = self;
                $($name.put(out);)+
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                Ok(($($name::get(from)?,)+))
            }
        }
    )*};
}

tuples!(A B; A B C; A B C D;);

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        bool::get(from)?.then(|| T::get(from)).transpose()
    }
}

/// Of things of a byte at least: no more of them than there are bytes.
impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|value| value.put(out));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = u64::get(from)?;
        if count > from.0.len() as u64 {
            return Err(WireError);
        }
        (0..count).map(|_| T::get(from)).collect()
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = usize::try_from(u64::get(from)?).map_err(|_| WireError)?;
        String::from_utf8(from.take(count)?.to_vec()).map_err(|_| WireError)
    }
}

impl Wire for Box<str> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        String::get(from).map(String::into_boxed_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Anything = (Vec<(u8, Option<u128>)>, String, (bool, SimTime, f32), Vec<Vec<u16>>);

    proptest! {
        #[test]
        fn what_is_put_is_got(
            pairs in prop::collection::vec((any::<u8>(), prop::option::of(any::<u128>())), 0..5), text in ".*", flag: bool, time: u64,
            lists in prop::collection::vec(prop::collection::vec(any::<u16>(), 0..4), 0..4), cut: prop::sample::Index
        ) {
            let value: Anything = (pairs, text, (flag, SimTime(time), 0.1), lists);
            let mut bytes = Vec::new();
            value.put(&mut bytes);
            prop_assert_eq!(Reader::new(&bytes).last::<Anything>(), Ok(value));
            prop_assert_eq!(Reader::new(&bytes[..cut.index(bytes.len())]).last::<Anything>(), Err(WireError));
        }

        /// Whatever comes is a value or an error.
        #[test]
        fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Reader::new(&bytes).last::<Anything>();
            let _ = Reader::new(&bytes).last::<Vec<(u32, Option<String>)>>();
        }
    }
}
