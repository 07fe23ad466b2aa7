//! Values as files give them.

use std::ops::Range;

/// A value of TOML, without its borrow.
#[derive(Clone, Debug)]
pub enum Value {
    /// A text.
    Text(String),
    /// `None`: beyond 64 bits.
    Integer(Option<i64>),
    /// `true` or `false`.
    Boolean(bool),
    /// A number with a fraction, as it stands.
    Decimal(String),
    /// A list, each item with its place in the text.
    Array(Vec<(Value, Range<usize>)>),
    /// Nothing that any key takes: the name of the type.
    Other(&'static str),
}

impl Value {
    /// A number.
    pub fn count(number: u32) -> Value {
        Value::Integer(Some(i64::from(number)))
    }

    /// A list without places.
    pub fn list(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(items.into_iter().map(|item| (item, 0..0)).collect())
    }

    /// The value of a default, which is written as in a file: a text in quotes, a number, `[]`, `true`, `false`.
    pub fn of_default(text: &str) -> Value {
        match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(text) => Value::Text(text.to_owned()),
            None if text == "[]" => Value::Array(Vec::new()),
            None if text.contains('.') => Value::Decimal(text.to_owned()),
            None => text.parse().map_or_else(|_| Value::Integer(text.parse().ok()), Value::Boolean),
        }
    }

    /// What it is, for "found ...".
    pub fn describe(&self) -> String {
        match self {
            Value::Text(text) if text.chars().count() <= 40 => format!("the text {text:?}"),
            Value::Text(_) => "a long text".to_owned(),
            Value::Integer(Some(value)) => format!("the number {value}"),
            Value::Integer(None) => "a number beyond 64 bits".to_owned(),
            Value::Boolean(_) => "a boolean".to_owned(),
            Value::Decimal(_) => "a number with a fraction".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::Other(kind) => (*kind).to_owned(),
        }
    }
}
