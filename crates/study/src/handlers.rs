//! What handlers on NICs have done, for people and for scripts.

use narrows_nic::{HandlerReport, SpinTotals};
use narrows_units::show;
use serde_json::{Value, json};

/// Lines for people; `rules` are those of the machine.
pub(crate) fn lines(report: &HandlerReport, rules: &[String]) -> Vec<String> {
    let SpinTotals { messages, bypassed, unexpected, unfit, packets, bytes, handlers, cycles, sent, .. } = report.totals;
    let SpinTotals { written, beyond, waited, waiting, failures, .. } = report.totals;
    let mut lines = vec![format!(
        "handlers: {messages} messages, {packets} packets, {}; {handlers} handlers took {:.1} cycles each",
        show::size(bytes),
        cycles as f64 / (handlers as f64).max(1.0)
    )];
    if sent > 0 || written > 0 {
        lines.push(format!("handlers sent {sent} packets and wrote {} to hosts", show::size(written)));
    }
    if beyond > 0 {
        lines.push(format!(
            "handlers wrote {} beyond the end of their messages: lost; expected places below its length",
            show::size(beyond)
        ));
    }
    if bypassed > 0 {
        lines.push(format!(
            "{bypassed} messages found no free queue and went to hosts without handlers; nic.spin.queues says how many there are"
        ));
    }
    if unexpected > 0 {
        lines.push(format!(
            "{unexpected} messages came before their receive and went to hosts without handlers: only a posted receive has a \
             communicator and a datatype"
        ));
    }
    if unfit > 0 {
        lines.push(format!(
            "hosts unpacked {unfit} messages whose datatype did not fit; expected blocks in up to 1 MiB, 254 types a rank, 64 MiB a \
             message, and room in nic.spin.l2_handlers"
        ));
    }
    if waited > 0 {
        lines.push(format!("{waited} packets waited in buffers of ports, {waiting} together: the machines had no room"));
    }
    if let Some((at, failure)) = &report.failure {
        lines.push(format!("{failures} handlers went wrong, and hosts got the rest of their messages; the first, at {at}: {failure}"));
    }
    for (rule, _) in rules.iter().zip(&report.messages).filter(|(_, messages)| **messages == 0) {
        lines.push(format!(
            "rule \"{rule}\" fits no message; expected a size of 1 and more, tag, bits and pt of puts, comm and datatype of posted \
             receives; longer messages of MPI libraries are gets: raise message.eager_limit"
        ));
    }
    lines
}

/// All numbers.
pub(crate) fn summary(report: &HandlerReport, rules: &[String]) -> Value {
    let SpinTotals { messages, bypassed, unexpected, unfit, packets, bytes, handlers, cycles, passed, sent, .. } = report.totals;
    let SpinTotals { written, beyond, waited, waiting, failures, .. } = report.totals;
    let by_rule = rules.iter().zip(&report.messages).map(|(rule, messages)| json!({ "rule": rule, "messages": messages }));
    json!({
        "messages": messages,
        "bypassed": bypassed,
        "unexpected": unexpected,
        "unfit": unfit,
        "packets": packets,
        "bytes": bytes,
        "handlers": handlers,
        "cycles": cycles,
        "passed": passed,
        "sent": sent,
        "came_back": report.came_back,
        "written_bytes": written,
        "beyond_bytes": beyond,
        "waited": waited,
        "waiting_s": waiting.as_s_f64(),
        "failures": failures,
        "failure": report.failure.as_ref().map(|(_, failure)| failure),
        "rules": by_rule.collect::<Vec<_>>(),
    })
}
