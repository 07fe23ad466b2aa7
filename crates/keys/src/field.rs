//! What keys fill: each type says what it takes, in words, and reads and writes it.

use crate::diagnostic::nearest;
use crate::quantity;
use crate::value::Value;
use narrows_units::parse::QuantityError;
use narrows_units::{ByteRate, Bytes, Fraction, Power, SimTime};
use std::fmt::Display;
use std::ops::{Range, RangeFrom, RangeInclusive, RangeToInclusive};
use std::str::FromStr;

/// Longest time of a machine file, 1 s: keeps sums far below 2^64 ps, and values exact as decimals.
pub const TIME_MAX: SimTime = SimTime(1_000_000_000_000);
/// Largest size: 1 PiB.
pub const SIZE_MAX: Bytes = Bytes(1 << 50);
/// Lowest bandwidth, 1 MB/s: what the flow network's solver can tell from nothing.
pub const RATE_MIN: ByteRate = ByteRate(1_000_000);
/// Highest bandwidth: 100 TB/s, what the flow network's solver can hold.
pub const RATE_MAX: ByteRate = ByteRate(100_000_000_000_000);
/// Most power of a part: 1 MW.
pub const POWER_MAX: Power = Power(1_000_000_000_000);

/// A type whose values a file may give.
pub trait Field {
    /// Whatever stands there until a value is set.
    fn blank() -> Self
    where
        Self: Sized;
    /// "expected ..."
    fn expected(&self, limits: Limits) -> String;
    /// As the reference of the keys says it.
    fn reference(&self, limits: Limits) -> String;
    /// Takes a value.
    ///
    /// # Errors
    /// It is none, or not within the limits.
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem>;
    /// What [`Field::set`] takes again.
    fn get(&self) -> Value;
}

/// What a key lets its field have, in the unit of the field's type; that type may have limits of its own.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The least.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl Limits {
    /// None.
    pub const NONE: Limits = Limits { least: 0, most: u64::MAX };

    fn count(self) -> (u32, u32) {
        (self.least as u32, self.most.min(u32::MAX.into()) as u32)
    }
}

impl From<RangeInclusive<u32>> for Limits {
    fn from(range: RangeInclusive<u32>) -> Limits {
        Limits { least: (*range.start()).into(), most: (*range.end()).into() }
    }
}

impl From<RangeToInclusive<u32>> for Limits {
    fn from(range: RangeToInclusive<u32>) -> Limits {
        Limits { most: range.end.into(), ..Limits::NONE }
    }
}

impl From<RangeFrom<SimTime>> for Limits {
    fn from(range: RangeFrom<SimTime>) -> Limits {
        Limits { least: range.start.0, ..Limits::NONE }
    }
}

impl From<RangeFrom<Bytes>> for Limits {
    fn from(range: RangeFrom<Bytes>) -> Limits {
        Limits { least: range.start.0, ..Limits::NONE }
    }
}

/// Why a value is refused.
#[derive(Debug)]
pub struct Problem {
    /// What it is.
    pub message: String,
    /// What was expected there.
    pub label: String,
    /// What to do; may be empty.
    pub help: String,
    /// Where in the value, if not all of it is wrong.
    pub span: Option<Range<usize>>,
}

impl Problem {
    /// What is wrong, and what was expected.
    pub fn new(message: impl Into<String>, label: impl Into<String>) -> Problem {
        Problem { message: message.into(), label: label.into(), help: String::new(), span: None }
    }

    /// Of another type than a field takes.
    pub fn found(value: &Value, label: impl Into<String>) -> Problem {
        Problem::new(format!("found {}", value.describe()), label)
    }

    fn at(self, span: &Range<usize>) -> Problem {
        Problem { span: Some(span.clone()), ..self }
    }
}

/// A number, with a fraction or without; one that is none is in no range.
///
/// # Errors
/// The value is of another type.
pub fn number(value: &Value, label: &str) -> Result<f64, Problem> {
    match value {
        Value::Integer(Some(number)) => Ok(*number as f64),
        Value::Decimal(text) => Ok(text.parse().unwrap_or(f64::NAN)),
        _ => Err(Problem::found(value, label)),
    }
}

/// `"a", "b"`
pub fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

fn count(value: &Value, limits: Limits, label: &str) -> Result<u32, Problem> {
    let (least, most) = limits.count();
    match value {
        Value::Integer(Some(number)) => match u32::try_from(*number) {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(Problem::new(format!("{number} is out of range"), label)),
        },
        _ => Err(Problem::found(value, label)),
    }
}

impl Field for u32 {
    fn blank() -> u32 {
        0
    }
    fn expected(&self, limits: Limits) -> String {
        let (least, most) = limits.count();
        format!("expected a whole number from {least} to {most}")
    }
    fn reference(&self, limits: Limits) -> String {
        let (least, most) = limits.count();
        format!("number, {least} to {most}")
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        *self = count(value, limits, &self.expected(limits))?;
        Ok(())
    }
    fn get(&self) -> Value {
        Value::count(*self)
    }
}

/// Numbers of a level each, from 1; or with a limit from 0, whatever has numbers.
impl Field for Vec<u32> {
    fn blank() -> Vec<u32> {
        Vec::new()
    }
    fn expected(&self, limits: Limits) -> String {
        match limits.least {
            0 => "expected a list of whole numbers, such as [3, 17]".to_owned(),
            _ => "expected a list of whole numbers, one per level, such as [24, 10]".to_owned(),
        }
    }
    fn reference(&self, _: Limits) -> String {
        "list of numbers".to_owned()
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        let Value::Array(items) = value else { return Err(Problem::found(value, self.expected(limits))) };
        let each = 0.expected(limits);
        *self =
            items.iter().map(|(item, span)| count(item, limits, &each).map_err(|problem| problem.at(span))).collect::<Result<_, _>>()?;
        Ok(())
    }
    fn get(&self) -> Value {
        Value::list(self.iter().copied().map(Value::count))
    }
}

impl Field for bool {
    fn blank() -> bool {
        false
    }
    fn expected(&self, _: Limits) -> String {
        "expected true or false".to_owned()
    }
    fn reference(&self, _: Limits) -> String {
        "`true`, `false`".to_owned()
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        let Value::Boolean(flag) = value else { return Err(Problem::found(value, self.expected(limits))) };
        *self = *flag;
        Ok(())
    }
    fn get(&self) -> Value {
        Value::Boolean(*self)
    }
}

impl Field for String {
    fn blank() -> String {
        String::new()
    }
    fn expected(&self, _: Limits) -> String {
        "expected a text".to_owned()
    }
    fn reference(&self, _: Limits) -> String {
        "text".to_owned()
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        let Value::Text(text) = value else { return Err(Problem::found(value, self.expected(limits))) };
        self.clone_from(text);
        Ok(())
    }
    fn get(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl Field for Vec<String> {
    fn blank() -> Vec<String> {
        Vec::new()
    }
    fn expected(&self, _: Limits) -> String {
        "expected a list of texts, such as [\"3-17\"]".to_owned()
    }
    fn reference(&self, _: Limits) -> String {
        "list of texts".to_owned()
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        let label = self.expected(limits);
        let Value::Array(items) = value else { return Err(Problem::found(value, label)) };
        let text = |(item, span): &(Value, Range<usize>)| match item {
            Value::Text(text) => Ok(text.clone()),
            _ => Err(Problem::found(item, &label).at(span)),
        };
        *self = items.iter().map(text).collect::<Result<_, _>>()?;
        Ok(())
    }
    fn get(&self) -> Value {
        Value::list(self.iter().cloned().map(Value::Text))
    }
}

/// Above 0, and at most so many millionths as its limit says.
impl Field for Fraction {
    fn blank() -> Fraction {
        Fraction(1)
    }
    fn expected(&self, _: Limits) -> String {
        "expected a number, such as 0.5".to_owned()
    }
    fn reference(&self, limits: Limits) -> String {
        format!("number, above 0, {}", end(limits))
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        let number = number(value, &self.expected(limits))?;
        if !(1e-6..=limits.most as f64 / 1e6).contains(&number) {
            return Err(Problem::new(format!("{number} is out of range"), format!("expected a number above 0 and {}", end(limits))));
        }
        *self = Fraction((number * 1e6).round() as u32);
        Ok(())
    }
    fn get(&self) -> Value {
        match self.0 {
            1_000_000 => Value::Integer(Some(1)),
            _ => Value::Decimal(self.as_f64().to_string()),
        }
    }
}

/// Of a fraction.
fn end(limits: Limits) -> &'static str {
    if limits.most < 1_000_000 { "below 1" } else { "at most 1" }
}

/// A number with a unit.
pub trait Quantity: Copy + PartialOrd + FromStr<Err = QuantityError> {
    /// What it is, with an example.
    const WORDS: [&'static str; 2];
    /// The least and the most of any key.
    const RANGE: [Self; 2];
    /// By its number.
    fn of(number: u64) -> Self;
    /// As a file has it.
    fn show(self) -> String;
    /// As the reference of the keys says it.
    fn reference(least: u64) -> String {
        let [word, _] = Self::WORDS;
        match least {
            0 => word.to_owned(),
            1 => format!("{word}, above 0"),
            least => format!("{word}, at least {}", Self::of(least).show()),
        }
    }
    /// "a time with its unit, such as "250 ns""
    fn words() -> String {
        let [word, example] = Self::WORDS;
        format!("a {word} with its unit, such as \"{example}\"")
    }
}

macro_rules! quantities {
    ($($type:ident: $word:literal, $example:literal, $least:expr, $most:expr, $show:path;)*) => {
        $(impl Quantity for $type {
            const WORDS: [&'static str; 2] = [$word, $example];
            const RANGE: [$type; 2] = [$least, $most];
            fn of(number: u64) -> $type {
                $type(number)
            }
            fn show(self) -> String {
                $show(self)
            }
        }

        impl Field for $type {
            fn blank() -> $type {
                $least
            }
            fn expected(&self, _: Limits) -> String {
                format!("expected {}", $type::words())
            }
            fn reference(&self, limits: Limits) -> String {
                <$type as Quantity>::reference(limits.least)
            }
            fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
                *self = quantity(value, limits, &self.expected(limits))?;
                Ok(())
            }
            fn get(&self) -> Value {
                Value::Text(self.show())
            }
        })*
    };
}

quantities! {
    SimTime: "time", "250 ns", SimTime::ZERO, TIME_MAX, quantity::time;
    Bytes: "size", "9 KiB", Bytes(0), SIZE_MAX, quantity::size;
    ByteRate: "bandwidth", "100 Gbit/s", RATE_MIN, RATE_MAX, quantity::rate;
    Power: "power", "16.2 W", Power(0), POWER_MAX, quantity::power;
}

/// A quantity within the limits of its key and of its type.
fn quantity<T: Quantity>(value: &Value, limits: Limits, label: &str) -> Result<T, Problem> {
    let Value::Text(text) = value else { return Err(Problem::found(value, label)) };
    let quantity: T = text.parse().map_err(|error| match error {
        QuantityError::NoNumber { .. } => Problem::found(value, label),
        QuantityError::Unit { unit, expected, .. } => {
            let message = if unit.is_empty() { "no unit".to_owned() } else { format!("unknown unit {unit:?} here") };
            Problem { help: format!("units: {expected}"), ..Problem::new(message, label) }
        }
        QuantityError::Range { .. } => Problem::new(format!("{} is out of range", value.describe()), label),
    })?;
    let [lowest, most] = T::RANGE;
    let least = if T::of(limits.least) > lowest { T::of(limits.least) } else { lowest };
    if quantity < least || quantity > most {
        let label = format!("expected {} to {}", least.show(), most.show());
        return Err(Problem::new(format!("{} is out of range", quantity.show()), label));
    }
    Ok(quantity)
}

/// A quantity, or a word that stands for what follows from others.
pub trait OrWord {
    /// What it is otherwise.
    type Quantity: Quantity;
    /// The word.
    const WORD: &'static str;
    /// With a quantity; without, the word.
    fn of(quantity: Option<Self::Quantity>) -> Self;
    /// None: the word.
    fn quantity(&self) -> Option<Self::Quantity>;
}

impl<T: OrWord> Field for T {
    fn blank() -> T {
        T::of(None)
    }
    fn expected(&self, _: Limits) -> String {
        let [word, example] = T::Quantity::WORDS;
        let example = if word == "time" { "1 us" } else { example };
        format!("expected \"{}\", or a {word} with its unit, such as \"{example}\"", T::WORD)
    }
    fn reference(&self, _: Limits) -> String {
        format!("`\"{}\"` or {}", T::WORD, T::Quantity::WORDS[0])
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        *self = match value {
            Value::Text(text) if text == T::WORD => T::of(None),
            _ => T::of(Some(quantity(value, limits, &self.expected(limits))?)),
        };
        Ok(())
    }
    fn get(&self) -> Value {
        Value::Text(self.quantity().map_or_else(|| T::WORD.to_owned(), Quantity::show))
    }
}

/// A value that is one of a few names: see [`crate::choice!`].
pub trait Choice: Copy + PartialEq + Display + Field + 'static {
    /// All of them.
    const ALL: &'static [Self];
    /// Their names, in the same order.
    const NAMES: &'static [&'static str];

    /// That of a name.
    fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|own| *own == name).map(|index| Self::ALL[index])
    }

    /// "expected ..."
    fn expected_name() -> String {
        format!("expected one of {}", quoted(Self::NAMES))
    }

    /// As the reference of the keys says it.
    fn reference_names() -> String {
        Self::NAMES.iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", ")
    }

    /// Reads a name.
    ///
    /// # Errors
    /// It is none of them.
    fn read(value: &Value, label: &str) -> Result<Self, Problem> {
        let Value::Text(text) = value else { return Err(Problem::found(value, label)) };
        Self::named(text).ok_or_else(|| {
            let near = nearest(text, Self::NAMES.iter().copied());
            let found = near.map_or_else(|| label.to_owned(), |near| format!("did you mean \"{near}\"?"));
            let help = if near.is_some() { label.to_owned() } else { String::new() };
            Problem { help, ..Problem::new(format!("unknown choice, {}", value.describe()), found) }
        })
    }
}

/// The same for all, or a list with one each.
impl<T: Choice, const N: usize> Field for [T; N] {
    fn blank() -> [T; N] {
        [T::ALL[0]; N]
    }
    fn expected(&self, _: Limits) -> String {
        format!("{}, or a list of {N} of them", T::expected_name())
    }
    fn reference(&self, _: Limits) -> String {
        format!("{}, or a list of {N}", T::reference_names())
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        let label = self.expected(limits);
        match value {
            Value::Array(items) if items.len() != N => return Err(Problem::new(format!("a list of {}", items.len()), label)),
            Value::Array(items) => {
                for (field, (item, span)) in self.iter_mut().zip(items) {
                    *field = T::read(item, &label).map_err(|problem| problem.at(span))?;
                }
            }
            _ => *self = [T::read(value, &label)?; N],
        }
        Ok(())
    }
    fn get(&self) -> Value {
        match self.iter().all(|choice| *choice == self[0]) {
            true => self[0].get(),
            false => Value::list(self.iter().map(Field::get)),
        }
    }
}

/// An enum whose variants have names in files: `name`, `ALL`, `NAMES`, `Display`, and [`Choice`].
///
/// ```
/// narrows_keys::choice! {
///     /// When a switch sends a packet on.
///     pub enum Forwarding {
///         /// When its header is there.
///         CutThrough = "cut-through",
///         /// When all of it is there.
///         StoreAndForward = "store-and-forward",
///     }
/// }
/// assert_eq!(Forwarding::CutThrough.name(), "cut-through");
/// ```
#[macro_export]
macro_rules! choice {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$variant_meta:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type { $($(#[$variant_meta])* $variant),+ }

        impl $type {
            /// All of them.
            pub const ALL: &'static [$type] = &[$($type::$variant),+];
            /// Their names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// As files spell it.
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl $crate::Choice for $type {
            const ALL: &'static [$type] = $type::ALL;
            const NAMES: &'static [&'static str] = $type::NAMES;
        }

        impl $crate::Field for $type {
            fn blank() -> $type {
                $type::ALL[0]
            }
            fn expected(&self, _: $crate::Limits) -> String {
                <$type as $crate::Choice>::expected_name()
            }
            fn reference(&self, _: $crate::Limits) -> String {
                <$type as $crate::Choice>::reference_names()
            }
            fn set(&mut self, value: &$crate::Value, limits: $crate::Limits) -> Result<(), $crate::Problem> {
                *self = <$type as $crate::Choice>::read(value, &$crate::Field::expected(self, limits))?;
                Ok(())
            }
            fn get(&self) -> $crate::Value {
                $crate::Value::Text(self.name().to_owned())
            }
        }
    };
}
