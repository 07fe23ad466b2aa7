//! `portals4.h` and `narrows_private.h` against the Rust types and numbers: the C compiler checks
//! sizes, offsets and values.

use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::{offset_of, size_of};
use std::process::{Command, Stdio};

use narrows_portals::{EventKind, FailType, md, me, pt};
use portals::abi;

macro_rules! layout {
    ($text:ident, $rust:ty, $c:literal, $($field:ident $(= $cname:literal)?),*) => {
        writeln!($text, "_Static_assert(sizeof({}) == {}, \"size of {}\");", $c, size_of::<$rust>(), $c).unwrap();
        $(
            #[allow(unused_mut, unused_assignments)]
            let mut name = stringify!($field);
            $(name = $cname;)?
            writeln!($text, "_Static_assert(offsetof({}, {name}) == {}, \"{}.{name}\");", $c, offset_of!($rust, $field), $c).unwrap();
        )*
    };
}

macro_rules! values {
    ($text:ident, $($c:literal = $value:expr),* $(,)?) => {
        $(writeln!($text, "_Static_assert((unsigned long long)({}) == {}ULL, \"{}\");", $c, $value as u64, $c).unwrap();)*
    };
}

#[test]
fn headers_and_rust_agree() {
    let mut text = String::from("#include \"portals4.h\"\n#include \"narrows_private.h\"\n#include <stddef.h>\n");
    layout!(text, abi::Handle, "ptl_handle_any_t",);
    layout!(text, abi::Process, "ptl_process_t",);
    layout!(
        text,
        abi::NiLimits,
        "ptl_ni_limits_t",
        max_entries,
        max_unexpected_headers,
        max_mds,
        max_cts,
        max_eqs,
        max_pt_index,
        max_iovecs,
        max_list_size,
        max_triggered_ops,
        max_msg_size,
        max_atomic_size,
        max_fetch_atomic_size,
        max_waw_ordered_size,
        max_war_ordered_size,
        max_volatile_size,
        features
    );
    layout!(text, abi::MemoryDescriptor, "ptl_md_t", start, length, options, eq_handle, ct_handle);
    for field in [("start", offset_of!(abi::ListEntry, start)), ("options", offset_of!(abi::ListEntry, options))] {
        writeln!(text, "_Static_assert(offsetof(ptl_le_t, {}) == {}, \"ptl_le_t.{}\");", field.0, field.1, field.0).unwrap();
    }
    layout!(text, abi::Iovec, "ptl_iovec_t", iov_base, iov_len);
    layout!(text, abi::MatchListEntry, "ptl_me_t", start, length, ct_handle, uid, options, match_id, match_bits, ignore_bits, min_free);
    layout!(text, abi::CtEvent, "ptl_ct_event_t", success, failure);
    layout!(
        text,
        abi::FullEvent,
        "ptl_event_t",
        start,
        user_ptr,
        hdr_data,
        match_bits,
        rlength,
        mlength,
        remote_offset,
        initiator,
        uid,
        pt_index,
        kind = "type",
        ptl_list,
        ni_fail_type,
        atomic_operation,
        atomic_type
    );
    layout!(
        text,
        abi::PrivateSettings,
        "struct narrows_settings",
        eager_limit,
        inject_limit,
        overflow_block,
        max_portals_message,
        overflow_blocks,
        rendezvous_put,
        one_sided_messages
    );
    values!(
        text,
        "PTL_SIZE_MAX" = abi::SIZE_MAX,
        "PTL_PT_ANY" = abi::PT_ANY,
        "PTL_RANK_ANY" = abi::RANK_ANY,
        "PTL_UID_ANY" = abi::UID_ANY,
        "PTL_PID_ANY" = abi::PID_ANY,
        "PTL_NID_ANY" = narrows_portals::NID_ANY,
        "PTL_TIME_FOREVER" = abi::TIME_FOREVER,
        "(uintptr_t)PTL_EQ_NONE" = abi::HANDLE_NONE,
        "(uintptr_t)PTL_CT_NONE" = abi::HANDLE_NONE,
        "PTL_OK" = abi::OK,
        "PTL_ARG_INVALID" = abi::ARG_INVALID,
        "PTL_CT_NONE_REACHED" = abi::CT_NONE_REACHED,
        "PTL_EQ_EMPTY" = abi::EQ_EMPTY,
        "PTL_EQ_DROPPED" = abi::EQ_DROPPED,
        "PTL_ABORTED" = abi::ABORTED,
        "PTL_TARGET_BIND_INACCESSIBLE" = abi::TARGET_BIND_INACCESSIBLE,
        "PTL_COHERENT_ATOMICS" = abi::COHERENT_ATOMICS,
        "PTL_SR_DROP_COUNT" = abi::SR_DROP_COUNT,
        "PTL_SR_PERMISSION_VIOLATIONS" = abi::SR_PERMISSION_VIOLATIONS,
        "PTL_SR_OPERATION_VIOLATIONS" = abi::SR_OPERATION_VIOLATIONS,
        "PTL_EV_STR_SIZE" = portals::text::EVENT_TEXT,
        "PTL_IOVEC" = md::IOVEC,
        "PTL_IOVEC" = me::IOVEC,
        "PTL_FAIL" = abi::FAIL,
        "PTL_IGNORED" = abi::IGNORED,
        "PTL_IN_USE" = abi::IN_USE,
        "PTL_NO_INIT" = abi::NO_INIT,
        "PTL_LIST_TOO_LONG" = abi::LIST_TOO_LONG,
        "PTL_NO_SPACE" = abi::NO_SPACE,
        "PTL_PID_IN_USE" = abi::PID_IN_USE,
        "PTL_PT_FULL" = abi::PT_FULL,
        "PTL_PT_EQ_NEEDED" = abi::PT_EQ_NEEDED,
        "PTL_PT_IN_USE" = abi::PT_IN_USE,
        "PTL_NI_MATCHING" = abi::NI_MATCHING,
        "PTL_NI_NO_MATCHING" = abi::NI_NO_MATCHING,
        "PTL_NI_LOGICAL" = abi::NI_LOGICAL,
        "PTL_NI_PHYSICAL" = abi::NI_PHYSICAL,
        "PTL_PRIORITY_LIST" = abi::PRIORITY_LIST,
        "PTL_OVERFLOW_LIST" = abi::OVERFLOW_LIST,
        "PTL_SEARCH_ONLY" = abi::SEARCH_ONLY,
        "PTL_SEARCH_DELETE" = abi::SEARCH_DELETE,
        "PTL_NO_ACK_REQ" = abi::NO_ACK_REQ,
        "PTL_ACK_REQ" = abi::ACK_REQ,
        "PTL_CT_ACK_REQ" = abi::CT_ACK_REQ,
        "PTL_OC_ACK_REQ" = abi::OC_ACK_REQ,
        "PTL_PT_ONLY_USE_ONCE" = pt::ONLY_USE_ONCE,
        "PTL_PT_FLOWCTRL" = pt::FLOWCTRL,
        "PTL_PT_ONLY_TRUNCATE" = pt::ONLY_TRUNCATE,
        "PTL_PT_ALLOC_DISABLED" = pt::ALLOC_DISABLED,
        "NARROWS_PT_RETRY" = pt::RETRY,
        "PTL_MD_EVENT_SUCCESS_DISABLE" = md::EVENT_SUCCESS_DISABLE,
        "PTL_MD_EVENT_SEND_DISABLE" = md::EVENT_SEND_DISABLE,
        "PTL_MD_EVENT_CT_SEND" = md::EVENT_CT_SEND,
        "PTL_MD_EVENT_CT_REPLY" = md::EVENT_CT_REPLY,
        "PTL_MD_EVENT_CT_ACK" = md::EVENT_CT_ACK,
        "PTL_MD_EVENT_CT_BYTES" = md::EVENT_CT_BYTES,
        "PTL_MD_UNORDERED" = md::UNORDERED,
        "PTL_MD_VOLATILE" = md::VOLATILE,
        "PTL_MD_UNRELIABLE" = md::UNRELIABLE,
        "PTL_ME_OP_PUT" = me::OP_PUT,
        "PTL_ME_OP_GET" = me::OP_GET,
        "PTL_ME_USE_ONCE" = me::USE_ONCE,
        "PTL_ME_ACK_DISABLE" = me::ACK_DISABLE,
        "PTL_ME_UNEXPECTED_HDR_DISABLE" = me::UNEXPECTED_HDR_DISABLE,
        "PTL_ME_EVENT_COMM_DISABLE" = me::EVENT_COMM_DISABLE,
        "PTL_ME_EVENT_FLOWCTRL_DISABLE" = me::EVENT_FLOWCTRL_DISABLE,
        "PTL_ME_EVENT_SUCCESS_DISABLE" = me::EVENT_SUCCESS_DISABLE,
        "PTL_ME_EVENT_OVER_DISABLE" = me::EVENT_OVER_DISABLE,
        "PTL_ME_EVENT_LINK_DISABLE" = me::EVENT_LINK_DISABLE,
        "PTL_ME_EVENT_UNLINK_DISABLE" = me::EVENT_UNLINK_DISABLE,
        "PTL_ME_EVENT_CT_COMM" = me::EVENT_CT_COMM,
        "PTL_ME_EVENT_CT_OVERFLOW" = me::EVENT_CT_OVERFLOW,
        "PTL_ME_EVENT_CT_BYTES" = me::EVENT_CT_BYTES,
        "PTL_ME_IS_ACCESSIBLE" = me::IS_ACCESSIBLE,
        "PTL_ME_MANAGE_LOCAL" = me::MANAGE_LOCAL,
        "PTL_ME_NO_TRUNCATE" = me::NO_TRUNCATE,
        "PTL_ME_MAY_ALIGN" = me::MAY_ALIGN,
        "PTL_ME_LOCAL_INC_UH_RLENGTH" = me::LOCAL_INC_UH_RLENGTH,
        "PTL_EVENT_GET" = EventKind::Get,
        "PTL_EVENT_PUT" = EventKind::Put,
        "PTL_EVENT_PUT_OVERFLOW" = EventKind::PutOverflow,
        "PTL_EVENT_FETCH_ATOMIC_OVERFLOW" = EventKind::FetchAtomicOverflow,
        "PTL_EVENT_REPLY" = EventKind::Reply,
        "PTL_EVENT_SEND" = EventKind::Send,
        "PTL_EVENT_ACK" = EventKind::Ack,
        "PTL_EVENT_PT_DISABLED" = EventKind::PtDisabled,
        "PTL_EVENT_AUTO_UNLINK" = EventKind::AutoUnlink,
        "PTL_EVENT_AUTO_FREE" = EventKind::AutoFree,
        "PTL_EVENT_SEARCH" = EventKind::Search,
        "PTL_EVENT_LINK" = EventKind::Link,
        "PTL_NI_OK" = FailType::Ok,
        "PTL_NI_UNDELIVERABLE" = FailType::Undeliverable,
        "PTL_NI_DROPPED" = FailType::Dropped,
        "PTL_NI_PT_DISABLED" = FailType::PtDisabled,
        "PTL_NI_PERM_VIOLATION" = FailType::PermViolation,
        "PTL_NI_OP_VIOLATION" = FailType::OpViolation,
        "PTL_NI_SEGV" = FailType::Segv,
        "PTL_NI_NO_MATCH" = FailType::NoMatch,
    );
    use narrows_portals::{AtomicOperation as Op, Datatype as Type};
    values!(
        text,
        "PTL_MIN" = Op::Min,
        "PTL_MAX" = Op::Max,
        "PTL_SUM" = Op::Sum,
        "PTL_PROD" = Op::Product,
        "PTL_LOR" = Op::LogicalOr,
        "PTL_LAND" = Op::LogicalAnd,
        "PTL_BOR" = Op::BitOr,
        "PTL_BAND" = Op::BitAnd,
        "PTL_LXOR" = Op::LogicalXor,
        "PTL_BXOR" = Op::BitXor,
        "PTL_SWAP" = Op::Swap,
        "PTL_CSWAP" = Op::CompareSwap,
        "PTL_CSWAP_NE" = Op::CompareSwapNotEqual,
        "PTL_CSWAP_LE" = Op::CompareSwapLessOrEqual,
        "PTL_CSWAP_LT" = Op::CompareSwapLess,
        "PTL_CSWAP_GE" = Op::CompareSwapGreaterOrEqual,
        "PTL_CSWAP_GT" = Op::CompareSwapGreater,
        "PTL_MSWAP" = Op::MaskedSwap,
        "PTL_INT8_T" = Type::Int8,
        "PTL_UINT8_T" = Type::Uint8,
        "PTL_INT16_T" = Type::Int16,
        "PTL_UINT16_T" = Type::Uint16,
        "PTL_INT32_T" = Type::Int32,
        "PTL_UINT32_T" = Type::Uint32,
        "PTL_FLOAT" = Type::Float,
        "PTL_INT64_T" = Type::Int64,
        "PTL_UINT64_T" = Type::Uint64,
        "PTL_DOUBLE" = Type::Double,
        "PTL_FLOAT_COMPLEX" = Type::FloatComplex,
        "PTL_DOUBLE_COMPLEX" = Type::DoubleComplex,
        "PTL_LONG_DOUBLE" = Type::LongDouble,
        "PTL_LONG_DOUBLE_COMPLEX" = Type::LongDoubleComplex,
    );

    let mut compiler = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", "-"])
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include"))
        .stdin(Stdio::piped())
        .spawn()
        .expect("a C compiler");
    compiler.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success(), "the C compiler disagrees");
}
