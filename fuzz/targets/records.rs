//! Any bytes as records of the channel: decoding refuses them by name or gives a record that is encoded back to the
//! same meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_channel::record::{
    Delivery, Request, Writer, decode_delivery, decode_request, encode_call, encode_command, encode_ended, encode_fact, encode_notice,
    encode_push, encode_socket, encode_write,
};

fuzz_target!(|bytes: &[u8]| {
    let mut area = vec![0; bytes.len() + 4096];
    let mut rest = bytes;
    while let Ok((time, request, length)) = decode_request(rest) {
        assert!(length > 0 && length <= rest.len(), "a record takes room");
        let mut writer = Writer::new(&mut area, 0);
        match &request {
            Request::Command(command) => encode_command(&mut writer, time, command),
            Request::Call { eq, words, payload } => encode_call(&mut writer, time, *eq, words, payload.as_deref()),
            Request::Ended(ended) => encode_ended(&mut writer, time, ended),
            Request::Socket { ticket, words } => encode_socket(&mut writer, time, *ticket, words),
            Request::Fact(words) => encode_fact(&mut writer, time, words),
        }
        .expect("it fitted before");
        let used = writer.used();
        assert_eq!(decode_request(&area[..used]), Ok((time, request, used)));
        rest = &rest[length..];
    }
    let mut rest = bytes;
    while let Ok((time, delivery, length)) = decode_delivery(rest) {
        assert!(length > 0 && length <= rest.len(), "a record takes room");
        let mut writer = Writer::new(&mut area, 0);
        match delivery {
            Delivery::Notice(notice) => encode_notice(&mut writer, time, &notice),
            Delivery::Write { address, bytes } => encode_write(&mut writer, time, address, bytes),
            Delivery::Push(push) => encode_push(&mut writer, time, &push),
        }
        .expect("it fitted before");
        let used = writer.used();
        assert_eq!(decode_delivery(&area[..used]), Ok((time, delivery, used)));
        rest = &rest[length..];
    }
});
