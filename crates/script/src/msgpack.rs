//! The library `cmsgpack`.

use crate::library;
use engine::limits::{SCRIPT_MSGPACK_DEPTH_MAX, SCRIPT_TABLES_MAX};
use mlua::{Lua, Table, Value};
use rmp::Marker;
use rmp::decode::read_marker;
use rmp::encode;

fn pack(value: &Value, depth: usize, left: &mut usize, out: &mut Vec<u8>) -> Result<(), String> {
    library::check_len(out)?;
    if matches!(value, Value::Table(_)) {
        library::count_table(left)?;
    }
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    match value {
        Value::String(text) => {
            let bytes = text.as_bytes();
            encode::write_str_len(out, bytes.len() as u32).map_err(|e| failed(&e))?;
            out.extend_from_slice(&bytes);
        }
        Value::Integer(number) => _ = encode::write_sint(out, *number).map_err(|e| failed(&e))?,
        Value::Number(number) if number.fract() == 0.0 && number.abs() < 9.2e18 => {
            encode::write_sint(out, *number as i64).map_err(|e| failed(&e))?;
        }
        Value::Number(number) if f64::from(*number as f32) == *number => {
            encode::write_f32(out, *number as f32).map_err(|e| failed(&e))?;
        }
        Value::Number(number) => encode::write_f64(out, *number).map_err(|e| failed(&e))?,
        Value::Boolean(value) => encode::write_bool(out, *value).map_err(|e| failed(&e))?,
        Value::Table(_) if depth >= SCRIPT_MSGPACK_DEPTH_MAX => {
            encode::write_nil(out).map_err(|e| failed(&e))?;
        }
        Value::Table(table) => {
            let pairs: Vec<(Value, Value)> = table
                .pairs::<Value, Value>()
                .collect::<mlua::Result<_>>()
                .map_err(|e| failed(&e))?;
            let len = table.raw_len();
            let in_list = |key: &Value| match key {
                Value::Number(at) => *at >= 1.0 && at.fract() == 0.0 && *at <= len as f64,
                Value::Integer(at) => *at >= 1 && *at <= len as i64,
                _ => false,
            };
            if len == pairs.len() && pairs.iter().all(|(key, _)| in_list(key)) && len > 0 {
                encode::write_array_len(out, len as u32).map_err(|e| failed(&e))?;
                for at in 1..=len {
                    let item: Value = table.raw_get(at).map_err(|e| failed(&e))?;
                    pack(&item, depth + 1, left, out)?;
                }
            } else {
                encode::write_map_len(out, pairs.len() as u32).map_err(|e| failed(&e))?;
                for (key, item) in &pairs {
                    pack(key, depth + 1, left, out)?;
                    pack(item, depth + 1, left, out)?;
                }
            }
        }
        _ => encode::write_nil(out).map_err(|e| failed(&e))?,
    }
    Ok(())
}

fn bad() -> String {
    "Bad data format in input.".to_owned()
}

fn missing() -> String {
    "Missing bytes in input.".to_owned()
}

fn take<'d>(data: &mut &'d [u8], len: usize) -> Result<&'d [u8], String> {
    let (part, rest) = data.split_at_checked(len).ok_or_else(missing)?;
    *data = rest;
    Ok(part)
}

fn big(data: &mut &[u8], size: usize) -> Result<u64, String> {
    let part = take(data, size)?;
    Ok(part.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// A value that has others or bytes in it.
enum Holder {
    Text,
    List,
    Map,
}

fn unpack(lua: &Lua, data: &mut &[u8], depth: usize) -> Result<Value, String> {
    if depth > SCRIPT_MSGPACK_DEPTH_MAX * 4 {
        return Err(bad());
    }
    let marker = read_marker(data).map_err(|_| missing())?;
    let number = |value: u64| Ok(Value::Number(value as f64));
    let (holder, len) = match marker {
        Marker::FixPos(value) => return number(value.into()),
        Marker::FixNeg(value) => return Ok(Value::Number(f64::from(value))),
        Marker::Null => return Ok(Value::Nil),
        Marker::True => return Ok(Value::Boolean(true)),
        Marker::False => return Ok(Value::Boolean(false)),
        Marker::U8 => return number(big(data, 1)?),
        Marker::U16 => return number(big(data, 2)?),
        Marker::U32 => return number(big(data, 4)?),
        Marker::U64 => return number(big(data, 8)?),
        Marker::I8 => return Ok(Value::Number(f64::from(big(data, 1)? as u8 as i8))),
        Marker::I16 => return Ok(Value::Number(f64::from(big(data, 2)? as u16 as i16))),
        Marker::I32 => return Ok(Value::Number(f64::from(big(data, 4)? as u32 as i32))),
        Marker::I64 => return Ok(Value::Number(big(data, 8)? as i64 as f64)),
        Marker::F32 => {
            return Ok(Value::Number(f64::from(f32::from_bits(big(data, 4)? as u32))));
        }
        Marker::F64 => return Ok(Value::Number(f64::from_bits(big(data, 8)?))),
        Marker::FixStr(len) => (Holder::Text, len.into()),
        Marker::Str8 | Marker::Bin8 => (Holder::Text, big(data, 1)?),
        Marker::Str16 | Marker::Bin16 => (Holder::Text, big(data, 2)?),
        Marker::Str32 | Marker::Bin32 => (Holder::Text, big(data, 4)?),
        Marker::FixArray(len) => (Holder::List, len.into()),
        Marker::Array16 => (Holder::List, big(data, 2)?),
        Marker::Array32 => (Holder::List, big(data, 4)?),
        Marker::FixMap(len) => (Holder::Map, len.into()),
        Marker::Map16 => (Holder::Map, big(data, 2)?),
        Marker::Map32 => (Holder::Map, big(data, 4)?),
        _ => return Err(bad()),
    };
    // Each item has a byte at least.
    let len = usize::try_from(len).ok().filter(|len| *len <= data.len()).ok_or_else(missing)?;
    match holder {
        Holder::Text => {
            let part = take(data, len)?;
            lua.create_string(part).map(Value::String).map_err(|error| error.to_string())
        }
        Holder::List => list(lua, data, len, depth),
        Holder::Map => map(lua, data, len, depth),
    }
}

fn list(lua: &Lua, data: &mut &[u8], len: usize, depth: usize) -> Result<Value, String> {
    let table = lua.create_table().map_err(|e| e.to_string())?;
    for at in 1..=len {
        let item = unpack(lua, data, depth + 1)?;
        table.raw_set(at, item).map_err(|e| e.to_string())?;
    }
    Ok(Value::Table(table))
}

fn map(lua: &Lua, data: &mut &[u8], len: usize, depth: usize) -> Result<Value, String> {
    let table = lua.create_table().map_err(|e| e.to_string())?;
    for _ in 0..len {
        let key = unpack(lua, data, depth + 1)?;
        let item = unpack(lua, data, depth + 1)?;
        match key {
            Value::Nil => return Err(bad()),
            Value::Number(number) if number.is_nan() => return Err(bad()),
            key => table.raw_set(key, item).map_err(|e| e.to_string())?,
        }
    }
    Ok(Value::Table(table))
}

/// So many values from a string, from an offset on.
fn unpack_some(
    lua: &Lua,
    text: Option<&Value>,
    (offset, most): (usize, usize),
) -> Result<(Vec<Value>, f64), String> {
    let Some(Value::String(text)) = text else {
        return Err("bad argument #1 to 'unpack' (string expected)".into());
    };
    let bytes = text.as_bytes();
    let all: &[u8] = &bytes;
    let mut data = all.get(offset..).ok_or("Start offset greater than input length")?;
    let mut values = Vec::new();
    while !data.is_empty() && values.len() < most {
        values.push(unpack(lua, &mut data, 0)?);
    }
    let next = if data.is_empty() { -1.0 } else { (all.len() - data.len()) as f64 };
    Ok((values, next))
}

/// Unpacks `most` values from an offset on; the offset of the next value comes first.
fn unpack_from(
    lua: &Lua,
    text: Option<&Value>,
    offset: Option<&Value>,
    most: usize,
) -> Result<Vec<Value>, String> {
    let offset = match offset {
        Some(Value::Integer(offset)) if *offset >= 0 => *offset as usize,
        Some(Value::Number(offset)) if *offset >= 0.0 => *offset as usize,
        None | Some(Value::Nil) => 0,
        Some(_) => return Err("Invalid request to unpack with offset of less than 0".into()),
    };
    let (mut values, next) = unpack_some(lua, text, (offset, most))?;
    values.insert(0, Value::Number(next));
    Ok(values)
}

/// The functions of the library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    library::add(lua, &table, "pack", |lua, args| {
        if args.is_empty() {
            return Err("bad argument #0 to 'pack' (MessagePack pack needs input.)".into());
        }
        let (mut out, mut left) = (Vec::new(), SCRIPT_TABLES_MAX);
        args.iter().try_for_each(|value| pack(value, 0, &mut left, &mut out))?;
        library::text(lua, out)
    })?;
    library::add(lua, &table, "unpack", |lua, args| {
        unpack_some(lua, args.first(), (0, usize::MAX)).map(|(values, _)| values)
    })?;
    library::add(lua, &table, "unpack_one", |lua, args| {
        unpack_from(lua, args.first(), args.get(1), 1)
    })?;
    library::add(lua, &table, "unpack_limit", |lua, args| {
        let most = match args.get(1) {
            Some(Value::Integer(most)) if *most >= 1 => *most as usize,
            _ => 1,
        };
        unpack_from(lua, args.first(), args.get(2), most)
    })?;
    Ok(table)
}
