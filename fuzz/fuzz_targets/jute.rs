//! ZooKeeper's protocol, as a server and as a client read it: decoding never panics, and what was
//! understood is written in a form that stays the same from then on.
//!
//! The first four bytes of a reply say what was asked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::jute::{
    Ask, ConnectRequest, ConnectResponse, FRAME_BYTES_MAX, Op, ReplyHeader, Request, next_frame,
    read_event, read_identities, read_reply,
};

fn again(frame: &[u8]) -> Option<Vec<u8>> {
    let request = Request::decode(frame).ok()?;
    if matches!(request.what, Ask::Unimplemented(_)) {
        return None;
    }
    let mut out = Vec::new();
    request.encode(&mut out).expect("what was read can be said");
    Some(out)
}

fuzz_target!(|data: &[u8]| {
    if let Some(written) = again(data) {
        let (frame, len) = next_frame(&written, usize::MAX).unwrap().expect("the frame is whole");
        assert_eq!(len, written.len());
        assert_eq!(again(frame), Some(written.clone()));
    }
    if let Some((op, body)) = data.split_first_chunk()
        && let Some(op) = Op::of(i32::from_be_bytes(*op))
    {
        let _ = read_reply(op, body);
    }
    let _ = next_frame(data, FRAME_BYTES_MAX);
    let _ = ConnectRequest::decode(data);
    let _ = ConnectResponse::decode(data);
    let _ = ReplyHeader::decode(data);
    let _ = read_event(data);
    let _ = read_identities(data);
});
