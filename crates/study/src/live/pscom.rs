//! The environment of pscom4portals: its variables say more than the machine file.
//!
//! Source of names and defaults: lib/pscom4portals/pscom_portals.c of ParaStation's pscom.

use crate::StudyError;
use narrows_machine::Machine;
use narrows_message::PscomConfig;
use narrows_units::Bytes;

const PREFIX: &str = "PSP_PORTALS_";
/// Queues of events never run full here.
const EQ_SIZE: &str = "EQ_SIZE";
/// An endpoint looks at all there is whenever it looks.
const FOSTER_PROGRESS: &str = "FOSTER_PROGRESS";
const NAMES: [&str; 8] =
    ["BUFFER_SIZE", "RECVQ_SIZE", "SENDQ_SIZE", EQ_SIZE, "MAX_RNDV_REQS", "RNDV_FRAGMENT_SIZE", "RENDEZVOUS", FOSTER_PROGRESS];

/// Gives the machine what these variables say.
///
/// # Errors
/// Names the variable, and what it may be.
pub(super) fn apply(variables: impl Iterator<Item = (String, String)>, machine: &mut Machine) -> Result<(), StudyError> {
    let longest = machine.message.max_portals_message.get();
    let pscom = &mut machine.message.pscom;
    let mut set: Vec<(String, String)> = variables.filter(|(name, _)| name.starts_with(PREFIX)).collect();
    set.sort();
    for (name, text) in &set {
        let short = &name[PREFIX.len()..];
        if !NAMES.contains(&short) {
            return Err(StudyError::Host(format!("{name} is no variable of pscom4portals: it has {PREFIX} with {}", NAMES.join(", "))));
        }
        let count = |most: u32| number(name, text, 1, u64::from(most)).map(|value| value as u32);
        match short {
            "BUFFER_SIZE" => pscom.buffer = Bytes(number(name, text, 1, longest)?),
            "RECVQ_SIZE" => pscom.receive_buffers = count(PscomConfig::QUEUE_MAX)?,
            "SENDQ_SIZE" => pscom.send_buffers = count(PscomConfig::QUEUE_MAX)?,
            "MAX_RNDV_REQS" => pscom.rendezvous_requests = count(u32::MAX)?,
            "RNDV_FRAGMENT_SIZE" if text == "inf" => pscom.fragment = machine.message.max_portals_message,
            "RNDV_FRAGMENT_SIZE" => pscom.fragment = Bytes(number(name, text, 1, u64::from(u32::MAX))?),
            "RENDEZVOUS" => pscom.rendezvous = Bytes(number(name, text, 1, longest.min(PscomConfig::EAGER_MAX + 1))?),
            EQ_SIZE => drop(number(name, text, 1, u64::from(u32::MAX))?),
            _ => drop(number(name, text, 0, u64::from(u32::MAX))?),
        }
    }
    if pscom.send_buffers > pscom.receive_buffers {
        return Err(StudyError::contradiction(format!(
            "{PREFIX}SENDQ_SIZE is {}, more than {PREFIX}RECVQ_SIZE, {}: a queue full of pieces that came before their turn would drop \
             the one that they wait for, for ever",
            pscom.send_buffers, pscom.receive_buffers
        )));
    }
    Ok(())
}

fn number(name: &str, text: &str, least: u64, most: u64) -> Result<u64, StudyError> {
    text.parse()
        .ok()
        .filter(|value| (least..=most).contains(value))
        .ok_or_else(|| StudyError::expected(format!("{name}={text}"), format!("a number from {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_machine::Overrides;

    fn applied(variables: &[(&str, &str)]) -> Result<Machine, StudyError> {
        let overrides = Overrides { nodes: None, set: vec![String::from("message.protocol=pscom")] };
        let mut machine = Machine::load("bxi-v2", &overrides).unwrap();
        apply(variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())), &mut machine).map(|()| machine)
    }

    #[test]
    fn variables_say_more_than_the_machine() {
        let before = applied(&[("HOME", "/")]).unwrap().message.pscom;
        assert_eq!((before.buffer, before.rendezvous, before.rendezvous_requests), (Bytes(8192), Bytes(40_000), 4096));
        let machine = applied(&[
            ("PSP_PORTALS_BUFFER_SIZE", "4096"),
            ("PSP_PORTALS_RECVQ_SIZE", "8"),
            ("PSP_PORTALS_SENDQ_SIZE", "4"),
            ("PSP_PORTALS_EQ_SIZE", "1024"),
            ("PSP_PORTALS_MAX_RNDV_REQS", "2"),
            ("PSP_PORTALS_RNDV_FRAGMENT_SIZE", "65536"),
            ("PSP_PORTALS_RENDEZVOUS", "10000"),
            ("PSP_PORTALS_FOSTER_PROGRESS", "1"),
        ]);
        let after = machine.unwrap().message.pscom;
        assert_eq!((after.buffer, after.receive_buffers, after.send_buffers), (Bytes(4096), 8, 4));
        assert_eq!((after.rendezvous_requests, after.fragment, after.rendezvous), (2, Bytes(65_536), Bytes(10_000)));
        assert_eq!(applied(&[("PSP_PORTALS_RNDV_FRAGMENT_SIZE", "inf")]).unwrap().message.pscom.fragment, Bytes(64 << 20));
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        for (name, value, said) in [
            ("PSP_PORTALS_BUFFER_SIZE", "0", "PSP_PORTALS_BUFFER_SIZE=0: expected a number from 1 to 67108864"),
            ("PSP_PORTALS_RECVQ_SIZE", "many", "PSP_PORTALS_RECVQ_SIZE=many: expected a number from 1 to 1024"),
            ("PSP_PORTALS_SENDQ_SIZE", "17", "PSP_PORTALS_SENDQ_SIZE is 17, more than PSP_PORTALS_RECVQ_SIZE, 16"),
            ("PSP_PORTALS_EQ_SIZE", "0", "PSP_PORTALS_EQ_SIZE=0"),
            ("PSP_PORTALS_RENDEZVOUS", "2000000", "expected a number from 1 to 1048576"),
            ("PSP_PORTALS_FOSTER_PROGRESS", "yes", "PSP_PORTALS_FOSTER_PROGRESS=yes"),
            ("PSP_PORTALS_SENDRQ_SIZE", "16", "PSP_PORTALS_SENDRQ_SIZE is no variable of pscom4portals"),
        ] {
            let error = applied(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
