//! Libraries of functions that scripts call.

use engine::limits::{SCRIPT_MEMORY_BYTES_MAX, SCRIPT_TABLES_MAX};
use mlua::{Lua, MultiValue, Table, Value, Variadic};

/// Result of a library function: the values that it returns, or the text of the error raised at its call.
pub type Answer = Result<Vec<Value>, String>;

/// Adds a function to a library.
pub fn add(
    lua: &Lua,
    library: &Table,
    name: &str,
    f: impl Fn(&Lua, &[Value]) -> Answer + Send + 'static,
) -> mlua::Result<()> {
    let function = lua.create_function(move |lua, args: Variadic<Value>| {
        let (ok, values) = match f(lua, &args) {
            Ok(values) => (true, values),
            Err(text) => (false, vec![Value::String(lua.create_string(text)?)]),
        };
        Ok(std::iter::once(Value::Boolean(ok)).chain(values).collect::<MultiValue>())
    })?;
    library.raw_set(name, function)
}

/// A string as the only value of an answer.
pub fn text(lua: &Lua, bytes: impl AsRef<[u8]>) -> Answer {
    let string = lua.create_string(bytes).map_err(|error| error.to_string())?;
    Ok(vec![Value::String(string)])
}

/// A number as the only value of an answer.
pub fn number(value: f64) -> Answer {
    Ok(vec![Value::Number(value)])
}

/// Checks a text that is being made against a script's limit of memory, which does not see it yet: few tables
/// that are in one another many times are a long text.
pub fn check_len(out: &[u8]) -> Result<(), String> {
    if out.len() > SCRIPT_MEMORY_BYTES_MAX {
        return Err(format!("result exceeds the limit of {SCRIPT_MEMORY_BYTES_MAX} bytes"));
    }
    Ok(())
}

/// Counts a table that is made into a text.
pub fn count_table(left: &mut usize) -> Result<(), String> {
    let too_many = || format!("result exceeds the limit of {SCRIPT_TABLES_MAX} tables");
    *left = left.checked_sub(1).ok_or_else(too_many)?;
    Ok(())
}
