//! How much time ranks spend in each MPI function, and from where in the program they call it.

use narrows_channel::record::Ended;
use narrows_check::{Place, Places};
use narrows_mpicalls::CALLS;
use narrows_units::SimTime;
use std::collections::{BTreeMap, BTreeSet};

/// Calls of one function at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// The function.
    pub name: &'static str,
    /// File and line, or file and offset; empty where nobody knows.
    pub site: String,
    /// How many ranks called it.
    pub ranks: u32,
    /// How often.
    pub calls: u64,
    /// How long all calls together took.
    pub time: SimTime,
    /// How much of that ranks waited.
    pub waited: SimTime,
    /// The longest one.
    pub longest: SimTime,
}

/// A file in the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    begin: u64,
    end: u64,
    /// What is subtracted from an address, for the offset as symbols count.
    base: u64,
    path: String,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    calls: u64,
    time: u64,
    waited: u64,
    longest: u64,
}

/// What one rank has called.
#[derive(Debug, Default)]
struct OfRank {
    mapped: Vec<Mapped>,
    /// By function and address.
    sums: BTreeMap<(u32, u64), Sums>,
    /// Addresses of which the file is known, or is known not to be.
    known: BTreeMap<u64, Option<(String, u64)>>,
}

/// Sums of all ranks.
#[derive(Debug)]
pub(crate) struct Functions(Vec<OfRank>);

impl Functions {
    pub(crate) fn new(ranks: usize) -> Functions {
        Functions((0..ranks).map(|_| OfRank::default()).collect())
    }

    /// A call is over; times in ps. `process` has made it: its files are looked at while it lives.
    pub(crate) fn add(&mut self, rank: u32, ended: &Ended, end: u64, process: Option<u32>) {
        let Some(own) = self.0.get_mut(rank as usize) else { return };
        let time = end.saturating_sub(ended.began);
        let sums = own.sums.entry((ended.call, ended.site)).or_default();
        sums.calls += 1;
        sums.time += time;
        sums.waited += ended.waited;
        sums.longest = sums.longest.max(time);
        if sums.calls == 1 && ended.site != 0 && !own.known.contains_key(&ended.site) {
            let found = own.file_of(ended.site, process);
            own.known.insert(ended.site, found);
        }
    }

    /// All of them, those that took longest first.
    pub(crate) fn finish(self) -> Vec<Function> {
        let mut places = Places::default();
        let mut lines: BTreeMap<(String, u64), String> = BTreeMap::new();
        let mut all: BTreeMap<(u32, String), (Function, BTreeSet<usize>)> = BTreeMap::new();
        for (rank, own) in self.0.into_iter().enumerate() {
            for ((call, address), sums) in own.sums {
                let Some(name) = CALLS.get(call as usize).map(|call| call.name) else { continue };
                let site = own.known.get(&address).cloned().flatten().map_or_else(String::new, |(object, offset)| {
                    let line = |(object, offset): &(String, u64), places: &mut Places| places.line(Place { object, offset: *offset });
                    let key = (object, offset);
                    let found = lines.get(&key).cloned().unwrap_or_else(|| line(&key, &mut places));
                    lines.entry(key).or_insert(found).clone()
                });
                let function = Function { name, site: site.clone(), ..Function::default() };
                let (sum, ranks) = all.entry((call, site)).or_insert((function, BTreeSet::new()));
                ranks.insert(rank);
                sum.ranks = ranks.len() as u32;
                sum.calls += sums.calls;
                sum.time += SimTime(sums.time);
                sum.waited += SimTime(sums.waited);
                sum.longest = sum.longest.max(SimTime(sums.longest));
            }
        }
        let mut all: Vec<Function> = all.into_values().map(|(function, _)| function).collect();
        all.sort_by(|one, other| other.time.cmp(&one.time).then_with(|| (one.name, &one.site).cmp(&(other.name, &other.site))));
        all
    }
}

impl OfRank {
    fn file_of(&mut self, address: u64, process: Option<u32>) -> Option<(String, u64)> {
        let find = |mapped: &[Mapped]| {
            let found = mapped.iter().find(|one| (one.begin..one.end).contains(&address))?;
            Some((found.path.clone(), address - found.base))
        };
        if let Some(found) = find(&self.mapped) {
            return Some(found);
        }
        // Libraries may have been loaded since.
        let text = std::fs::read_to_string(format!("/proc/{}/maps", process?)).ok()?;
        self.mapped = mapped(&text, is_fixed);
        find(&self.mapped)
    }
}

/// A program that has its own addresses: `e_type` of its ELF header is `ET_EXEC`.
fn is_fixed(path: &str) -> bool {
    use std::io::Read;
    let mut head = [0u8; 18];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head[16..18] == [2, 0]
}

/// Files in a text like that of /proc/PID/maps (proc(5)).
fn mapped(text: &str, is_fixed: impl Fn(&str) -> bool) -> Vec<Mapped> {
    let mut bases: BTreeMap<String, u64> = BTreeMap::new();
    let line = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (begin, end) = range.split_once('-')?;
        let path = rest.find('/').map(|at| rest[at..].to_owned())?;
        let (begin, end) = (u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        // The first part of a file is where it begins.
        let base = *bases.entry(path.clone()).or_insert_with(|| if is_fixed(&path) { 0 } else { begin });
        Some(Mapped { begin, end, base, path })
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_process_and_where_they_begin() {
        let text = "400000-401000 r--p 00000000 00:1 5 /bin/fixed\n401000-402000 r-xp 00001000 00:1 5 /bin/fixed\n\
                    7f00-7f10 rw-p 00000000 00:00 0 [heap]\n8000-9000 r--p 0 00:1 7 /lib/a b.so\n9000-a000 r-xp 1000 00:1 7 /lib/a b.so\n";
        let mut own = OfRank { mapped: mapped(text, |path| path == "/bin/fixed"), ..OfRank::default() };
        assert_eq!(own.file_of(0x401_234, None), Some((String::from("/bin/fixed"), 0x401_234)));
        assert_eq!(own.file_of(0x9010, None), Some((String::from("/lib/a b.so"), 0x1010)));
        assert_eq!(own.file_of(0x7f05, None), None);
    }

    #[test]
    fn calls_of_all_ranks_are_one_sum_by_place() {
        let mut functions = Functions::new(2);
        let send = narrows_mpicalls::by_name("MPI_Send").expect("it is in the table");
        let ended = |began, waited| Ended { call: send, began, waited, peer: 0, tag: 0, site: 0 };
        functions.add(0, &ended(10, 5), 30, None);
        functions.add(1, &ended(10, 0), 15, None);
        functions.add(1, &ended(20, 0), 25, None);
        let expected = Function {
            name: "MPI_Send",
            site: String::new(),
            ranks: 2,
            calls: 3,
            time: SimTime(30),
            waited: SimTime(5),
            longest: SimTime(20),
        };
        assert_eq!(functions.finish(), [expected]);
    }
}
