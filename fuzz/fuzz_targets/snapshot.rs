//! A snapshot part: the input is a payload, which is put into a frame with the right checksum, as
//! random bytes would never get past it.
#![no_main]

use engine::entry::SnapshotCodec;
use libfuzzer_sys::fuzz_target;
use wire::snapshot::SnapshotFormat;

fn again(bytes: &[u8]) -> Option<Vec<u8>> {
    let (part, len) = SnapshotFormat.decode(bytes).ok()?;
    assert_eq!(len, bytes.len());
    let mut out = Vec::new();
    SnapshotFormat.encode(&part, &mut out);
    Some(out)
}

fuzz_target!(|data: &[u8]| {
    let mut frame = (data.len() as u64).to_le_bytes().to_vec();
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame);
    hasher.update(data);
    frame.extend_from_slice(&hasher.finalize().to_le_bytes());
    frame.extend_from_slice(data);
    if let Some(written) = again(&frame) {
        assert_eq!(again(&written), Some(written));
    }
    let _ = SnapshotFormat.decode(data);
});
