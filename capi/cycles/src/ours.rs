//! Which code is of our own libraries: what that costs, the machine file says (`[software]`).

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Where code is, and whether it is ours.
static CODE: Mutex<Vec<(Range<u64>, bool)>> = Mutex::new(Vec::new());

/// Whether the code at that address is.
pub(crate) fn is_ours(address: u64) -> bool {
    let mut code = CODE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = |code: &[(Range<u64>, bool)]| code.iter().find(|(range, _)| range.contains(&address)).map(|&(_, ours)| ours);
    if let Some(ours) = known(&code) {
        return ours;
    }
    // A library was loaded since.
    *code = std::fs::read_to_string("/proc/self/maps").map(|maps| maps.lines().filter_map(mapped).collect()).unwrap_or_default();
    known(&code).unwrap_or(false)
}

/// A line of proc(5)'s maps. qemu maps the program's code for reading only.
fn mapped(line: &str) -> Option<(Range<u64>, bool)> {
    let mut words = line.split_ascii_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let file = words.nth(4).unwrap_or("");
    let name = file.rsplit('/').next().unwrap_or("");
    // The last one: `narrows_launch::Preload`.
    let ours = ["libnarrows", "libportals.so", "memfd:narrows-"].iter().any(|ours| name.starts_with(ours));
    Some((number(begin)?..number(end)?, ours))
}
