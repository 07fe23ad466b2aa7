//! Classes of traffic: who sends what to whom, when, and with which priority.

use crate::TrafficError;
use crate::injection::Injection;
use crate::pattern::Pattern;
use crate::size::Sizes;
use narrows_units::SimTime;
use serde::Deserialize;
use std::str::FromStr;
use toml::Spanned;

/// Most classes of a run: an identifier of a message keeps the class in four bits, and one value is taken.
pub const MAX_CLASSES: usize = 15;
/// Priorities: a virtual network each.
pub const PRIORITIES: u8 = 4;

/// One class of traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// For tables and reports.
    pub name: String,
    /// Who sends to whom.
    pub pattern: Pattern,
    /// Fraction of the injection bandwidth of each of its sources; `None`: the load of the run's point.
    pub load: Option<f64>,
    /// Message sizes; `None`: a full packet.
    pub sizes: Option<Sizes>,
    /// How messages follow each other.
    pub injection: Injection,
    /// The nodes that the pattern is laid over; `None`: all.
    pub nodes: Option<NodeList>,
    /// Those of the pattern's senders that do send; `None`: all.
    pub sources: Option<NodeList>,
    /// The first message is not before this.
    pub start: SimTime,
    /// No message starts at or after this.
    pub end: SimTime,
    /// 0 to 3: the virtual network of its messages.
    pub priority: u8,
}

impl Class {
    /// A class of this pattern with everything else at its default.
    pub fn new(name: &str, pattern: Pattern) -> Class {
        Class {
            name: name.to_owned(),
            pattern,
            load: None,
            sizes: None,
            injection: Injection::Bernoulli,
            nodes: None,
            sources: None,
            start: SimTime::ZERO,
            end: SimTime::MAX,
            priority: 0,
        }
    }

    /// From `name=victim pattern=shift:8 load=0.2 sources=0-7 size=4KiB injection=poisson start=10us end=50us
    /// priority=1 nodes=0-63`. Only the pattern is required.
    ///
    /// # Errors
    /// An unknown key, a key twice, or a wrong value.
    pub fn parse(text: &str) -> Result<Class, TrafficError> {
        let mut raw = RawClass::default();
        let class = || text.to_owned();
        for word in text.split_whitespace() {
            let (key, value) = word.split_once('=').ok_or_else(|| TrafficError::Class {
                class: class(),
                why: format!("\"{word}\" is not key=value, such as pattern=shift:8"),
            })?;
            let value = || Some(Spanned::new(0..0, value.to_owned()));
            let place = match key {
                "name" => &mut raw.name,
                "pattern" => &mut raw.pattern,
                "load" => {
                    let number = value().and_then(|text| text.into_inner().parse().ok());
                    let number = number.ok_or_else(|| TrafficError::Class { class: class(), why: format!("{word}: expected a number") })?;
                    raw.load = Some(Spanned::new(0..0, number));
                    continue;
                }
                "size" => &mut raw.size,
                "injection" => &mut raw.injection,
                "nodes" => &mut raw.nodes,
                "sources" => &mut raw.sources,
                "start" => &mut raw.start,
                "end" => &mut raw.end,
                "priority" => {
                    let number = value().and_then(|text| text.into_inner().parse().ok());
                    let number = number.ok_or_else(|| TrafficError::Class { class: class(), why: format!("{word}: expected 0 to 3") })?;
                    raw.priority = Some(Spanned::new(0..0, number));
                    continue;
                }
                _ => {
                    return Err(TrafficError::Class { class: class(), why: format!("unknown key \"{key}\"; expected one of {KEYS}") });
                }
            };
            if place.is_some() {
                return Err(TrafficError::Class { class: class(), why: format!("{key} is given twice") });
            }
            *place = value();
        }
        raw.resolve(|_, why| TrafficError::Class { class: class(), why })
    }
}

const KEYS: &str = "name, pattern, load, size, injection, nodes, sources, start, end, priority";

/// A class as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClass {
    name: Option<Spanned<String>>,
    pattern: Option<Spanned<String>>,
    load: Option<Spanned<f64>>,
    size: Option<Spanned<String>>,
    injection: Option<Spanned<String>>,
    nodes: Option<Spanned<String>>,
    sources: Option<Spanned<String>>,
    start: Option<Spanned<String>>,
    end: Option<Spanned<String>>,
    priority: Option<Spanned<i64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMix {
    #[serde(default)]
    class: Vec<Spanned<RawClass>>,
}

/// A value where one is given; the byte where it stands goes to the complaint.
fn read<T: FromStr>(text: Option<&Spanned<String>>, complain: &impl Fn(usize, String) -> TrafficError) -> Result<Option<T>, TrafficError>
where
    T::Err: std::fmt::Display,
{
    text.map(|text| text.get_ref().parse().map_err(|error: T::Err| complain(text.span().start, error.to_string()))).transpose()
}

impl RawClass {
    fn resolve(self, complain: impl Fn(usize, String) -> TrafficError) -> Result<Class, TrafficError> {
        let pattern = read::<Pattern>(self.pattern.as_ref(), &complain)?;
        let pattern = pattern.ok_or_else(|| complain(usize::MAX, String::from("needs a pattern, such as pattern = \"uniform\"")))?;
        let injection = read(self.injection.as_ref(), &complain)?.unwrap_or(Injection::Bernoulli);
        let mut class = Class::new("", pattern);
        if let Some(name) = &self.name
            && (name.get_ref().is_empty() || name.get_ref().chars().any(char::is_control))
        {
            return Err(complain(name.span().start, String::from("a name is one line of text, or left out")));
        }
        class.name = self.name.map_or_else(String::new, Spanned::into_inner);
        if let Some(load) = self.load {
            injection.check(*load.get_ref()).map_err(|error| complain(load.span().start, error.to_string()))?;
            if matches!(injection, Injection::Closed { .. }) {
                return Err(complain(load.span().start, String::from("a closed loop has no load: leave one of the two out")));
            }
            class.load = Some(load.into_inner());
        }
        class.injection = injection;
        class.sizes = read(self.size.as_ref(), &complain)?;
        class.nodes = read(self.nodes.as_ref(), &complain)?;
        class.sources = read(self.sources.as_ref(), &complain)?;
        class.start = read(self.start.as_ref(), &complain)?.unwrap_or(SimTime::ZERO);
        class.end = read(self.end.as_ref(), &complain)?.unwrap_or(SimTime::MAX);
        if class.start >= class.end {
            let at = self.end.as_ref().map_or(0, |end| end.span().start);
            return Err(complain(at, format!("it starts at {} and ends at {}; the end must be later", class.start, class.end)));
        }
        if let Some(priority) = self.priority {
            let value = u8::try_from(*priority.get_ref()).ok().filter(|value| *value < PRIORITIES);
            class.priority = value.ok_or_else(|| {
                complain(priority.span().start, format!("priority {}; expected 0 to {}", priority.get_ref(), PRIORITIES - 1))
            })?;
        }
        Ok(class)
    }
}

/// The classes of a TOML file: a `[[class]]` each, with the keys of [`Class::parse`].
///
/// # Errors
/// The first mistake, with file and line.
pub fn parse_mix(file: &str, text: &str) -> Result<Vec<Class>, TrafficError> {
    let at_line = |offset: usize, why: String| {
        let line = text[..offset.min(text.len())].bytes().filter(|&byte| byte == b'\n').count() + 1;
        TrafficError::File { file: file.to_owned(), line, why }
    };
    let mix: RawMix = toml::from_str(text)
        .map_err(|error| at_line(error.span().map_or(0, |span| span.start), error.message().lines().collect::<Vec<_>>().join("; ")))?;
    if mix.class.is_empty() {
        return Err(at_line(0, String::from("no class in it; expected [[class]] with pattern = \"...\"")));
    }
    mix.class
        .into_iter()
        .map(|raw| {
            let begin = raw.span().start;
            raw.into_inner().resolve(|offset, why| at_line(if offset == usize::MAX { begin } else { offset }, why))
        })
        .collect()
}

/// Node indices: `0-15,20,32-62/2` (a range, one, every second of a range).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeList(pub Vec<u32>);

impl FromStr for NodeList {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<NodeList, TrafficError> {
        let mut nodes = Vec::new();
        for part in text.split(',') {
            let wrong = || TrafficError::NodeText { part: part.to_owned(), text: text.to_owned() };
            let number = |text: &str| text.trim().parse::<u32>().ok().filter(|node| *node < 1 << 22).ok_or_else(wrong);
            let (range, step) = part.split_once('/').unwrap_or((part, "1"));
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last, step) = (number(first)?, number(last)?, number(step)?);
            if step == 0 || last < first {
                return Err(wrong());
            }
            nodes.extend((first..=last).step_by(step as usize));
        }
        let count = nodes.len();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.len() < count { Err(TrafficError::NodeTwice { text: text.to_owned() }) } else { Ok(NodeList(nodes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_same_from_a_line_and_from_a_file() {
        let line = "name=victim pattern=shift:8 load=0.2 sources=0-7 nodes=0-31 size=4KiB injection=poisson start=10us end=50us priority=1";
        let file = "# two jobs\n[[class]]\nname = \"victim\"\npattern = \"shift:8\"\nload = 0.2\nsources = \"0-7\"\nnodes = \"0-31\"\nsize = \"4 KiB\"\n\
                    injection = \"poisson\"\nstart = \"10 us\"\nend = \"50 us\"\npriority = 1\n";
        let class = Class::parse(line).unwrap();
        assert_eq!(parse_mix("mix.toml", file).unwrap(), std::slice::from_ref(&class));
        assert_eq!((class.priority, class.start, class.load), (1, SimTime::from_us(10), Some(0.2)));
        assert_eq!(class.sources, Some(NodeList((0..8).collect())));
    }

    #[test]
    fn mistakes_in_a_file_have_their_line() {
        let cases = [
            ("[[class]]\npattern = \"uniform\"\nlod = 0.2\n", "mix.toml:3: unknown field `lod`"),
            ("[[class]]\npattern = \"unifrom\"\n", "mix.toml:2: pattern \"unifrom\": expected"),
            ("\n[[class]]\nload = 0.2\n", "mix.toml:2: needs a pattern"),
            ("[[class]]\npattern = \"uniform\"\nload = 1.5\n", "mix.toml:3: load 1.5: a load is a fraction"),
            ("[[class]]\npattern = \"uniform\"\nstart = \"3us\"\nend = \"2us\"\n", "mix.toml:4: it starts at 3 us and ends at 2 us"),
            ("[[class]]\npattern = \"uniform\"\npriority = 4\n", "mix.toml:3: priority 4; expected 0 to 3"),
            ("[[class]]\npattern = \"uniform\"\ninjection = \"closed:2\"\nload = 0.5\n", "mix.toml:4: a closed loop has no load"),
            ("[[class]]\npattern = \"uniform\"\nsources = \"7-3\"\n", "mix.toml:3: \"7-3\""),
            ("[[class]\n", "mix.toml:1: "),
            ("", "mix.toml:1: no class in it"),
        ];
        for (text, expected) in cases {
            let message = parse_mix("mix.toml", text).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn mistakes_in_a_line_name_what_would_be_right() {
        for (text, expected) in [
            ("uniform", "is not key=value"),
            ("pattern=uniform prio=1", "unknown key \"prio\"; expected one of name, pattern"),
            ("pattern=uniform pattern=tornado", "pattern is given twice"),
            ("pattern=uniform load=x", "expected a number"),
            ("pattern=uniform name=", "a name is one line of text"),
            ("pattern=uniform name=a\u{7}b", "a name is one line of text"),
            ("load=0.5", "needs a pattern"),
        ] {
            let message = Class::parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn node_lists_have_ranges_and_steps() {
        assert_eq!("0-3,8,10-14/2".parse(), Ok(NodeList(vec![0, 1, 2, 3, 8, 10, 12, 14])));
        for text in ["", "a", "3-", "5-3", "0-4/0", "1,1"] {
            assert!(text.parse::<NodeList>().is_err(), "{text}");
        }
    }
}
