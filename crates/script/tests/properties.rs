//! Properties of conversions and libraries, seen from scripts: what goes around comes back, and no input
//! breaks anything.

use adt::{Blob, Reply};
use engine::script::{Interpreter, ScriptInput, ScriptInputs, ScriptStep, Use};
use proptest::prelude::*;
use script::Luau;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Result of a text with these arguments, if every command gets the same reply.
fn run_with(text: &str, args: &[&[u8]], reply: &Reply) -> Result<Reply, String> {
    let script = Luau.read(&Blob::from(text)).map_err(|error| error.to_string())?;
    let args = args.iter().map(|arg| Blob::new(arg)).collect();
    let mut run = Luau.begin(&script, &Arc::new(ScriptInputs { keys: Vec::new(), args }));
    let mut input = ScriptInput::Go;
    loop {
        input = match run.resume(input) {
            ScriptStep::Call(_, Use::Seen) => ScriptInput::Reply(reply.clone()),
            ScriptStep::MayRun(_) => ScriptInput::MayRun(true),
            ScriptStep::Call(..) | ScriptStep::Pause | ScriptStep::Log(..) => ScriptInput::Go,
            ScriptStep::Done(reply) => return Ok(reply),
            ScriptStep::Failed(error) => return Err(error.to_string()),
        };
    }
}

fn run(text: &str, args: &[&[u8]]) -> Result<Reply, String> {
    run_with(text, args, &Reply::Ok)
}

/// The number that a text returns.
fn number(text: &str) -> i64 {
    match run(text, &[]) {
        Ok(Reply::Int(number)) => number,
        other => panic!("{text}: {other:?}"),
    }
}

/// Values that JSON of Lua can tell apart: tables that are not empty, whole numbers of 14 digits.
fn json(null: bool) -> impl Strategy<Value = Value> {
    let whole = -99_999_999_999_999_i64..=99_999_999_999_999;
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        whole.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(if null { Value::Null } else { Value::from(1) }),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let field = ("[a-z/\"\\\\é]{1,8}", inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 1..6).prop_map(Value::from),
            prop::collection::vec(field, 1..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Replies that a script gives back as it got them.
fn replies() -> impl Strategy<Value = Reply> {
    let whole = -(1_i64 << 53)..=1 << 53;
    let leaf = prop_oneof![
        whole.prop_map(Reply::Int),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|text| Reply::Bulk(Blob::new(&text))),
        Just(Reply::Nil),
        "[A-Za-z ]{0,9}".prop_map(Reply::status),
    ];
    leaf.prop_recursive(4, 30, 6, |inner| prop::collection::vec(inner, 0..6).prop_map(Reply::Array))
}

fn decoded(reply: Result<Reply, String>) -> Value {
    match reply {
        Ok(Reply::Bulk(text)) => serde_json::from_slice(&text).expect("JSON"),
        other => panic!("{other:?}"),
    }
}

/// Arguments of a layout of `struct`, most of them valid.
fn layouts() -> impl Strategy<Value = String> {
    let item = prop_oneof![
        "[<>=!]?[bBhHlLTfdsxiIc][0-9]{0,3}",
        Just("c0".to_owned()),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(item, 0..6).prop_map(|items| items.concat())
}

proptest! {
    #[test]
    fn json_comes_back(value in json(true)) {
        let text = value.to_string();
        let again = run("return cjson.encode(cjson.decode(ARGV[1]))", &[text.as_bytes()]);
        prop_assert_eq!(decoded(again), value);
    }

    #[test]
    fn message_pack_comes_back(value in json(false)) {
        let text = value.to_string();
        let script = "return cjson.encode(cmsgpack.unpack(cmsgpack.pack(cjson.decode(ARGV[1]))))";
        prop_assert_eq!(decoded(run(script, &[text.as_bytes()])), value);
    }

    #[test]
    fn numbers_in_structures_come_back(
        number in any::<i32>(), unsigned in any::<u32>(), short in any::<i16>(), real in any::<f32>(),
        text in "[a-z]{0,9}", order in "[<>]"
    ) {
        let real = if real.is_finite() { f64::from(real) } else { 0.0 };
        let text = format!(
            "local f = '{order}i4I4hfs'
            local packed = struct.pack(f, {number}, {unsigned}, {short}, {real:?}, '{text}')
            local a, b, c, d, e, next = struct.unpack(f, packed)
            return {{a, b, c, d == {real:?}, e, next == struct.size('i4I4hf') + {}}}",
            text.len() + 2
        );
        let wanted = [
            Reply::Int(i64::from(number)),
            Reply::Int(i64::from(unsigned)),
            Reply::Int(i64::from(short)),
            Reply::Int(1),
        ];
        match run(&text, &[]) {
            Ok(Reply::Array(items)) => {
                prop_assert_eq!(&items[..4], &wanted[..]);
                prop_assert_eq!(&items[5], &Reply::Int(1));
            }
            other => prop_assert!(false, "{}: {:?}", text, other),
        }
    }

    #[test]
    fn bits_are_those_of_32_bits(
        a in any::<i32>(), b in any::<i32>(), by in 0_u32..32, large in -(1_i64 << 51)..1 << 51
    ) {
        let rotated = number(&format!("return bit.ror(bit.rol({a}, {by}), {by})"));
        prop_assert_eq!(rotated, i64::from(a));
        prop_assert_eq!(number(&format!("return bit.bswap(bit.bswap({a}))")), i64::from(a));
        prop_assert_eq!(number(&format!("return bit.tobit({large})")), i64::from(large as i32));
        prop_assert_eq!(number(&format!("return bit.band({a}, {b})")), i64::from(a & b));
        prop_assert_eq!(number(&format!("return bit.bor({a}, {b})")), i64::from(a | b));
        prop_assert_eq!(number(&format!("return bit.bxor({a}, {b})")), i64::from(a ^ b));
        prop_assert_eq!(number(&format!("return bit.arshift({a}, {by})")), i64::from(a >> by));
        prop_assert_eq!(number(&format!("return bit.tobit(tonumber(bit.tohex({a}), 16))")), i64::from(a));
    }

    #[test]
    fn replies_come_back(reply in replies()) {
        let again = run_with("return redis.call('get', 'k')", &[], &reply);
        prop_assert_eq!(again, Ok(reply));
    }

    #[test]
    fn no_bytes_break_a_library(text in prop::collection::vec(any::<u8>(), 0..80), layout in layouts()) {
        for script in [
            "return {pcall(cjson.decode, ARGV[1])}",
            "return {pcall(cmsgpack.unpack, ARGV[1])}",
            "return {pcall(cmsgpack.unpack_limit, ARGV[1], #ARGV[1], 1)}",
            "return {pcall(cjson.encode, {ARGV[1], [ARGV[1]] = ARGV[2]})}",
            "return {pcall(struct.unpack, ARGV[2], ARGV[1])}",
            "return {pcall(struct.pack, ARGV[2], ARGV[1], 1, 2, 3, ARGV[1])}",
            "return {pcall(struct.size, ARGV[2])}",
            "return {pcall(bit.tohex, ARGV[1], ARGV[2])}",
            "return {pcall(string.format, ARGV[2], ARGV[1], 0.1, 1 / 3)}",
            "return {pcall(string.gsub, ARGV[1], ARGV[2], function(x) return x end)}",
            "return {pcall(redis.call, ARGV[1], ARGV[2])}",
        ] {
            let answer = run(script, &[&text, layout.as_bytes()]);
            prop_assert!(matches!(answer, Ok(Reply::Array(_))), "{}: {:?}", script, answer);
        }
    }

    #[test]
    fn no_text_breaks_the_interpreter(words in prop::collection::vec(word(), 0..25)) {
        let text = words.join(" ");
        if let Err(error) = run(&text, &[b"x"]) {
            prop_assert!(error.starts_with("ERR"), "{}: {}", text, error);
        }
    }
}

/// Words of texts. None begins a loop.
const WORDS: &[&str] = &[
    "local",
    "x",
    "y",
    "=",
    "..",
    "...",
    "1",
    "0.1",
    "'s'",
    "\"",
    "[[",
    "]]",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "if",
    "then",
    "else",
    "end",
    "return",
    "redis",
    ".",
    "call",
    "redis.call('get', 'k')",
    "pcall",
    "and",
    "not",
    "-",
    "--",
    "#",
    "^",
    "function",
    ",",
    ";",
    ":",
    "nil",
    "`",
    "//",
    "f",
    "==",
    "or",
    "\n",
    "+=",
    "type",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        20 => prop::sample::select(WORDS).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ]
}
