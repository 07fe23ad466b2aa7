//! What ranks put into the key-value space of their launcher, read from shared memory.
//!
//! Each rank of MPICH asks for the address of every other one, one by one: a million questions over sockets among 1,024
//! ranks. Every put goes to the launcher as well, so that a question that is not answered here is answered there.
//! Commands are those of PMI-1 (MPICH, doc/wiki PMI-1 wire protocol): `cmd=put kvsname=K key=N value=V`, and
//! `cmd=get kvsname=K key=N`, answered by `cmd=get_result rc=0 msg=success value=V`.

use crate::shared::shared;

const PUT: &[u8] = b"cmd=put ";
const GET: &[u8] = b"cmd=get ";
const VALUE: &[u8] = b" value=";

/// Where a name is: names of what ranks put for others have the number of the rank, and it is the last one in them.
fn number(name: &[u8]) -> Option<u32> {
    let last = name.rsplit(|byte| !byte.is_ascii_digit()).find(|digits| !digits.is_empty())?;
    std::str::from_utf8(last).ok()?.parse().ok()
}

/// The job's and the value's name of a whole command, and the value of a put.
fn parts<'a>(line: &'a [u8], command: &[u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let rest = line.strip_prefix(command)?.strip_suffix(b"\n")?;
    if rest.contains(&b'\n') || !rest.starts_with(b"kvsname=") {
        return None;
    }
    Some(match rest.windows(VALUE.len()).position(|window| window == VALUE) {
        Some(at) => (&rest[..at], Some(&rest[at + VALUE.len()..])),
        None => (rest, None),
    })
}

/// Keeps what the command `line` puts, if it is one that puts something.
pub fn put(line: &[u8]) {
    if let Some((name, Some(value))) = parts(line, PUT)
        && let Some(number) = number(name)
        && let Ok(shared) = shared()
    {
        shared.mapping.put_card(number, name, value);
    }
}

/// The launcher's answer to the command `line`, if it is known here.
pub fn answer(line: &[u8]) -> Option<Vec<u8>> {
    let (name, None) = parts(line, GET)? else { return None };
    let value = shared().ok()?.mapping.card_value(number(name)?, name)?;
    Some([b"cmd=get_result rc=0 msg=success value=", value, b"\n"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        let name = &b"kvsname=kvs_9_0_7_vm key=-allgather-1-17"[..];
        let line = |command: &[u8], rest: &[u8]| [command, name, rest].concat();
        assert_eq!(parts(&line(PUT, b" value=4E52[3]01\n"), PUT), Some((name, Some(&b"4E52[3]01"[..]))));
        assert_eq!(parts(&line(GET, b"\n"), GET), Some((name, None)));
        // Not the whole of it, more than one, others.
        assert_eq!([parts(&line(GET, b""), GET), parts(&line(GET, b"\ncmd=x\n"), GET), parts(b"cmd=get_maxes\n", GET)], [None; 3]);
        assert_eq!([number(name), number(b"hostname[5]"), number(b"PMI_process_mapping")], [Some(17), Some(5), None]);
    }
}
