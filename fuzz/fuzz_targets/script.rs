//! The text of a script, whose commands get one reply: it runs to an end or to an error, and a script behind
//! it is not disturbed.
#![no_main]

use adt::{Blob, Reply};
use engine::limits::SCRIPT_CALLS_MAX;
use engine::script::{Interpreter, ScriptInput, ScriptInputs, ScriptStep, Use};
use libfuzzer_sys::fuzz_target;
use script::Luau;
use std::sync::Arc;

/// Reply of a text; none if it fails or runs on and on.
fn run(text: &[u8]) -> Option<Reply> {
    let script = Luau.read(&Blob::new(text)).ok()?;
    let inputs = ScriptInputs { keys: vec![Blob::from("k")], args: vec![Blob::from("1")] };
    let mut run = Luau.begin(&script, &Arc::new(inputs));
    let mut input = ScriptInput::Go;
    for _ in 0..SCRIPT_CALLS_MAX {
        input = match run.resume(input) {
            ScriptStep::Call(_, Use::Seen) => ScriptInput::Reply(Reply::Int(7)),
            ScriptStep::MayRun(_) => ScriptInput::MayRun(true),
            ScriptStep::Call(..) | ScriptStep::Pause | ScriptStep::Log(..) => ScriptInput::Go,
            ScriptStep::Done(reply) => return Some(reply),
            ScriptStep::Failed(_) => return None,
        };
    }
    None
}

fuzz_target!(|text: &[u8]| {
    run(text);
    assert_eq!(run(b"return redis.call('get', KEYS[1]) + ARGV[1]"), Some(Reply::Int(8)));
});
