//! The library `bit`: operations on 32 bits, as the one of LuaJIT has them.

use crate::library;
use mlua::{Lua, Table, Value};

/// A number by its lowest 32 bits.
fn bits(value: &Value) -> Option<i32> {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Number(number) => *number,
        Value::String(text) => text.to_str().ok()?.trim().parse().ok()?,
        _ => return None,
    };
    number
        .is_finite()
        .then(|| (number.rem_euclid(4_294_967_296.0).round_ties_even() as u64) as u32 as i32)
}

/// Values of all arguments.
fn all(args: &[Value]) -> Result<Vec<i32>, String> {
    args.iter().map(bits).collect::<Option<_>>().ok_or_else(|| "number expected".into())
}

/// Adds a function of the values of all arguments.
fn of_all(
    lua: &Lua,
    table: &Table,
    name: &str,
    f: impl Fn(&[i32]) -> Option<i32> + Send + 'static,
) -> mlua::Result<()> {
    library::add(lua, table, name, move |_, args| {
        let result = f(&all(args)?).ok_or("number expected")?;
        library::number(f64::from(result))
    })
}

/// Adds a shift by the lowest five bits of the second argument.
fn shift(lua: &Lua, table: &Table, name: &str, f: fn(u32, u32) -> u32) -> mlua::Result<()> {
    of_all(lua, table, name, move |v| Some(f(*v.first()? as u32, *v.get(1)? as u32 & 31) as i32))
}

fn to_hex(lua: &Lua, args: &[Value]) -> library::Answer {
    let values = all(args)?;
    let value = values.first().ok_or("number expected")?;
    let digits = values.get(1).copied().unwrap_or(8);
    let count = digits.unsigned_abs().min(8) as usize;
    let all = if digits < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    library::text(lua, &all[8 - count..])
}

/// The functions of the library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    of_all(lua, &table, "tobit", |v| v.first().copied())?;
    of_all(lua, &table, "bnot", |v| v.first().map(|value| !value))?;
    of_all(lua, &table, "band", |v| v.iter().copied().reduce(|a, b| a & b))?;
    of_all(lua, &table, "bor", |v| v.iter().copied().reduce(|a, b| a | b))?;
    of_all(lua, &table, "bxor", |v| v.iter().copied().reduce(|a, b| a ^ b))?;
    of_all(lua, &table, "bswap", |v| v.first().map(|value| value.swap_bytes()))?;
    shift(lua, &table, "lshift", |value, n| value << n)?;
    shift(lua, &table, "rshift", |value, n| value >> n)?;
    shift(lua, &table, "arshift", |value, n| ((value as i32) >> n) as u32)?;
    shift(lua, &table, "rol", u32::rotate_left)?;
    shift(lua, &table, "ror", u32::rotate_right)?;
    library::add(lua, &table, "tohex", to_hex)?;
    Ok(table)
}
