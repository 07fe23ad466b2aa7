//! Receives for handlers on the NIC: `nic.spin.rules` that ask for a communicator or a datatype.
//!
//! [`enter`] looks at the receives of the program, before the MPI library does. It numbers the execution contexts of
//! those that a rule asks for: one for each set of rules and datatype. The receive that the library posts next, which
//! is as long, has that context at the NIC. Rules that ask for neither need nothing of all this.

use crate::arch::REGISTERS;
use crate::check::{self, Datatype, Kind};
use crate::portals;
use crate::symbols::{self, Symbol};
use narrows_facts::Object;
use narrows_facts::shape::{self, Shape};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What a rule asks of a receive, as `NARROWS_HANDLERS` has it: a line of number, communicator, datatype (each a name,
/// or nothing) and a mark of those that unpack, with tabs between them.
struct Rule {
    number: u32,
    communicator: Option<String>,
    datatype: Option<String>,
    unpacks: bool,
}

/// A datatype that is not in one piece, as rules have it.
const DERIVED: &str = "derived";
/// The last number of a context, for receives that find none left: the NIC counts them.
const FULL: u8 = u8::MAX;

#[derive(Default)]
struct State {
    types: BTreeMap<u64, Datatype>,
    /// Contexts from 1 on: rules, and the datatype for those that unpack.
    contexts: Vec<Described>,
    full: bool,
}

type Described = (u64, Option<(i64, Arc<[(i64, u64)]>)>);

static STATE: Mutex<Option<State>> = Mutex::new(None);

thread_local! {
    /// The call under way has named a receive.
    static NAMED: Cell<bool> = const { Cell::new(false) };
}

fn rules() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    RULES.get_or_init(|| std::env::var("NARROWS_HANDLERS").map_or_else(|_| Vec::new(), |lines| lines.lines().filter_map(rule).collect()))
}

fn rule(line: &str) -> Option<Rule> {
    let mut fields = line.split('\t');
    let mut name = || fields.next().map(|name| Some(name.to_owned()).filter(|name| !name.is_empty()));
    let (number, communicator, datatype, mark) = (name()??, name()?, name()?, name()?);
    Some(Rule { number: number.parse().ok()?, communicator, datatype, unpacks: mark.is_some() })
}

/// The argument of a call at a position, from 0.
///
/// # Safety
/// `registers` and `stack` hold the arguments of a call with so many.
unsafe fn word(registers: *const u64, stack: *const u64, at: usize) -> u64 {
    // SAFETY: the first arguments are in registers, the others on the stack.
    unsafe { if at < REGISTERS { *registers.add(at) } else { *stack.add(at - REGISTERS) } }
}

/// The program makes a call.
///
/// # Safety
/// `registers` and `stack` hold its arguments.
pub unsafe fn enter(symbol: &Symbol, registers: *const u64, stack: *const u64) {
    if rules().is_empty() {
        return;
    }
    // Count, datatype and communicator.
    let places = match shape::of(symbol.id()) {
        Shape::Receive(how) if !matches!(how, shape::How::Persistent(_)) => [1, 2, 5],
        Shape::SendReceive(_) => [6, 7, 10],
        Shape::Replace(_) => [1, 2, 7],
        // Its number may soon be another type's.
        Shape::Free(Object::Datatype) => return with_state(|state| state.types.clear()),
        _ => return,
    };
    // SAFETY: the caller's promise; Fortran passes addresses of integers.
    let [count, datatype, communicator] = places.map(|at| unsafe { word(registers, stack, at) });
    let wide = symbol.call().name.ends_with("_c");
    let handle = |kind, word: u64| match symbol.fortran {
        // SAFETY: as above.
        true => check::from_fortran(kind, unsafe { *(word as *const i32) }),
        false => symbols::abi().handle_of(word),
    };
    let count = match (symbol.fortran, wide) {
        // SAFETY: as above.
        (true, true) => unsafe { *(count as *const u64) },
        // SAFETY: as above.
        (true, false) => (unsafe { *(count as *const i32) }).max(0) as u64,
        (false, true) => count,
        (false, false) => (count as i32).max(0) as u64,
    };
    symbols::learn(symbol.function());
    with_state(|state| state.receive(count, handle(Kind::Datatype, datatype), handle(Kind::Communicator, communicator)));
}

/// The call is over.
pub fn leave() {
    if NAMED.replace(false) {
        portals::receives(0, 0);
    }
}

fn with_state(work: impl FnOnce(&mut State)) {
    work(STATE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default());
}

impl State {
    fn receive(&mut self, count: u64, datatype: u64, communicator: u64) {
        let of_type = self.types.entry(datatype).or_insert_with(|| check::look_up_type(datatype)).clone();
        let bytes = count.saturating_mul(of_type.size);
        let in_pieces = !of_type.dense;
        let holds = |rule: &&Rule| {
            let named = |wanted: &Option<String>, name: &dyn Fn() -> std::ffi::CString| {
                wanted.as_ref().is_none_or(|wanted| wanted.as_bytes() == name().as_bytes())
            };
            let right_type = match rule.datatype.as_deref() {
                Some(DERIVED) => in_pieces,
                _ => named(&rule.datatype, &|| check::name_of_type(datatype)),
            };
            right_type && named(&rule.communicator, &|| check::name_of_communicator(communicator))
        };
        let (mut mask, mut unpacks) = (0u64, false);
        for rule in rules().iter().filter(holds) {
            mask |= 1 << rule.number;
            unpacks |= rule.unpacks;
        }
        if mask != 0 && bytes > 0 {
            let pieces = of_type.pieces.filter(|_| unpacks);
            let context = self.context((mask, pieces.map(|pieces| (of_type.extent, pieces))));
            NAMED.set(true);
            portals::receives(context, bytes);
        }
    }

    /// The number of a context, which the NIC has heard of.
    fn context(&mut self, described: Described) -> u8 {
        if let Some(at) = self.contexts.iter().position(|known| *known == described) {
            return at as u8 + 1;
        }
        let (rules, layout) = &described;
        if self.contexts.len() + 1 == usize::from(FULL) {
            if !std::mem::replace(&mut self.full, true) {
                let unpacks = crate::handlers::rules().iter().filter(|rule| rule.unpacks);
                portals::set_context(FULL, unpacks.fold(0, |mask, rule| mask | 1 << rule.number), 0, &[]);
            }
            return FULL;
        }
        let number = self.contexts.len() as u8 + 1;
        let blocks = layout.iter().flat_map(|(_, blocks)| blocks.iter()).map(|&(place, bytes)| [place, bytes as i64]);
        portals::set_context(number, *rules, layout.as_ref().map_or(0, |(extent, _)| *extent), &blocks.collect::<Vec<_>>());
        self.contexts.push(described);
        number
    }
}
