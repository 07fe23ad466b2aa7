//! Runs the tests in C (`tests/c`): the provider through libfabric's own functions, on the
//! NIC inside the process that libportals has for tests.

use std::ffi::{CStr, c_char};
use std::mem::size_of;
use std::process::Command;

use portals::loopback;

use crate::{endpoint, fi, layer, queues, rma};

#[link(name = "narrows_fi_tests", kind = "static")]
#[link(name = "fabric")]
unsafe extern "C" {
    static nw_test_numbers: u64;
    static nw_test_number_count: usize;
}

/// In the environment of a process of tests: one-sided operations go as messages.
const AS_MESSAGES: &str = "NARROWS_TEST_ONE_SIDED_MESSAGES";

fn limits() -> loopback::Limits {
    loopback::Limits { one_sided_messages: std::env::var_os(AS_MESSAGES).is_some(), ..loopback::DEFAULT_LIMITS }
}

/// All tests once more, in a process whose NIC is behind a gateway.
#[test]
fn one_sided_operations_as_messages() {
    if std::env::var_os(AS_MESSAGES).is_some() {
        return;
    }
    let tests = std::env::current_exe().expect("the test has a file");
    let done = Command::new(tests).env(AS_MESSAGES, "1").output().expect("the tests run once more");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

macro_rules! tests_in_c {
    ($($name:ident = $function:ident),* $(,)?) => {
        unsafe extern "C" {
            $(fn $function() -> *const c_char;)*
        }
        $(
            #[test]
            fn $name() {
                loopback::install(limits());
                // SAFETY: the function returns null or a string constant.
                let problem = unsafe { $function().as_ref().map(|text| CStr::from_ptr(text)) };
                assert_eq!(problem, None);
            }
        )*
    };
}

tests_in_c! {
    info = nw_test_info,
    tagged_messages_that_are_expected = nw_test_tagged_expected,
    tagged_messages_that_are_not = nw_test_tagged_unexpected,
    all_variants_of_the_calls = nw_test_variants,
    truncation = nw_test_truncation,
    peek_and_claim = nw_test_peek_and_claim,
    cancel = nw_test_cancel,
    multi_receive = nw_test_multi_receive,
    selective_completion = nw_test_selective_completion,
    formats_of_completion_queues = nw_test_formats,
    counters = nw_test_counters,
    addresses = nw_test_addresses,
    two_endpoints = nw_test_two_endpoints,
    tables_and_order_of_closing = nw_test_tables_and_order_of_closing,
    binding_rules = nw_test_binding_rules,
    many_unexpected_messages = nw_test_many_unexpected,
    reads_and_writes = nw_test_reads_and_writes,
    atomics = nw_test_atomics,
    memory_regions = nw_test_memory_regions,
    failures_of_one_sided_operations = nw_test_one_sided_failures,
    counters_of_one_sided_operations = nw_test_one_sided_counters,
    fences = nw_test_fences,
    two_endpoints_of_a_domain = nw_test_two_endpoints_of_a_domain,
}

#[test]
fn numbers_and_sizes_agree_with_c() {
    // SAFETY: an array and its length, both constant.
    let numbers = unsafe { std::slice::from_raw_parts(&raw const nw_test_numbers, nw_test_number_count) };
    let flags = [
        fi::MSG,
        fi::RMA,
        fi::TAGGED,
        fi::ATOMIC,
        fi::READ,
        fi::WRITE,
        fi::RECV,
        fi::SEND,
        fi::REMOTE_READ,
        fi::REMOTE_WRITE,
        fi::FENCE,
        fi::MULTI_RECV,
        fi::REMOTE_CQ_DATA,
        fi::PEEK,
        fi::COMPLETION,
        fi::INJECT,
        fi::TRANSMIT_COMPLETE,
        fi::DELIVERY_COMPLETE,
        fi::DISCARD,
        fi::CLAIM,
        fi::DIRECTED_RECV,
        fi::ADDR_UNSPEC,
        fi::ADDR_NOTAVAIL,
    ];
    let errors = [
        fi::ENOENT,
        fi::EIO,
        fi::EAGAIN,
        fi::EACCES,
        fi::EFAULT,
        fi::EBUSY,
        fi::EINVAL,
        fi::ENOSPC,
        fi::ENOMSG,
        fi::ENODATA,
        fi::EMSGSIZE,
        fi::EOPNOTSUPP,
        fi::ETIMEDOUT,
        fi::EKEYREJECTED,
        fi::ECANCELED,
        fi::EOTHER,
        fi::EAVAIL,
        fi::EOPBADSTATE,
        fi::ETRUNC,
        fi::ENOKEY,
    ];
    let sizes = [
        size_of::<queues::Entry>(),
        size_of::<endpoint::Operation>(),
        size_of::<rma::Operation>(),
        size_of::<layer::Limits>(),
        size_of::<layer::EndpointAttr>(),
        size_of::<layer::Layer>(),
    ];
    let ours: Vec<u64> = flags.into_iter().chain(errors.map(|error| error as u64)).chain(sizes.map(|size| size as u64)).collect();
    assert_eq!(numbers, ours);
}
