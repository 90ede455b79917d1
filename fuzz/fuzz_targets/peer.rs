//! A message between machines: the input is a payload, which is put into a frame with the right
//! checksum, as random bytes would never get past it. What was understood is written in a form
//! that stays the same from then on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::peer::{PeerFormat, decode_hello, encode_hello};

fn again(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut format = PeerFormat::default();
    let (parcel, len) = format.decode(bytes).ok()?.expect("the frame is whole");
    assert_eq!(len, bytes.len());
    let mut out = Vec::new();
    format.encode(&parcel, &mut out).expect("what was read is not too long");
    Some(out)
}

fn hello_again(bytes: &[u8]) -> Option<Vec<u8>> {
    let (hello, len) = decode_hello(bytes).ok()?.expect("the frame is whole");
    assert_eq!(len, bytes.len());
    let mut out = Vec::new();
    encode_hello(&hello, &mut out);
    Some(out)
}

fuzz_target!(|data: &[u8]| {
    let mut frame = (data.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&crc32fast::hash(data).to_le_bytes());
    frame.extend_from_slice(data);
    if let Some(written) = again(&frame) {
        assert_eq!(again(&written), Some(written));
    }
    if let Some(written) = hello_again(&frame) {
        assert_eq!(written, frame);
    }
    let _ = PeerFormat::default().decode(data);
    let _ = decode_hello(data);
});
