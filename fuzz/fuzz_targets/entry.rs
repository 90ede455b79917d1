//! A log entry: decoding never panics, and what was understood is written in a form that stays the
//! same from then on.
#![no_main]

use engine::entry::EntryCodec;
use engine::cluster::level::Level;
use libfuzzer_sys::fuzz_target;
use wire::entry::EntryFormat;

fn again(bytes: &[u8]) -> Option<Vec<u8>> {
    let entry = EntryFormat.decode(bytes).ok()?;
    let mut out = Vec::new();
    EntryFormat.encode(&entry, Level::NEWEST, &mut out);
    Some(out)
}

fuzz_target!(|data: &[u8]| {
    if let Some(written) = again(data) {
        assert_eq!(again(&written), Some(written));
    }
});
