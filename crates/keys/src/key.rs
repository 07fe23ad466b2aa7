//! Keys: where a field is in a file, what it may have, what it has by default, and what it means.

use crate::field::{Field, Limits};
use crate::value::Value;
use std::borrow::Cow;

/// One key.
pub struct Key<'a> {
    /// Sections and name: `network.acc.margin`.
    pub path: String,
    /// What it fills.
    pub field: &'a mut dyn Field,
    /// What that may have.
    pub limits: Limits,
    /// What it means, without the last stop.
    pub doc: String,
    /// As a file would give it, texts with their quotes.
    pub default: Option<&'static str>,
    /// The key that gives the value where this one is not given.
    pub otherwise: Option<String>,
    /// Which machines have it; none: all.
    pub only: Option<Only>,
}

/// The key that decides who has another one, and its values with which there is that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Only {
    /// The key that decides.
    pub selector: &'static str,
    /// Its values.
    pub values: Cow<'static, [&'static str]>,
}

impl Only {
    /// With one of these values.
    pub const fn with(selector: &'static str, values: &'static [&'static str]) -> Only {
        Only { selector, values: Cow::Borrowed(values) }
    }
}

impl<'a> Key<'a> {
    /// A key that all machines have, and must give.
    pub fn new(section: &str, name: &str, field: &'a mut dyn Field, doc: &str) -> Key<'a> {
        let doc = doc.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let doc = doc.trim().trim_end_matches('.').to_owned();
        Key { path: below(section, name), field, limits: Limits::NONE, doc, default: None, otherwise: None, only: None }
    }

    /// The same with a default, as a file would give it.
    pub fn default(self, text: &'static str) -> Key<'a> {
        Key { default: Some(text), ..self }
    }

    /// The same with limits.
    pub fn within(self, limits: impl Into<Limits>) -> Key<'a> {
        Key { limits: limits.into(), ..self }
    }

    /// The same with a path of its own: a name in the section, or with a point in it a whole path.
    pub fn at(self, section: &str, path: &str) -> Key<'a> {
        let path = if path.contains('.') { path.to_owned() } else { below(section, path) };
        Key { path, ..self }
    }

    /// The same, with the value of another key where it is not given.
    pub fn otherwise(self, path: &str) -> Key<'a> {
        Key { otherwise: Some(path.to_owned()), ..self }
    }

    /// The same for some machines alone.
    pub fn of(self, only: Only) -> Key<'a> {
        Key { only: Some(only), ..self }
    }

    /// The section of this key.
    pub fn section(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(section, _)| section)
    }

    /// Its name within the section.
    pub fn name(&self) -> &str {
        self.path.rsplit_once('.').map_or(&self.path, |(_, name)| name)
    }

    /// Gives the field a default.
    ///
    /// # Panics
    /// When it is none.
    pub fn set_default(&mut self, default: &str) {
        let result = self.field.set(&Value::of_default(default), self.limits);
        assert!(result.is_ok(), "the default of {} is a value of its own kind", self.path);
    }
}

/// The path of what is in a section; with a point before it, of what is in none.
pub fn below(section: &str, name: &str) -> String {
    match (section, name) {
        ("", path) | (path, "") => path.to_owned(),
        _ => name.strip_prefix('.').map_or_else(|| format!("{section}.{name}"), str::to_owned),
    }
}

/// A configuration whose numbers are keys of files: see [`crate::keys!`].
pub trait Keys: Sized {
    /// Whatever stands there until its keys are read.
    fn blank() -> Self;
    /// Its keys, in a section.
    fn list<'a>(&'a mut self, section: &str, list: &mut Vec<Key<'a>>);

    /// Its defaults; what has none stays blank.
    fn defaults() -> Self {
        let mut blank = Self::blank();
        let mut keys = Vec::new();
        blank.list("", &mut keys);
        for mut key in keys {
            if let Some(default) = key.default {
                key.set_default(default);
            }
        }
        blank
    }
}

/// A text that no key gives.
impl Keys for String {
    fn blank() -> String {
        String::new()
    }
    fn list<'a>(&'a mut self, _: &str, _: &mut Vec<Key<'a>>) {}
}

/// A configuration with its keys: a line of each, `name: type = default, in limits;`, behind what it means. A key
/// without a default must be given. Behind the limits, `at "name"` or `at "whole.path"` says where it is, if not at its
/// own name, `or` the key that gives its value where it is not given, and `of` which machines have it ([`Only`]).
/// `name: type => "section";` has keys of its own, in a section below (`""`: in the same, `".section"`: in one of the
/// file); with `=> _` it has none.
///
/// ```
/// use narrows_keys::{Keys, keys};
/// use narrows_units::{Bytes, SimTime};
///
/// keys! {
///     /// Pauses.
///     #[derive(Clone, Debug)]
///     pub struct Pause {
///         /// A pause frame on the wire.
///         pub frame: Bytes = "84 B", in Bytes(1)..;
///         /// What it is worth, in 512 bit times.
///         pub quanta: u32 = 65535, in 1..=65535;
///         /// From its arrival to its effect.
///         pub response: SimTime;
///     }
/// }
/// let mut pause = Pause::defaults();
/// assert_eq!((pause.frame, pause.quanta), (Bytes(84), 65535));
/// let mut keys = Vec::new();
/// pause.list("network.pfc", &mut keys);
/// assert_eq!(keys[2].path, "network.pfc.response");
/// assert_eq!(keys[2].doc, "From its arrival to its effect");
/// ```
#[macro_export]
macro_rules! keys {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[doc = $doc:literal])+ $vis:vis $field:ident: $type:ty $(= $default:tt)? $(, in $limits:expr)? $(, at $path:literal)? $(, or $otherwise:literal)?
            $(, of $only:expr)? $(=> $section:tt)?;)+
    }) => {
        $(#[$meta])*
        pub struct $name { $($(#[doc = $doc])+ $vis $field: $type,)+ }

        impl $crate::Keys for $name {
            fn blank() -> $name {
                $name { $($field: $crate::blank!($type $(=> $section)?),)+ }
            }
            fn list<'a>(&'a mut self, section: &str, list: &mut Vec<$crate::Key<'a>>) {
                $($crate::entry!(
                    list, section, &mut self.$field, stringify!($field), concat!($($doc, "\n"),+),
                    [$($default)?] [$($limits)?] [$($path)?] [$($otherwise)?] [$($only)?]
                    [$($section)?]
                );)+
            }
        }
    };
}

/// See [`crate::keys!`].
#[doc(hidden)]
#[macro_export]
macro_rules! blank {
    ($type:ty) => {
        <$type as $crate::Field>::blank()
    };
    ($type:ty => $section:tt) => {
        <$type as $crate::Keys>::blank()
    };
}

/// See [`crate::keys!`].
#[doc(hidden)]
#[macro_export]
macro_rules! entry {
    ($list:ident, $section:ident, $field:expr, $name:expr, $doc:expr, [$($default:tt)?] [$($limits:expr)?] [$($path:literal)?]
     [$($otherwise:literal)?] [$($only:expr)?] []) => {
        $list.push(
            $crate::Key::new($section, $name, $field, $doc)
                $(.default(stringify!($default)))?
                $(.within($limits))?
                $(.at($section, $path))?
                $(.otherwise($otherwise))?
                $(.of($only))?,
        );
    };
    ($list:ident, $section:ident, $field:expr, $name:expr, $doc:expr, [] [] [] [] [] [_]) => {};
    ($list:ident, $section:ident, $field:expr, $name:expr, $doc:expr, [] [] [] [] [] [$inner:literal]) => {
        $crate::Keys::list($field, &$crate::below($section, $inner), $list);
    };
}
