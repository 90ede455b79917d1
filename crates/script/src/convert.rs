//! Values of scripts as words and replies, and replies as values of scripts, by the rules of Redis.

use adt::{ArgBuf, Blob, ErrorReply, Reply};
use engine::limits::{
    COMMAND_WORDS_MAX, FRAME_BYTES_MAX, SCRIPT_MEMORY_BYTES_MAX, SCRIPT_REPLY_DEPTH_MAX,
};
use engine::script::LibraryFunction;
use mlua::{Lua, MultiValue, Table, Value};

/// Approximate bytes around each item of a reply.
const ITEM_BYTES: usize = 48;
/// Bytes that a table counts for besides: to look into it takes as long.
const TABLE_BYTES: usize = 256;

/// A number as Redis' scripts write it into commands.
pub fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e17 {
        format!("{}", value as i64)
    } else {
        adt::format_float(value)
    }
}

/// The words of a command.
pub fn words(values: &mut std::vec::IntoIter<Value>) -> Result<ArgBuf, ErrorReply> {
    let mut words = ArgBuf::new();
    let mut some = false;
    let mut bytes = 0;
    for value in values {
        some = true;
        if let Value::String(text) = &value {
            bytes += text.as_bytes().len();
        }
        if bytes > FRAME_BYTES_MAX || words.len() == COMMAND_WORDS_MAX {
            let text = format!(
                "a command of a script exceeds its limit of {FRAME_BYTES_MAX} bytes, or of \
                 {COMMAND_WORDS_MAX} words"
            );
            return Err(ErrorReply::err(text));
        }
        match value {
            Value::String(text) => _ = words.push(&*text.as_bytes()),
            Value::Integer(value) => _ = words.push_int(value),
            Value::Number(value) => _ = words.push(number(value)),
            _ => {
                let text = "Lua redis lib command arguments must be strings or integers";
                return Err(ErrorReply::err(text));
            }
        }
    }
    match some {
        true => Ok(words),
        false => {
            let text = "Please specify at least one argument for this redis lib call";
            Err(ErrorReply::err(text))
        }
    }
}

/// The text of a raised or returned error as an error: its first word is the code.
pub fn error(text: &[u8]) -> ErrorReply {
    let text = String::from_utf8_lossy(text).into_owned();
    let text = text.strip_prefix('-').unwrap_or(&text);
    match text.split_once(' ') {
        Some((code, rest)) => ErrorReply::new(code.to_owned(), rest.to_owned()),
        None => ErrorReply::new(text.to_owned(), ""),
    }
}

/// The table that a script sees of an error.
pub fn error_value(lua: &Lua, error: &ErrorReply) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set("err", lua.create_string(error.to_string())?)?;
    Ok(Value::Table(table))
}

/// The functions that a library has registered, each as a list of name, description and flags.
pub fn functions(reply: Reply) -> Vec<LibraryFunction> {
    let Reply::Array(items) = reply else { return Vec::new() };
    let text = |reply: &Reply| match reply {
        Reply::Bulk(text) => Some(text.clone()),
        _ => None,
    };
    let function = |item: &Reply| {
        let Reply::Array(words) = item else { return None };
        let (name, rest) = words.split_first()?;
        let (description, flags) = rest.split_first()?;
        let flags = flags.iter().filter_map(text).collect();
        Some(LibraryFunction { name: text(name)?, description: text(description), flags })
    };
    items.iter().filter_map(function).collect()
}

/// Whether a reply has at most so many bytes, and few items.
pub fn is_small(reply: &Reply, bytes: usize) -> bool {
    match reply {
        Reply::Bulk(text) => text.len() <= bytes,
        Reply::Array(items) => {
            items.len() <= 64
                && items.iter().all(|item| match item {
                    Reply::Bulk(text) => text.len() <= bytes / 64,
                    item => matches!(item, Reply::Nil | Reply::Int(_)),
                })
        }
        reply => matches!(reply, Reply::Ok | Reply::Nil | Reply::Int(_) | Reply::Status(_)),
    }
}

/// A reply as a value, in the form of a version of the protocol.
pub fn value(lua: &Lua, reply: Reply, resp3: bool) -> mlua::Result<Value> {
    let list = |items: Vec<Reply>| -> mlua::Result<Value> {
        let table = lua.create_table_with_capacity(items.len(), 0)?;
        for (at, item) in items.into_iter().enumerate() {
            table.raw_set(at + 1, value(lua, item, resp3)?)?;
        }
        Ok(Value::Table(table))
    };
    let tagged = |tag: &str, inner: Value| -> mlua::Result<Value> {
        let table = lua.create_table()?;
        table.raw_set(tag, inner)?;
        Ok(Value::Table(table))
    };
    let text = |text: &[u8]| lua.create_string(text).map(Value::String);
    match reply {
        Reply::Ok => tagged("ok", text(b"OK")?),
        Reply::Status(status) => tagged("ok", text(status.as_bytes())?),
        Reply::Nil | Reply::NilArray if resp3 => Ok(Value::Nil),
        Reply::Nil | Reply::NilArray => Ok(Value::Boolean(false)),
        Reply::Int(number) => Ok(Value::Number(number as f64)),
        Reply::Double(number) if resp3 => tagged("double", Value::Number(number)),
        Reply::Double(number) => text(adt::format_float(number).as_bytes()),
        Reply::Bool(truth) if resp3 => Ok(Value::Boolean(truth)),
        Reply::Bool(truth) => Ok(Value::Number(f64::from(u8::from(truth)))),
        Reply::Bulk(bytes) => text(&bytes),
        Reply::Text(lines) => text(lines.as_bytes()),
        Reply::Array(items) | Reply::Push(items) => list(items),
        Reply::Set(items) if resp3 => {
            let set = lua.create_table()?;
            for item in items {
                set.raw_set(value(lua, item, resp3)?, true)?;
            }
            tagged("set", Value::Table(set))
        }
        Reply::Set(items) => list(items),
        Reply::Map(pairs) if resp3 => {
            let map = lua.create_table()?;
            for (key, item) in pairs {
                map.raw_set(value(lua, key, resp3)?, value(lua, item, resp3)?)?;
            }
            tagged("map", Value::Table(map))
        }
        Reply::Map(pairs) => list(pairs.into_iter().flat_map(|(key, item)| [key, item]).collect()),
        Reply::Scored(members) if resp3 => list(
            members
                .into_iter()
                .map(|(m, s)| Reply::Array(vec![Reply::Bulk(m), Reply::Double(s)]))
                .collect(),
        ),
        Reply::Scored(members) => list(
            members.into_iter().flat_map(|(m, s)| [Reply::Bulk(m), Reply::Double(s)]).collect(),
        ),
        Reply::Pairs(pairs) if resp3 => list(
            pairs
                .into_iter()
                .map(|(a, b)| Reply::Array(vec![Reply::Bulk(a), Reply::Bulk(b)]))
                .collect(),
        ),
        Reply::Pairs(pairs) => {
            list(pairs.into_iter().flat_map(|(a, b)| [Reply::Bulk(a), Reply::Bulk(b)]).collect())
        }
        Reply::Named(pairs) => list(
            pairs
                .into_iter()
                .map(|(name, item)| Reply::Array(vec![Reply::Bulk(name), item]))
                .collect(),
        ),
        Reply::Error(error) => error_value(lua, &error),
        Reply::Record(_) => Ok(Value::Boolean(false)),
    }
}

fn too_deep() -> Reply {
    Reply::err(format!(
        "reached the limit of {SCRIPT_REPLY_DEPTH_MAX} tables in one another in a reply"
    ))
}

/// A value as a reply. The error is that it is too large: few tables that are in one another many times are
/// a large reply. `resp3` is whether the script has asked for that version: its booleans are booleans then.
pub fn reply(value: Value, resp3: bool) -> Result<Reply, ErrorReply> {
    reply_within(value, 0, &mut Room { bytes: SCRIPT_MEMORY_BYTES_MAX, resp3 })
}

/// Room for a reply.
struct Room {
    bytes: usize,
    resp3: bool,
}

/// The whole part of a number. What no integer holds becomes the smallest one, as on Redis' machines.
fn whole(number: f64) -> i64 {
    let holds = number >= i64::MIN as f64 && number < i64::MAX as f64;
    if holds { number as i64 } else { i64::MIN }
}

fn reply_within(value: Value, depth: usize, left: &mut Room) -> Result<Reply, ErrorReply> {
    spend(ITEM_BYTES, left)?;
    Ok(match value {
        Value::String(text) => {
            let text = text.as_bytes();
            spend(text.len(), left)?;
            Reply::Bulk(Blob::new(&text))
        }
        Value::Integer(number) => Reply::Int(number),
        Value::Number(number) => Reply::Int(whole(number)),
        Value::Boolean(truth) if left.resp3 => Reply::Bool(truth),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) if depth < SCRIPT_REPLY_DEPTH_MAX => of_table(&table, depth, left)?,
        Value::Table(_) => too_deep(),
        _ => Reply::Nil,
    })
}

fn spend(bytes: usize, left: &mut Room) -> Result<(), ErrorReply> {
    left.bytes = left.bytes.checked_sub(bytes).ok_or_else(|| {
        let text =
            format!("the reply of a script exceeds its limit of {SCRIPT_MEMORY_BYTES_MAX} bytes");
        ErrorReply::err(text)
    })?;
    Ok(())
}

/// The reply of a field of a table, if the field is of the kind.
fn of_table(table: &Table, depth: usize, left: &mut Room) -> Result<Reply, ErrorReply> {
    spend(TABLE_BYTES, left)?;
    let unreadable = |_| ErrorReply::err("the reply of a script cannot be read");
    let field = |name: &str| table.raw_get::<Value>(name).map_err(unreadable);
    if let Value::String(text) = field("err")? {
        spend(text.as_bytes().len(), left)?;
        return Ok(Reply::Error(error(&text.as_bytes())));
    }
    if let Value::String(text) = field("ok")? {
        spend(text.as_bytes().len(), left)?;
        return Ok(Reply::status(text.to_string_lossy().replace(['\r', '\n'], " ")));
    }
    match field("double")? {
        Value::Number(number) => return Ok(Reply::Double(number)),
        Value::Integer(number) => return Ok(Reply::Double(number as f64)),
        _ => {}
    }
    if let Value::Table(map) = field("map")? {
        let mut pairs = Vec::new();
        for pair in map.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(unreadable)?;
            let key = reply_within(key, depth + 1, left)?;
            pairs.push((key, reply_within(value, depth + 1, left)?));
        }
        return Ok(Reply::Map(pairs));
    }
    if let Value::Table(set) = field("set")? {
        let mut members = Vec::new();
        for pair in set.pairs::<Value, Value>() {
            let (key, _) = pair.map_err(unreadable)?;
            members.push(reply_within(key, depth + 1, left)?);
        }
        return Ok(Reply::Set(members));
    }
    let mut items = Vec::new();
    for at in 1.. {
        match table.raw_get(at).map_err(unreadable)? {
            Value::Nil => break,
            value => items.push(reply_within(value, depth + 1, left)?),
        }
    }
    Ok(Reply::Array(items))
}

/// The values of a list, one after another.
pub fn iter(values: MultiValue) -> std::vec::IntoIter<Value> {
    values.into_iter().collect::<Vec<_>>().into_iter()
}
