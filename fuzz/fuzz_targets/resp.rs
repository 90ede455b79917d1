//! Bytes that arrive in pieces: requests and replies read the same as in one piece, and commands
//! that were understood can be written and understood again.
//!
//! The first byte says how long the pieces are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::resp::{
    ClientReply, Limits, ProtocolError, ReplyDecoder, ReplyError, ReplyLimits, RequestDecoder,
    encode_command,
};

type Words = Vec<Vec<u8>>;

const LIMITS: Limits = Limits {
    bulk_max_bytes: 1 << 10,
    words_max: 64,
    frame_max_bytes: 2 << 10,
    inline_max_bytes: 256,
    skipped_max_bytes: 4 << 10,
    authenticated: true,
};

const REPLY_LIMITS: ReplyLimits = ReplyLimits {
    bulk_max_bytes: 1 << 10,
    items_max: 64,
    frame_max_bytes: 2 << 10,
    line_max_bytes: 256,
    depth_max: 8,
};

fn requests(bytes: &[u8], piece: usize) -> (Vec<Words>, Vec<ProtocolError>) {
    let mut errors = Vec::new();
    let mut decoder = RequestDecoder::new();
    let mut commands = Vec::new();
    let (mut at, mut end) = (0, 0);
    while end < bytes.len() {
        end = (end + piece).min(bytes.len());
        loop {
            let skipped = decoder.is_skipping();
            match decoder.next(&bytes[at..end], &LIMITS) {
                Ok(None) => break,
                Ok(Some(parsed)) => {
                    assert!(parsed.consumed > 0 && at + parsed.consumed <= end);
                    if let Some(args) = decoder.args(&bytes[at..end]) {
                        commands.push(args.iter_from(0).map(<[u8]>::to_vec).collect());
                    }
                    at += parsed.consumed;
                }
                Err(error) => {
                    errors.push(error);
                    if skipped || !decoder.is_skipping() {
                        return (commands, errors);
                    }
                }
            }
        }
    }
    (commands, errors)
}

fn replies(bytes: &[u8], piece: usize) -> (Vec<ClientReply>, Option<ReplyError>) {
    let mut decoder = ReplyDecoder::new();
    let mut found = Vec::new();
    let (mut at, mut end) = (0, 0);
    while end < bytes.len() {
        end = (end + piece).min(bytes.len());
        loop {
            match decoder.next(&bytes[at..end], &REPLY_LIMITS) {
                Ok(None) => break,
                Ok(Some((reply, len))) => {
                    assert!(len > 0 && at + len <= end);
                    found.push(reply);
                    at += len;
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

fuzz_target!(|data: &[u8]| {
    let Some((piece, bytes)) = data.split_first() else { return };
    let piece = usize::from(*piece).max(1);
    let whole = requests(bytes, bytes.len().max(1));
    assert_eq!(requests(bytes, piece), whole);
    let mut written = Vec::new();
    for command in &whole.0 {
        encode_command(command, &mut written);
        assert_eq!(requests(&written, written.len()).0.as_slice(), std::slice::from_ref(command));
        written.clear();
    }
    let whole = replies(bytes, bytes.len().max(1));
    // Debug output rather than equality: NaN is no error.
    assert_eq!(format!("{:?}", replies(bytes, piece)), format!("{whole:?}"));
});
