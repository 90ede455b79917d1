//! Scripts against a store that answers from a list.

use super::*;
use crate::machine::Machine;
use adt::Reply;
use engine::script::{ScriptInput, ScriptStep, Use};

fn inputs(keys: &[&str], args: &[&str]) -> ScriptInputs {
    let blobs = |words: &[&str]| words.iter().map(|word| Blob::from(*word)).collect();
    ScriptInputs { keys: blobs(keys), args: blobs(args) }
}

/// Runs a text; `store` answers its commands. Returns the end, and the commands with the uses of replies.
fn run_with(
    luau: &Luau,
    text: &str,
    inputs: &ScriptInputs,
    mut store: impl FnMut(&str) -> Reply,
) -> (Result<Reply, String>, Vec<(String, Use)>) {
    let script = match luau.read(&Blob::from(text)) {
        Ok(script) => script,
        Err(error) => return (Err(error.to_string()), Vec::new()),
    };
    let mut run = luau.begin(&script, &Arc::new(inputs.clone()));
    let (mut input, mut called) = (ScriptInput::Go, Vec::new());
    loop {
        input = match run.resume(input) {
            ScriptStep::Call(words, used) => {
                let line: Vec<_> = words.args().iter_from(0).map(String::from_utf8_lossy).collect();
                let line = line.join(" ");
                let reply = store(&line);
                called.push((line, used));
                match used {
                    Use::Seen => ScriptInput::Reply(reply),
                    Use::Dropped | Use::Ignored => ScriptInput::Go,
                }
            }
            ScriptStep::MayRun(_) => ScriptInput::MayRun(true),
            ScriptStep::Pause | ScriptStep::Log(..) => ScriptInput::Go,
            ScriptStep::Done(reply) => return (Ok(reply), called),
            ScriptStep::Failed(error) => return (Err(error.to_string()), called),
        }
    }
}

fn run(text: &str) -> Result<Reply, String> {
    run_with(&Luau, text, &inputs(&["k1"], &["a1", "a2"]), |_| Reply::Ok).0
}

fn bulk(text: &str) -> Reply {
    Reply::bulk(text)
}

#[test]
fn values_become_replies_by_the_rules_of_redis() {
    let cases = [
        ("return 1", Reply::Int(1)),
        ("return 3.99", Reply::Int(3)),
        ("return 'x'", bulk("x")),
        ("return nil", Reply::Nil),
        ("return true", Reply::Int(1)),
        ("return false", Reply::Nil),
        ("return {1, 'a', nil, 3}", Reply::Array(vec![Reply::Int(1), bulk("a")])),
        ("return {ok = 'fine'}", Reply::status("fine")),
        ("return redis.status_reply('fine')", Reply::status("fine")),
        ("return {double = 1.5}", Reply::Double(1.5)),
        ("return 1e300", Reply::Int(i64::MIN)),
        ("return redis.sha1hex(12)", bulk("7b52009b64fd0a2a49e6d8a939753077792b0554")),
        ("return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2, 1)}", {
            Reply::Array([-1, 2, 3].map(Reply::Int).to_vec())
        }),
        ("return {struct.unpack('>Bc0', 'x' and string.char(2) .. 'abc')}", {
            Reply::Array(vec![bulk("ab"), Reply::Int(4)])
        }),
        ("return KEYS[1] .. ARGV[2] .. #ARGV", bulk("k1a22")),
        ("return redis.sha1hex('')", bulk("da39a3ee5e6b4b0d3255bfef95601890afd80709")),
        ("return cjson.encode({1, {a = 'x/y'}, cjson.null})", bulk("[1,{\"a\":\"x\\/y\"},null]")),
        ("return cjson.decode('{\"a\": [1, 2.5]}').a[2] * 2", Reply::Int(5)),
        ("return cmsgpack.unpack(cmsgpack.pack({1, 'a', {b = 2}}))[3].b", Reply::Int(2)),
        (
            "return {bit.band(255, 15), bit.bnot(0), bit.tohex(255)}",
            Reply::Array(vec![Reply::Int(15), Reply::Int(-1), bulk("000000ff")]),
        ),
        (
            "return {struct.unpack('>I2c0', struct.pack('>I2c0', 3, 'abc'))}",
            Reply::Array(vec![bulk("abc"), Reply::Int(6)]),
        ),
        ("return table.getn({1, 2}) + #{unpack({1, 2, 3})}", Reply::Int(5)),
        ("#!lua flags=no-writes\nreturn 1", Reply::Int(1)),
    ];
    for (text, wanted) in cases {
        assert_eq!(run(text), Ok(wanted), "{text}");
    }
}

#[test]
fn errors_name_the_script_and_the_line() {
    let sha = |text: &str| String::from_utf8(name_of(text.as_bytes()).to_vec()).unwrap();
    for (text, wanted, line) in [
        ("error('boom')", "ERR user_script:1: boom", 1),
        ("\nerror({err = 'MINE bad'})", "MINE bad", 2),
        ("return redis.call('fail')", "WRONG kind", 1),
        (
            "local x\nredis.call('fail', x)",
            "ERR Lua redis lib command arguments must be strings or integers",
            2,
        ),
        (
            "return nosuch",
            "ERR user_script:1: Script attempted to access nonexistent global variable 'nosuch'",
            1,
        ),
        ("x = 1", "ERR user_script:1: Attempt to modify a readonly table", 1),
        ("redis.call()", "ERR Please specify at least one argument for this redis lib call", 1),
        (
            "return cjson.encode(function() end)",
            "ERR user_script:1: Cannot serialise function: type not supported",
            1,
        ),
    ] {
        let store = |_: &str| Reply::Error(ErrorReply::new("WRONG", "kind"));
        let (end, _) = run_with(&Luau, text, &inputs(&[], &[]), store);
        let sha = sha(text);
        assert_eq!(end, Err(format!("{wanted} script: {sha}, on @user_script:{line}.")), "{text}");
    }
    let caught =
        "local ok, e = pcall(redis.call, 'fail') return {tostring(ok), e, redis.pcall('fail').err}";
    let store = |_: &str| Reply::Error(ErrorReply::new("WRONG", "kind"));
    let (end, _) = run_with(&Luau, caught, &inputs(&[], &[]), store);
    assert_eq!(end, Ok(Reply::Array(vec![bulk("false"), bulk("WRONG kind"), bulk("WRONG kind")])));
    assert_eq!(
        run("return redis.error_reply('MY way')"),
        Ok(Reply::Error(ErrorReply::new("MY", "way")))
    );
    assert_eq!(run("return redis.error_reply('single')"), Ok(Reply::err("single")));
    let wrong = run("return return").unwrap_err();
    assert!(
        wrong.starts_with("ERR Error compiling script (new function): user_script:1:"),
        "{wrong}"
    );
}

#[test]
fn replies_that_nobody_reads_are_not_waited_for() {
    let text = "redis.call('set', 'k', 1)
        redis.pcall('del', 'l')
        pcall(function() redis.call('incr', 'm') end)
        local x = redis.call('get', 'k')
        return x";
    let (end, called) = run_with(&Luau, text, &inputs(&[], &[]), |_| Reply::Int(7));
    assert_eq!(end, Ok(Reply::Int(7)));
    let uses: Vec<Use> = called.iter().map(|(_, used)| *used).collect();
    assert_eq!(uses, [Use::Dropped, Use::Ignored, Use::Seen, Use::Seen]);
}

#[test]
fn hostile_scripts_end_with_an_error_and_the_next_one_runs() {
    let luau = Luau;
    for (text, wanted) in [
        ("while true do end", "steps"),
        ("while true do pcall(function() while true do end end) end", "steps"),
        ("local function f() return f() end return f()", "stack overflow"),
        ("return string.rep('x', 1e9)", "memory"),
        ("local t = {} while true do t[#t + 1] = {} end", "memory"),
        (
            "local t = {} while true do pcall(function() t[#t + 1] = string.rep('x', 1e5) end) end",
            "limit",
        ),
        ("local function f() return 1 + f() end return f()", "stack overflow"),
        (
            "return string.find(string.rep('a', 50), string.rep('a?', 50) .. string.rep('a', 50) .. 'b')",
            "steps",
        ),
        ("local t = {} t[1] = t return cjson.encode(t)", "excessive depth"),
        ("return cjson.decode(string.rep('[', 100000))", "invalid token"),
        ("return cmsgpack.unpack(string.rep('\\x91', 100000))", "Bad data"),
        ("return loadstring('return 1')", "nonexistent global"),
        ("return io.open('/etc/passwd')", "nonexistent global"),
        ("return os.execute('ls')", "nil"),
        ("string.len = nil", "readonly"),
        ("redis.call = nil", "readonly"),
        ("_G.x = 1", "readonly"),
        ("getmetatable('').__index = nil", "readonly"),
        ("return setmetatable(_G, {})", "protected"),
        ("return getfenv", "nonexistent global"),
        ("return coroutine.yield()", "yield across"),
        ("local function f() return coroutine.wrap(f)() end return f()", "stack overflow"),
        ("coroutine.wrap(function() while true do end end)()", "steps"),
        ("while true do coroutine.resume(coroutine.create(function() end)) end", "steps"),
        ("return debug.info", "nonexistent global"),
    ] {
        let (end, _) = run_with(&luau, text, &inputs(&[], &[]), |_| Reply::Ok);
        let error = end.expect_err(text);
        assert!(error.contains(wanted), "{text}: {error}");
        let (next, _) = run_with(&luau, "return ARGV[1]", &inputs(&[], &["x"]), |_| Reply::Ok);
        assert_eq!(next, Ok(bulk("x")), "after {text}");
    }
    let used = |idle: &Vec<Machine>| idle.iter().map(|machine| machine.lua.used_memory()).sum();
    let kept: usize = crate::IDLE.with_borrow(used);
    assert!(kept < 4 << 20, "{kept} bytes are kept");
}

#[test]
fn runs_do_not_see_each_other() {
    let luau = Luau;
    let first = "KEYS.mine = 1 math.random() return tostring(math.random(1000))";
    let (one, _) = run_with(&luau, first, &inputs(&["a"], &[]), |_| Reply::Ok);
    let (two, _) = run_with(&luau, first, &inputs(&["a"], &[]), |_| Reply::Ok);
    assert_eq!(one, two, "random numbers begin anew");
    let (seen, _) = run_with(&luau, "return KEYS.mine", &inputs(&["a"], &[]), |_| Reply::Ok);
    assert_eq!(seen, Ok(Reply::Nil));
}

#[test]
fn few_tables_are_not_a_large_reply() {
    let doubled = "local t = {1} for i = 1, 30 do t = {t, t} end ";
    for (end, wanted) in [
        ("return t", "the reply of a script exceeds its limit"),
        ("return cjson.encode(t)", "result exceeds the limit"),
        (
            "local u = {1} for i = 1, 14 do u = {u, u, u, u} end return cmsgpack.pack(u)",
            "exceeds the limit",
        ),
        ("while true do pcall(cjson.encode, t) end", "limit of 20000000 steps"),
        (
            "local s = string.rep('x', 2^20) local t = {} for i = 1, 1000 do t[i] = s end
            return redis.call('set', unpack(t))",
            "a command of a script exceeds its limit",
        ),
        (
            "local s = string.rep('x', 2^20) local t = {} for i = 1, 20 do t[i] = s end
            return struct.pack(string.rep('s', 20), unpack(t))",
            "exceeds the limit",
        ),
    ] {
        let text = format!("{doubled}{end}");
        let error = run(&text).expect_err(&text);
        assert!(error.contains(wanted), "{end}: {error}");
    }
}

#[test]
fn work_within_one_step_is_charged() {
    for text in [
        "local s = string.rep('x', 3e6) while true do local t = s .. 'y' end",
        "local s = string.rep('a', 2e6) while true do s:find(s .. 'b', 1, true) end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t) end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.remove(t, 1) t[1e5] = 1 end",
        "local s = string.rep('1', 4e6) while true do tonumber(s) end",
        "local s = string.rep('1', 4e6) while true do redis.sha1hex(s) end",
        "local s, p = ('a'):rep(1e5), '[' .. ('bc'):rep(1e4) .. ']' while true do s:find(p) end",
    ] {
        let error = run(text).expect_err(text);
        assert!(error.contains("limit of 20000000 steps"), "{text}: {error}");
    }
}

#[test]
fn garbage_is_not_counted_as_memory() {
    let text =
        "local n = 0 for i = 1, 50000 do local s = i .. ('x'):rep(1000) n = n + #s end return n";
    assert_eq!(run(text), Ok(Reply::Int(50_238_894)));
}

#[test]
fn numbers_become_text_as_in_lua_5_1() {
    for (text, wanted) in [
        ("return tostring(0.1 + 0.2)", "0.3"),
        ("return 0.1 + 0.2 .. '' .. 1 / 3", "0.30.33333333333333"),
        ("local n = 2 ^ 53 return 'n' .. n", "n9.007199254741e+15"),
        ("return table.concat({1, 0.1 + 0.2, 'x'}, ',')", "1,0.3,x"),
        ("return string.format('%s %d %.3f', 1 / 3, 4, 1 / 3)", "0.33333333333333 4 0.333"),
        ("return tostring(1e15) .. tostring(-1 / 0)", "1e+15-inf"),
        ("return tostring(cjson.null)", "userdata: (nil)"),
        ("return cjson.encode({1e15, -12, 1 / 3})", "[1e+15,-12,0.33333333333333]"),
        ("return struct.pack('>ss', 1 / 3, 12)", "0.33333333333333\u{0}12\0"),
        ("return tostring(123) .. tostring(nil) .. tostring('x')", "123nilx"),
        ("return ('abc'):gsub('b', function() return 1 / 3 end)", "a0.33333333333333c"),
    ] {
        assert_eq!(run(text), Ok(bulk(wanted)), "{text}");
    }
}

#[test]
fn commands_run_inside_of_coroutines_and_of_functions_that_are_called_back() {
    let cases = [
        (
            "local co = coroutine.create(function(a) local b = coroutine.yield(a + 1)
                return redis.call('get', b) end)
            local _, one = coroutine.resume(co, 1)
            local _, two = coroutine.resume(co, 'k')
            return one .. two .. coroutine.status(co) .. select('#', coroutine.resume(co))",
            "27dead2",
        ),
        (
            "local next = coroutine.wrap(function() for i = 1, 3 do
                coroutine.yield(i .. redis.call('get', i)) end end)
            return next() .. next() .. next()",
            "172737",
        ),
        (
            "local inner = coroutine.wrap(function() return coroutine.wrap(function()
                return redis.call('get', 'x') end)() end) return inner() .. tostring(coroutine.running())",
            "7nil",
        ),
        (
            "local t = {3, 1, 2} table.sort(t, function(a, b) redis.call('get', a) return a < b end)
            return table.concat(t)",
            "123",
        ),
        (
            "return (string.gsub('a-b', '%w', function(x) return x .. redis.call('get', x) end))",
            "a7-b7",
        ),
        (
            "return (string.gsub(13, '%d', function(x) return x .. redis.call('get', 'a') end))",
            "1737",
        ),
        ("return (string.gsub('abc', '%w*', function() return 'x' end))", "xx"),
        ("return (string.gsub('abc', '', function() return '.' end))", ".a.b.c."),
        ("return (string.gsub('abc', '^(a)(b)', function(x, y) return y .. x end))", "bac"),
        (
            "local s = '' table.foreachi({1, 2}, function(i, v) s = s .. redis.call('get', v) end)
            return s",
            "77",
        ),
    ];
    for (text, wanted) in cases {
        let store = |_: &str| Reply::Int(7);
        let (end, _) = run_with(&Luau, text, &inputs(&[], &[]), store);
        assert_eq!(end, Ok(bulk(wanted)), "{text}");
    }
    let failing = "local ok, e = coroutine.resume(coroutine.create(function()
        redis.call('fail') end)) return tostring(ok) .. e.err";
    let store = |_: &str| Reply::Error(ErrorReply::new("WRONG", "kind"));
    let (end, _) = run_with(&Luau, failing, &inputs(&[], &[]), store);
    assert_eq!(end, Ok(bulk("falseWRONG kind")));
    let many = "local co = coroutine.wrap(function() for i = 1, 50000 do redis.call('get', 'k') end
        return 1 end) return co()";
    assert_eq!(run(many), Ok(Reply::Int(1)));
}

#[test]
fn random_numbers_are_those_of_redis() {
    let text = "local t = {} for i = 1, 3 do t[i] = math.random(1000) end math.randomseed(42)
        t[4] = math.random(-5, 5) t[5] = math.random(2.9, 3.9) return t";
    assert_eq!(run(text), Ok(Reply::Array([397, 841, 354, 3, 2].map(Reply::Int).to_vec())));
}

#[test]
fn booleans_are_booleans_when_a_script_has_asked_for_them() {
    assert_eq!(run("redis.setresp(3) return {true, false}"), {
        Ok(Reply::Array(vec![Reply::Bool(true), Reply::Bool(false)]))
    });
    assert_eq!(run("return {true, false}"), Ok(Reply::Array(vec![Reply::Int(1), Reply::Nil])));
}
