//! The library `cmsgpack`.

use super::structs::answer;
use mlua::{Lua, Table, Value, Variadic};
use rmp::Marker;
use rmp::decode::read_marker;
use rmp::encode;

/// Deepest nesting that is read or written.
const DEPTH_MAX: usize = 16;

fn pack(value: &Value, depth: usize, left: &mut usize, out: &mut Vec<u8>) -> Result<(), String> {
    super::structs::check_len(out)?;
    if matches!(value, Value::Table(_)) {
        *left = left.checked_sub(1).ok_or(super::structs::TOO_MANY_TABLES)?;
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
        Value::Table(_) if depth >= DEPTH_MAX => {
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

fn unpack(lua: &Lua, data: &mut &[u8], depth: usize) -> Result<Value, String> {
    if depth > DEPTH_MAX * 4 {
        return Err(bad());
    }
    let marker = read_marker(data).map_err(|_| missing())?;
    let failed = |error: mlua::Error| error.to_string();
    let number = |value: u64| Value::Number(value as f64);
    let text = |data: &mut &[u8], len: u64| {
        let part = take(data, usize::try_from(len).map_err(|_| missing())?)?;
        lua.create_string(part).map(Value::String).map_err(failed)
    };
    Ok(match marker {
        Marker::FixPos(value) => number(value.into()),
        Marker::FixNeg(value) => Value::Number(f64::from(value)),
        Marker::Null => Value::Nil,
        Marker::True => Value::Boolean(true),
        Marker::False => Value::Boolean(false),
        Marker::U8 => number(big(data, 1)?),
        Marker::U16 => number(big(data, 2)?),
        Marker::U32 => number(big(data, 4)?),
        Marker::U64 => number(big(data, 8)?),
        Marker::I8 => Value::Number(f64::from(big(data, 1)? as u8 as i8)),
        Marker::I16 => Value::Number(f64::from(big(data, 2)? as u16 as i16)),
        Marker::I32 => Value::Number(f64::from(big(data, 4)? as u32 as i32)),
        Marker::I64 => Value::Number(big(data, 8)? as i64 as f64),
        Marker::F32 => Value::Number(f64::from(f32::from_bits(big(data, 4)? as u32))),
        Marker::F64 => Value::Number(f64::from_bits(big(data, 8)?)),
        Marker::FixStr(len) => text(data, len.into())?,
        Marker::Str8 | Marker::Bin8 => {
            let len = big(data, 1)?;
            text(data, len)?
        }
        Marker::Str16 | Marker::Bin16 => {
            let len = big(data, 2)?;
            text(data, len)?
        }
        Marker::Str32 | Marker::Bin32 => {
            let len = big(data, 4)?;
            text(data, len)?
        }
        Marker::FixArray(len) => list(lua, data, len.into(), depth)?,
        Marker::Array16 => {
            let len = big(data, 2)?;
            list(lua, data, len, depth)?
        }
        Marker::Array32 => {
            let len = big(data, 4)?;
            list(lua, data, len, depth)?
        }
        Marker::FixMap(len) => map(lua, data, len.into(), depth)?,
        Marker::Map16 => {
            let len = big(data, 2)?;
            map(lua, data, len, depth)?
        }
        Marker::Map32 => {
            let len = big(data, 4)?;
            map(lua, data, len, depth)?
        }
        _ => return Err(bad()),
    })
}

fn list(lua: &Lua, data: &mut &[u8], len: u64, depth: usize) -> Result<Value, String> {
    if len > data.len() as u64 {
        return Err(missing());
    }
    let table = lua.create_table().map_err(|e| e.to_string())?;
    for at in 1..=len {
        let item = unpack(lua, data, depth + 1)?;
        table.raw_set(at, item).map_err(|e| e.to_string())?;
    }
    Ok(Value::Table(table))
}

fn map(lua: &Lua, data: &mut &[u8], len: u64, depth: usize) -> Result<Value, String> {
    if len > data.len() as u64 {
        return Err(missing());
    }
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

fn unpack_some(
    lua: &Lua,
    args: &[Value],
    most: usize,
    tells_offset: bool,
) -> Result<Vec<Value>, String> {
    let Some(Value::String(text)) = args.first() else {
        return Err("bad argument #1 to 'unpack' (string expected)".into());
    };
    let offset = match args.get(if most == usize::MAX || most == 1 { 1 } else { 2 }) {
        Some(Value::Number(offset)) if tells_offset && *offset >= 0.0 => *offset as usize,
        None | Some(Value::Nil) => 0,
        Some(_) if tells_offset => {
            return Err("Invalid request to unpack with offset of less than 0".into());
        }
        Some(_) => 0,
    };
    let bytes = text.as_bytes();
    let all: &[u8] = &bytes;
    let mut data = all.get(offset..).ok_or("Start offset greater than input length")?;
    let mut values = Vec::new();
    while !data.is_empty() && values.len() < most {
        values.push(unpack(lua, &mut data, 0)?);
    }
    if tells_offset {
        let at = if data.is_empty() { -1.0 } else { (all.len() - data.len()) as f64 };
        values.insert(0, Value::Number(at));
    }
    Ok(values)
}

/// The functions of the library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let packed = lua.create_function(|lua, args: Variadic<Value>| {
        let (mut out, mut left) = (Vec::new(), super::structs::TABLES_MAX);
        let packed = match args.is_empty() {
            true => Err("bad argument #0 to 'pack' (MessagePack pack needs input.)".to_owned()),
            false => args.iter().try_for_each(|value| pack(value, 0, &mut left, &mut out)),
        };
        let packed = packed.and_then(|()| {
            lua.create_string(out).map(|s| vec![Value::String(s)]).map_err(|e| e.to_string())
        });
        answer(lua, packed)
    })?;
    table.raw_set("pack", packed)?;
    let unpacked = lua.create_function(|lua, args: Variadic<Value>| {
        let values = unpack_some(lua, &args, usize::MAX, false);
        answer(lua, values)
    })?;
    table.raw_set("unpack", unpacked)?;
    let one = lua.create_function(|lua, args: Variadic<Value>| {
        let values = unpack_some(lua, &args, 1, true);
        answer(lua, values)
    })?;
    table.raw_set("unpack_one", one)?;
    let limited = lua.create_function(|lua, args: Variadic<Value>| {
        let most = match args.get(1) {
            Some(Value::Number(most)) if *most >= 0.0 => *most as usize,
            _ => 1,
        };
        let values = unpack_some(lua, &args, most.max(1), true);
        answer(lua, values)
    })?;
    table.raw_set("unpack_limit", limited)?;
    Ok(table)
}
