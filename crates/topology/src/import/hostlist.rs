//! Lists of host names with ranges, as Slurm and SimGrid write them: `tux[0-3,07-11],login`.

use super::ImportError;
use crate::graph::MAX_VERTICES;

/// The most characters of a name with its ranges.
const ITEM_MAX: usize = 4096;
/// The most ranges in brackets of one name; Slurm has fewer.
const BRACKETS_MAX: usize = 16;

/// Calls `each` with every name of the list in a line, in order. An error of `each` ends it.
pub(super) fn expand(line: usize, list: &str, mut each: impl FnMut(&str) -> Result<(), ImportError>) -> Result<(), ImportError> {
    let wrong = |message: String| ImportError::new(line, message);
    for item in split(list).map_err(wrong)? {
        if item.is_empty() {
            return Err(wrong(format!("an empty name in `{}`; expected names with commas between them", shown(list))));
        }
        if item.len() > ITEM_MAX || item.matches('[').count() > BRACKETS_MAX {
            let most = format!("expected at most {ITEM_MAX} characters and {BRACKETS_MAX} brackets");
            return Err(wrong(format!("`{}` is no name of hosts; {most}", shown(item))));
        }
        if count(item).map_err(wrong)? > MAX_VERTICES {
            return Err(wrong(format!("`{}` stands for more than {MAX_VERTICES} names", shown(item))));
        }
        names(line, String::new(), item, &mut each)?;
    }
    Ok(())
}

/// How many names an item stands for.
fn count(item: &str) -> Result<u64, String> {
    let mut count = 1u64;
    for ranges in item.split('[').skip(1).filter_map(|rest| rest.split_once(']')) {
        let sizes = ranges.0.split(',').map(|text| range(text).map(|(first, last, _)| last - first + 1)).collect::<Result<Vec<_>, _>>()?;
        count = count.saturating_mul(sizes.into_iter().fold(0, u64::saturating_add));
    }
    Ok(count)
}

/// The items between commas outside of brackets.
fn split(list: &str) -> Result<Vec<&str>, String> {
    let (mut items, mut begin, mut inside) = (Vec::new(), 0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' if !inside => inside = true,
            ']' if inside => inside = false,
            '[' | ']' => return Err(format!("a bracket too many in `{}`; expected names such as tux[0-3,7]", shown(list))),
            ',' if !inside => {
                items.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(format!("a bracket is missing in `{}`; expected names such as tux[0-3,7]", shown(list)));
    }
    items.push(&list[begin..]);
    Ok(items)
}

/// `before` with everything that `rest` stands for; the first brackets run slowest.
fn names(line: usize, before: String, rest: &str, each: &mut impl FnMut(&str) -> Result<(), ImportError>) -> Result<(), ImportError> {
    let Some((name, (ranges, behind))) = rest.split_once('[').and_then(|(name, rest)| Some((name, rest.split_once(']')?))) else {
        return each(&(before + rest));
    };
    for text in ranges.split(',') {
        let (first, last, width) = range(text).map_err(|message| ImportError::new(line, message))?;
        for number in first..=last {
            names(line, format!("{before}{name}{number:0width$}"), behind, each)?;
        }
    }
    Ok(())
}

/// `7`, `0-3`, `007-012`: the first, the last, and the digits of the first.
pub(super) fn range(text: &str) -> Result<(u64, u64, usize), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    match (number(first), number(last)) {
        (Some(from), Some(to)) if from <= to && to < 1 << 53 && first.len() <= 16 => Ok((from, to, first.len())),
        _ => Err(format!("`{}` is no range of numbers; expected one such as 0-3 or 7", shown(text))),
    }
}

/// Not more of a text than fits into a message, and nothing that moves a cursor.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(60).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(60).is_some() {
        shown += "...";
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(list: &str) -> Result<String, String> {
        let mut names = Vec::new();
        let done = expand(7, list, |name| {
            names.push(name.to_owned());
            if names.len() > 100 { Err(ImportError::new(7, "too many")) } else { Ok(()) }
        });
        done.map(|()| names.join(" ")).map_err(|error| error.message)
    }

    #[test]
    fn ranges_are_spelled_out_with_their_zeros() {
        assert_eq!(all("tux[0-2,7],login").unwrap(), "tux0 tux1 tux2 tux7 login");
        assert_eq!(all("n[08-11]-ib").unwrap(), "n08-ib n09-ib n10-ib n11-ib");
        assert_eq!(all("r[0-1]n[0-1]").unwrap(), "r0n0 r0n1 r1n0 r1n1");
    }

    #[test]
    fn what_is_no_list_is_told() {
        assert_eq!(all("a[0-3").unwrap_err(), "a bracket is missing in `a[0-3`; expected names such as tux[0-3,7]");
        assert_eq!(all("a]").unwrap_err(), "a bracket too many in `a]`; expected names such as tux[0-3,7]");
        assert_eq!(all("a[3-0]").unwrap_err(), "`3-0` is no range of numbers; expected one such as 0-3 or 7");
        assert_eq!(all("a[]").unwrap_err(), "`` is no range of numbers; expected one such as 0-3 or 7");
        assert_eq!(all("a,,b").unwrap_err(), "an empty name in `a,,b`; expected names with commas between them");
        assert_eq!(all("a[0-9007199254740991]").unwrap_err(), "`a[0-9007199254740991]` stands for more than 4194304 names");
        assert_eq!(all("a[0-999]").unwrap_err(), "too many");
    }
}
