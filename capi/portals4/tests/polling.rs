//! What counts as an empty poll. Alone in its process, since the NIC counts for all.
// Every one is a call of the C API with places that are there.
#![allow(clippy::undocumented_unsafe_blocks)]

use std::ptr::{null, null_mut};

use portals::abi::{self, CtEvent};
use portals::{events::*, interfaces::*, loopback};

#[test]
fn asking_for_the_same_value_again_is_a_poll() {
    loopback::install(loopback::DEFAULT_LIMITS);
    let (mut ni, mut ct) = (0, 0);
    unsafe {
        assert_eq!(PtlInit(), abi::OK);
        let options = abi::NI_MATCHING | abi::NI_PHYSICAL;
        assert_eq!(PtlNIInit(0, options, abi::PID_ANY, null(), null_mut(), &mut ni), abi::OK);
        assert_eq!(PtlCTAlloc(ni, &mut ct), abi::OK);
    }
    let mut count = CtEvent::default();
    let mut polls = |expected: u64| {
        let before = loopback::charged().empty_polls;
        assert_eq!(unsafe { PtlCTGet(ct, &mut count) }, abi::OK);
        assert_eq!(count.success, expected);
        loopback::charged().empty_polls - before
    };
    assert_eq!(polls(0), 0, "the first look");
    assert_eq!(polls(0), 1, "nothing has changed");
    assert_eq!(polls(0), 1);
    assert_eq!(PtlCTInc(ct, CtEvent { success: 3, failure: 0 }), abi::OK);
    assert_eq!(polls(3), 0, "a new value");
    assert_eq!(polls(3), 1);
}
