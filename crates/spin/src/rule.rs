//! Which messages go through which handlers: a line of text each, such as `reduce size=64..2KiB tag=7`.

use crate::machine::{Action, Context, Cost, Handlers};
use crate::program::{Program, ProgramError};
use narrows_units::Bytes;

/// Bits of a tag that `tag` compares: as many as all MPI libraries leave to their programs' tags at the low end.
pub const TAG_MASK: u64 = (1 << 20) - 1;

/// As wide as any message.
pub(crate) const WINDOW: Bytes = Bytes(1 << 40);

/// Handlers, and the messages whose packets they see. Of several rules that fit the first one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What its handlers are called: the first word of the text.
    pub name: String,
    /// The execution context of its messages; none: each datatype has one, whose handler unpacks it.
    pub context: Option<Context>,
    /// Lengths of messages, the last one included. Messages without payload never fit.
    pub size: (u64, u64),
    /// Portal table entry; none: any.
    pub pt: Option<u32>,
    /// Match bits, and which of them count.
    pub bits: (u64, u64),
    /// What it asks of the receive that a message finds.
    pub receive: ReceiveCondition,
}

/// What a rule asks of the list entry that a message finds: who has appended the entry knows whether it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCondition {
    /// The name of its communicator.
    pub communicator: Option<String>,
    /// The name of its datatype, or [`DERIVED`].
    pub datatype: Option<String>,
    /// A Portals program says that its handlers are for the entry.
    pub entry: bool,
}

/// A datatype that is not in one piece.
pub const DERIVED: &str = "derived";
/// The handler that unpacks datatypes, as the first word of a rule.
pub const UNPACK: &str = "unpack";

impl ReceiveCondition {
    /// Whether it asks for nothing: messages fit that find no entry as well.
    pub fn is_none(&self) -> bool {
        *self == ReceiveCondition::default()
    }
}

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Nothing that says what runs.
    #[error("rule \"{text}\" names no handler; expected an ELF file, cost=A,B,C,ACTION, or one of unpack, {}", Cost::names())]
    NoHandler {
        /// The rule.
        text: String,
    },
    /// A word that is none.
    #[error(
        "\"{word}\" in rule \"{text}\"; expected KEY=VALUE with a key of size, tag, bits, pt, comm, datatype, memory, scratchpad, window, or \
             entry"
    )]
    Word {
        /// The word.
        word: String,
        /// The rule.
        text: String,
    },
    /// A value that the key cannot have.
    #[error("{key}={value} in rule \"{text}\"; expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// The rule.
        text: String,
        /// What would do.
        expected: String,
    },
    /// The file cannot be read.
    #[error("rule \"{text}\": cannot read {path}: {error}; expected an ELF file, or one of unpack, {}", Cost::names())]
    Read {
        /// The rule.
        text: String,
        /// The file.
        path: String,
        /// What the system says.
        error: String,
    },
    /// The file holds no handlers.
    #[error("rule \"{text}\": {path}: {error}")]
    Program {
        /// The rule.
        text: String,
        /// The file.
        path: String,
        /// Why.
        error: ProgramError,
    },
}

impl Cost {
    /// Names of the fitted functions.
    fn names() -> String {
        Cost::FITTED.map(|(name, _)| name).join(", ")
    }

    /// What [`Cost::parse`] takes.
    pub fn expected() -> String {
        let actions = Action::NAMES.map(|(name, _)| name).join(", ");
        format!("CYCLES,PER_BYTE,PER_WORD,ACTION[,HEADER], as in 20,0,6,fold,28; actions are {actions}")
    }

    /// A function from its text: `CYCLES,PER_BYTE,PER_WORD,ACTION`, and maybe the bytes of a header that cost nothing.
    pub fn parse(text: &str) -> Option<Cost> {
        let fields: Vec<&str> = text.split(',').collect();
        let [fixed, per_byte, per_word, action, header @ ..] = fields.as_slice() else { return None };
        let thousandths = |field: &str| {
            let number = field.parse::<f64>().ok().filter(|number| (0.0..=1e9).contains(number))?;
            Some((number * 1000.0).round() as u64)
        };
        let header = match header {
            [] => 0,
            [bytes] => bytes.parse().ok()?,
            _ => return None,
        };
        let action = Action::NAMES.iter().find(|(name, _)| name == action)?.1;
        Some(Cost { fixed: thousandths(fixed)? / 1000, per_byte: thousandths(per_byte)?, per_word: thousandths(per_word)?, header, action })
    }
}

/// A number, decimal or with `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn size(text: &str) -> Option<u64> {
    number(text).or_else(|| text.parse::<Bytes>().ok().map(|bytes| bytes.0))
}

impl Rule {
    /// Reads a rule. `read` gives the content of a file.
    ///
    /// # Errors
    /// The text is no rule, or its file holds no handlers.
    pub fn parse(text: &str, read: impl Fn(&str) -> std::io::Result<Vec<u8>>) -> Result<Rule, RuleError> {
        let mut words = text.split_whitespace();
        let first = words.next().ok_or_else(|| RuleError::NoHandler { text: text.to_owned() })?;
        let context = if first == UNPACK {
            None
        } else {
            let handlers = Rule::handlers(first, text, read)?;
            // A kibibyte for what a handler counts; a window as wide as any message.
            Some(Context { handlers, memory: Bytes(1 << 10), scratchpad: Bytes(1 << 10), window: WINDOW })
        };
        let receive = ReceiveCondition::default();
        let mut rule = Rule { name: first.to_owned(), context, size: (1, u64::MAX), pt: None, bits: (0, 0), receive };
        words.try_for_each(|word| rule.condition(word, text))?;
        if rule.context.is_none() {
            rule.receive.datatype.get_or_insert_with(|| DERIVED.to_owned());
        }
        Ok(rule)
    }

    fn handlers(first: &str, text: &str, read: impl Fn(&str) -> std::io::Result<Vec<u8>>) -> Result<Handlers, RuleError> {
        let text = text.to_owned();
        if let Some(cost) = first.strip_prefix("cost=") {
            let (key, value, expected) = (String::from("cost"), cost.to_owned(), Cost::expected());
            return Cost::parse(cost).map(Handlers::Cost).ok_or(RuleError::Value { key, value, text, expected });
        }
        if first.contains('=') {
            return Err(RuleError::NoHandler { text });
        }
        if let Some((_, cost)) = Cost::FITTED.iter().find(|(known, _)| *known == first) {
            return Ok(Handlers::Cost(*cost));
        }
        let path = first.to_owned();
        match read(first) {
            Err(error) => Err(RuleError::Read { text, path, error: error.to_string() }),
            Ok(file) => Program::from_elf(&file).map(Handlers::Program).map_err(|error| RuleError::Program { text, path, error }),
        }
    }

    fn condition(&mut self, word: &str, text: &str) -> Result<(), RuleError> {
        if word == "entry" {
            self.receive.entry = true;
            return Ok(());
        }
        let Some((key, value)) = word.split_once('=') else {
            return Err(RuleError::Word { word: word.to_owned(), text: text.to_owned() });
        };
        let wrong = |expected: &str| {
            let (key, value, text, expected) = (key.to_owned(), value.to_owned(), text.to_owned(), expected.to_owned());
            RuleError::Value { key, value, text, expected }
        };
        let memory = || size(value).map(Bytes).ok_or_else(|| wrong("a size, as in 4KiB"));
        match key {
            "size" => {
                let ends = match value.split_once("..") {
                    None => size(value).map(|only| (only, only)),
                    Some((low, high)) => {
                        let low = if low.is_empty() { Some(1) } else { size(low) };
                        low.zip(if high.is_empty() { Some(u64::MAX) } else { size(high) })
                    }
                };
                let fits = ends.filter(|&(low, high)| low <= high && high > 0);
                self.size = fits.ok_or_else(|| wrong("bytes of a message, as in 64, 64..2KiB or 4KiB.."))?;
            }
            "tag" => {
                let tag = number(value).filter(|&tag| tag <= TAG_MASK).ok_or_else(|| wrong("0 to 1048575"))?;
                self.bits = (self.bits.0 & !TAG_MASK | tag, self.bits.1 | TAG_MASK);
            }
            "bits" => {
                let (bits, mask) = value.split_once('/').unwrap_or((value, "0xffffffffffffffff"));
                let (bits, mask) = number(bits).zip(number(mask)).ok_or_else(|| wrong("match bits and a mask, as in 0x7/0xff"))?;
                self.bits = (bits & mask, mask);
            }
            "pt" => {
                let pt = number(value).and_then(|pt| u32::try_from(pt).ok());
                self.pt = Some(pt.ok_or_else(|| wrong("the number of a portal table entry"))?);
            }
            "comm" => self.receive.communicator = Some(value.to_owned()),
            "datatype" => self.receive.datatype = Some(value.to_owned()),
            "memory" | "scratchpad" | "window" => {
                let size = memory()?;
                let context = self.context.as_mut().ok_or_else(|| wrong("no such word: what unpack needs depends on the datatype"))?;
                match key {
                    "memory" => context.memory = size,
                    "scratchpad" => context.scratchpad = size,
                    _ => context.window = size,
                }
            }
            _ => return Err(RuleError::Word { word: word.to_owned(), text: text.to_owned() }),
        }
        Ok(())
    }

    /// Whether a message goes through its handlers, by its portal table entry, match bits and length.
    pub fn fits(&self, pt: u32, bits: u64, length: u64) -> bool {
        let (low, high) = self.size;
        length > 0 && (low..=high).contains(&length) && self.pt.is_none_or(|own| own == pt) && bits & self.bits.1 == self.bits.0
    }
}
