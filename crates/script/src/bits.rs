//! The library `bit`: operations on 32 bits, as the one of LuaJIT has them.

use mlua::{Lua, Table, Value, Variadic};

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

type Answer = mlua::Result<(bool, Value)>;

fn wrong() -> &'static str {
    "number expected"
}

/// A function of the values of all arguments.
fn of_all(lua: &Lua, f: impl Fn(&[i32]) -> Option<i32> + Send + 'static) -> mlua::Result<Value> {
    let function = lua.create_function(move |lua, args: Variadic<Value>| -> Answer {
        let values: Option<Vec<i32>> = args.iter().map(bits).collect();
        match values.and_then(|values| f(&values)) {
            Some(result) => Ok((true, Value::Number(f64::from(result)))),
            None => Ok((false, Value::String(lua.create_string(wrong())?))),
        }
    });
    function.map(Value::Function)
}

/// A shift by the lowest five bits of the second argument.
fn shift(lua: &Lua, f: fn(u32, u32) -> u32) -> mlua::Result<Value> {
    of_all(lua, move |v| Some(f(*v.first()? as u32, *v.get(1)? as u32 & 31) as i32))
}

fn to_hex(lua: &Lua, args: Variadic<Value>) -> Answer {
    let Some(value) = args.first().and_then(bits) else {
        return Ok((false, Value::String(lua.create_string(wrong())?)));
    };
    let digits = args.get(1).and_then(bits).unwrap_or(8);
    let upper = digits < 0;
    let count = digits.unsigned_abs().min(8) as usize;
    let all = if upper { format!("{value:08X}") } else { format!("{value:08x}") };
    Ok((true, Value::String(lua.create_string(&all[8 - count..])?)))
}

/// The functions of the library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("tobit", of_all(lua, |v| v.first().copied())?)?;
    table.raw_set("bnot", of_all(lua, |v| v.first().map(|value| !value))?)?;
    table.raw_set("band", of_all(lua, |v| v.iter().copied().reduce(|a, b| a & b))?)?;
    table.raw_set("bor", of_all(lua, |v| v.iter().copied().reduce(|a, b| a | b))?)?;
    table.raw_set("bxor", of_all(lua, |v| v.iter().copied().reduce(|a, b| a ^ b))?)?;
    table.raw_set("bswap", of_all(lua, |v| v.first().map(|value| value.swap_bytes()))?)?;
    table.raw_set("lshift", shift(lua, |value, n| value << n)?)?;
    table.raw_set("rshift", shift(lua, |value, n| value >> n)?)?;
    table.raw_set("arshift", shift(lua, |value, n| ((value as i32) >> n) as u32)?)?;
    table.raw_set("rol", shift(lua, u32::rotate_left)?)?;
    table.raw_set("ror", shift(lua, u32::rotate_right)?)?;
    table.raw_set("tohex", lua.create_function(to_hex)?)?;
    Ok(table)
}
