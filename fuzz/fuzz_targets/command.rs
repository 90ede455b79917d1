//! Words of a command, one per line: no parser panics, and an operation that was understood reads
//! back from the words that the log would hold.
#![no_main]

use adt::{ArgBuf, Command, Ctx, Handler, record};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let words = ArgBuf::of(data.split(|b| *b == b'\n'));
    let args = words.args();
    let Some(spec) = record::command(args.get(0).unwrap_or_default()) else { return };
    if spec.check_arity(args.len()).is_err() {
        return;
    }
    let positions = spec.keys.positions(&args);
    let Handler::Data(parse) = spec.handler else { return };
    let Ok(command) = parse(&args) else { return };
    for position in positions.into_iter().flatten() {
        assert!(args.get(position).is_some(), "a key beyond the words");
    }
    let ops = match command {
        Command::Single(key, op) => vec![(key, op)],
        Command::Multi { ops, .. } => ops,
        _ => return,
    };
    for (key, op) in ops {
        let mut encoded = ArgBuf::new();
        op.encode(&key, &mut encoded);
        let read_back = record::decode(&encoded.args()).expect("the log is readable");
        assert_eq!(read_back, (key, op.clone()));
        let ctx = Ctx::default();
        if op.is_write() {
            record::apply(&mut None, &op, &ctx);
        } else {
            record::query(None, &op, &ctx);
        }
    }
});
