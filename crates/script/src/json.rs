//! The library `cjson`.

use crate::library;
use engine::limits::{SCRIPT_JSON_DEPTH_MAX, SCRIPT_TABLES_MAX};
use mlua::{Lua, Table, Value};
use serde_json::Value as Json;

/// The value that stands for `null`.
pub fn null() -> Value {
    Value::NULL
}

/// A number as `%.14g` writes it.
pub fn number(value: f64) -> Result<String, String> {
    if !value.is_finite() {
        return Err("Cannot serialise number: must not be NaN or Inf".into());
    }
    if value.fract() == 0.0 && value.abs() < 1e14 {
        return Ok(format!("{}", value as i64));
    }
    let text = format!("{value:.13e}");
    let (digits, exponent) = text.split_once('e').ok_or("Cannot serialise number")?;
    let exponent: i32 = exponent.parse().map_err(|_| "Cannot serialise number")?;
    if (-4..14).contains(&exponent) {
        let decimals = (13 - exponent).max(0) as usize;
        let plain = format!("{value:.decimals$}");
        return Ok(match plain.contains('.') {
            true => plain.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => plain,
        });
    }
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    let sign = if exponent < 0 { '-' } else { '+' };
    Ok(format!("{digits}e{sign}{:02}", exponent.unsigned_abs()))
}

fn string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=0x1f | 0x7f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
}

/// Number of items if the table is a list, by the rules for sparse ones.
fn list_len(table: &Table) -> Result<Option<usize>, String> {
    let (mut largest, mut items) = (0_usize, 0_usize);
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair.map_err(|e| e.to_string())?;
        let at = match key {
            Value::Integer(at) => at as f64,
            Value::Number(at) => at,
            _ => return Ok(None),
        };
        if at < 1.0 || at.fract() != 0.0 {
            return Ok(None);
        }
        largest = largest.max(at as usize);
        items += 1;
    }
    if items == 0 {
        return Ok(None);
    }
    if largest > 10 && largest / 2 > items {
        return Err("Cannot serialise table: excessively sparse array".into());
    }
    Ok(Some(largest))
}

fn encode(value: &Value, depth: usize, left: &mut usize, out: &mut Vec<u8>) -> Result<(), String> {
    library::check_len(out)?;
    if matches!(value, Value::Table(_)) {
        library::count_table(left)?;
    }
    match value {
        Value::String(text) => string(&text.as_bytes(), out),
        Value::Integer(value) => out.extend_from_slice(number(*value as f64)?.as_bytes()),
        Value::Number(value) => out.extend_from_slice(number(*value)?.as_bytes()),
        Value::Boolean(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Nil => out.extend_from_slice(b"null"),
        Value::LightUserData(_) if *value == Value::NULL => out.extend_from_slice(b"null"),
        Value::Table(_) if depth >= SCRIPT_JSON_DEPTH_MAX => {
            return Err(format!("Cannot serialise, excessive depth ({})", depth + 1));
        }
        Value::Table(table) => match list_len(table)? {
            Some(len) => {
                out.push(b'[');
                for at in 1..=len {
                    if at > 1 {
                        out.push(b',');
                    }
                    let item: Value = table.raw_get(at).map_err(|e| e.to_string())?;
                    encode(&item, depth + 1, left, out)?;
                }
                out.push(b']');
            }
            None => {
                out.push(b'{');
                for (at, pair) in table.pairs::<Value, Value>().enumerate() {
                    let (key, item) = pair.map_err(|e| e.to_string())?;
                    if at > 0 {
                        out.push(b',');
                    }
                    match key {
                        Value::String(text) => string(&text.as_bytes(), out),
                        Value::Number(key) => string(number(key)?.as_bytes(), out),
                        Value::Integer(key) => string(number(key as f64)?.as_bytes(), out),
                        _ => {
                            let text =
                                "Cannot serialise table: table key must be a number or string";
                            return Err(text.into());
                        }
                    }
                    out.push(b':');
                    encode(&item, depth + 1, left, out)?;
                }
                out.push(b'}');
            }
        },
        other => {
            return Err(format!("Cannot serialise {}: type not supported", other.type_name()));
        }
    }
    Ok(())
}

fn decoded(lua: &Lua, json: Json) -> mlua::Result<Value> {
    Ok(match json {
        Json::Null => Value::NULL,
        Json::Bool(value) => Value::Boolean(value),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(0.0)),
        Json::String(text) => Value::String(lua.create_string(text)?),
        Json::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (at, item) in items.into_iter().enumerate() {
                table.raw_set(at + 1, decoded(lua, item)?)?;
            }
            Value::Table(table)
        }
        Json::Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (name, item) in fields {
                table.raw_set(lua.create_string(name)?, decoded(lua, item)?)?;
            }
            Value::Table(table)
        }
    })
}

fn decode(lua: &Lua, args: &[Value]) -> Result<Vec<Value>, String> {
    let text = match args {
        [Value::String(text)] => text.as_bytes().to_vec(),
        [Value::Number(value)] => number(*value)?.into_bytes(),
        [Value::Integer(value)] => number(*value as f64)?.into_bytes(),
        _ => return Err("bad argument #1 to 'decode' (string expected)".into()),
    };
    let json: Json = serde_json::from_slice(&text).map_err(|error| {
        format!("Expected value but found invalid token at character {}", error.column())
    })?;
    Ok(vec![decoded(lua, json).map_err(|e| e.to_string())?])
}

/// The functions of the library. Its settings are accepted and have one value.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    library::add(lua, &table, "encode", |lua, args| {
        let [value] = args else { return Err("expected 1 argument".into()) };
        let (mut out, mut left) = (Vec::new(), SCRIPT_TABLES_MAX);
        encode(value, 0, &mut left, &mut out)?;
        library::text(lua, out)
    })?;
    library::add(lua, &table, "decode", decode)?;
    let depth = SCRIPT_JSON_DEPTH_MAX as f64;
    for (name, value) in [
        ("encode_max_depth", depth),
        ("decode_max_depth", depth),
        ("encode_number_precision", 14.0),
        ("encode_keep_buffer", 1.0),
    ] {
        library::add(lua, &table, name, move |_, _| library::number(value))?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_fourteen_digits_as_cjson_writes_them() {
        let cases = [
            (1.0, "1"),
            (-17.0, "-17"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.33333333333333"),
            (3.3, "3.3"),
            (1e14, "1e+14"),
            (123_456_789_012_345.0, "1.2345678901234e+14"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (1e100, "1e+100"),
            (99_999_999_999_999.9, "1e+14"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value).unwrap(), text);
        }
    }
}
