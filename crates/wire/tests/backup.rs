//! Backup files: bytes of version 1 keep their meaning, and damaged frames are refused.

mod hex;

use engine::ids::ShardId;
use hex::unhex;
use wire::backup::{
    About, BEGINNING_BYTES, FRAME_BYTES_MAX, Frame, VERSION, beginning, decode, encode, frame_len,
    version_of,
};

/// Frames in `fixtures/backup-v1.hex` between the first bytes and the end mark.
fn frames() -> Vec<Frame> {
    let map = "epoch 0\nfounders 1\nmachine 1 10.0.0.1:7001\nmap 1\nshard 0 1\nshard 1 1\n";
    let about = About {
        taken_ms: 1_700_000_000_123,
        held_us: 2_500,
        cluster: "shop".to_owned(),
        map: map.to_owned(),
        written_by: "0.1.0".to_owned(),
        shards: 2,
    };
    vec![
        Frame::About(about),
        Frame::Piece { shard: ShardId(0), bytes: b"parts".to_vec() },
        Frame::Piece { shard: ShardId(1), bytes: Vec::new() },
    ]
}

fn encoded(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(frame, &mut bytes);
    bytes
}

#[test]
fn files_of_version_1_are_understood() {
    let bytes = unhex(include_str!("fixtures/backup-v1.hex"));
    let (first, mut rest) = bytes.split_at(BEGINNING_BYTES);
    assert_eq!(first, beginning());
    assert_eq!(version_of(&beginning()), Some(VERSION));
    let mut found = Vec::new();
    let mut written = first.to_vec();
    while !rest.is_empty() {
        let (frame, after) = rest.split_at(frame_len(rest).unwrap() as usize);
        found.push(decode(frame).unwrap());
        assert_eq!(encoded(&found[found.len() - 1]), frame, "that takes a new version");
        if after.is_empty() {
            let checksum = crc32fast::hash(&written);
            assert_eq!(found.pop(), Some(Frame::End { frames: 3, checksum }));
        }
        written.extend_from_slice(frame);
        rest = after;
    }
    assert_eq!(found, frames());
}

#[test]
fn a_frame_that_is_cut_off_or_changed_anywhere_is_refused() {
    for frame in frames() {
        let whole = encoded(&frame);
        for len in 0..whole.len() {
            assert!(decode(&whole[..len]).is_err());
        }
        for bit in 0..8 * whole.len() {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&changed).is_err(), "bit {bit}");
        }
        assert!(decode(&[&whole[..], &[0]].concat()).is_err());
    }
}

#[test]
fn a_length_that_cannot_be_right_is_not_believed() {
    assert_eq!(frame_len(&(FRAME_BYTES_MAX - 12).to_le_bytes()), Some(FRAME_BYTES_MAX));
    assert_eq!(frame_len(&(FRAME_BYTES_MAX - 11).to_le_bytes()), None);
    assert_eq!(frame_len(&u64::MAX.to_le_bytes()), None);
    assert_eq!(frame_len(&[0; 7]), None);
    assert_eq!(version_of(b"CLARETBk\x01\0\0\0"), None);
    assert_eq!(version_of(b"CLARETBK\x02\0\0\0"), Some(2));
}
