//! Two arguments, divided by a zero byte, for the functions of the libraries of scripts: each answers or
//! raises an error that the script catches.
#![no_main]

use adt::{Blob, Reply};
use engine::script::{Interpreter, ScriptInput, ScriptInputs, ScriptStep};
use libfuzzer_sys::fuzz_target;
use script::Luau;
use std::sync::Arc;

const TEXT: &str = "
local a, b = ARGV[1], ARGV[2]
local t = {a, [b] = {b, a}}
local of_one = {cjson.decode, cmsgpack.unpack, cmsgpack.unpack_one, struct.size, redis.sha1hex, tonumber}
for _, f in ipairs(of_one) do
  pcall(f, a)
end
for _, f in ipairs({cjson.encode, cmsgpack.pack}) do pcall(f, t) end
local of_more = {struct.unpack, struct.pack, bit.band, bit.tohex, string.format, string.find, string.match}
for _, f in ipairs(of_more) do
  pcall(f, a, b)
  pcall(f, a, #b, b, 1 / 3)
end
pcall(string.gsub, b, a, function(x) return x end)
pcall(cmsgpack.unpack_limit, a, #b, 1)
local ok, back = pcall(function() return cmsgpack.unpack(cmsgpack.pack(t))[1] end)
return {ok, back}";

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(2, |b| *b == 0).map(Blob::new);
    let first = parts.next().unwrap_or_else(|| Blob::from(""));
    let args = vec![first.clone(), parts.next().unwrap_or_else(|| Blob::from(""))];
    let script = Luau.read(&Blob::from(TEXT)).expect("a valid text");
    let mut run = Luau.begin(&script, &Arc::new(ScriptInputs { keys: Vec::new(), args }));
    loop {
        match run.resume(ScriptInput::Go) {
            ScriptStep::Pause => {}
            ScriptStep::Done(Reply::Array(items)) => {
                return assert_eq!(items, [Reply::Int(1), Reply::Bulk(first)]);
            }
            // A pattern may take longer than a script may.
            ScriptStep::Failed(error) => return assert!(error.to_string().contains("limit")),
            step => panic!("an unexpected step: {step:?}"),
        }
    }
});
