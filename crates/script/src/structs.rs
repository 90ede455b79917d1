//! The library `struct`: values as bytes in a given layout.

use crate::library;
use mlua::{Lua, Table, Value};

/// One item of a layout.
#[derive(Clone, Copy)]
enum Item {
    Int {
        size: usize,
        signed: bool,
    },
    Float,
    Double,
    /// Bytes of a fixed number, or as many as the number before says.
    Bytes(Option<usize>),
    /// Bytes up to a zero.
    Zeroed,
    Pad,
}

/// Reader of a layout, with its byte order.
struct Layout<'f> {
    format: &'f [u8],
    at: usize,
    little: bool,
    align: usize,
}

impl<'f> Layout<'f> {
    fn new(format: &'f [u8]) -> Self {
        Self { format, at: 0, little: true, align: 1 }
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.format[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let text = std::str::from_utf8(&self.format[self.at..self.at + digits]).ok()?;
        self.at += digits;
        text.parse().ok()
    }

    fn size(&mut self, default: usize) -> Result<usize, String> {
        match self.number().unwrap_or(default) {
            size @ 1..=8 => Ok(size),
            size => Err(format!("integral size {size} is larger than limit of 8")),
        }
    }

    /// The next item, and its alignment.
    fn next(&mut self) -> Result<Option<(Item, usize)>, String> {
        while let Some(code) = self.format.get(self.at) {
            self.at += 1;
            let int = |size, signed| Ok(Some((Item::Int { size, signed }, size)));
            return match code {
                b' ' => continue,
                b'<' => {
                    self.little = true;
                    continue;
                }
                b'>' => {
                    self.little = false;
                    continue;
                }
                b'=' => {
                    self.little = true;
                    continue;
                }
                b'!' => {
                    let align = self.number().unwrap_or(8);
                    if !align.is_power_of_two() || align > 16 {
                        return Err("alignment is not a power of 2".into());
                    }
                    self.align = align;
                    continue;
                }
                b'b' => int(1, true),
                b'B' => int(1, false),
                b'h' => int(2, true),
                b'H' => int(2, false),
                b'l' => int(8, true),
                b'L' | b'T' => int(8, false),
                b'i' => int(self.size(4)?, true),
                b'I' => int(self.size(4)?, false),
                b'f' => Ok(Some((Item::Float, 4))),
                b'd' | b'n' => Ok(Some((Item::Double, 8))),
                b's' => Ok(Some((Item::Zeroed, 1))),
                b'c' => match self.number() {
                    Some(0) => Ok(Some((Item::Bytes(None), 1))),
                    number => Ok(Some((Item::Bytes(Some(number.unwrap_or(1))), 1))),
                },
                b'x' => Ok(Some((Item::Pad, 1))),
                _ => Err(format!("invalid format option '{}'", char::from(*code))),
            };
        }
        Ok(None)
    }

    /// Bytes that bring a place to the alignment of an item.
    fn padding(&self, place: usize, size: usize) -> usize {
        let align = size.min(self.align).max(1);
        if align <= 1 { 0 } else { (align - place % align) % align }
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8], little: bool) {
    if little {
        out.extend_from_slice(bytes);
    } else {
        out.extend(bytes.iter().rev());
    }
}

fn number_of(value: Option<&Value>) -> Result<f64, String> {
    match value {
        Some(Value::Number(number)) => Ok(*number),
        Some(Value::Integer(number)) => Ok(*number as f64),
        Some(Value::String(text)) => {
            text.to_string_lossy().trim().parse().map_err(|_| "number expected".to_owned())
        }
        _ => Err("number expected".into()),
    }
}

/// A text, or a number as Lua 5.1 writes it.
fn text_of(value: Option<&Value>) -> Result<Vec<u8>, String> {
    match value {
        Some(Value::String(text)) => Ok(text.as_bytes().to_vec()),
        Some(Value::Number(number)) => Ok(crate::json::number(*number)?.into_bytes()),
        Some(Value::Integer(number)) => Ok(crate::json::number(*number as f64)?.into_bytes()),
        _ => Err("string expected".into()),
    }
}

fn pack(args: &[Value]) -> Result<Vec<u8>, String> {
    let Some(Value::String(format)) = args.first() else { return Err("string expected".into()) };
    let format = format.as_bytes().to_vec();
    let mut layout = Layout::new(&format);
    let mut rest = args[1..].iter();
    let mut out = Vec::new();
    while let Some((item, size)) = layout.next()? {
        library::check_len(&out)?;
        let padding = layout.padding(out.len(), size);
        out.extend(std::iter::repeat_n(0, padding));
        match item {
            Item::Pad => out.push(0),
            Item::Int { size, .. } => {
                let number = number_of(rest.next())?;
                let number = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                put(&mut out, &number.to_le_bytes()[..size], layout.little);
            }
            Item::Float => {
                let number = number_of(rest.next())? as f32;
                put(&mut out, &number.to_le_bytes(), layout.little);
            }
            Item::Double => {
                put(&mut out, &number_of(rest.next())?.to_le_bytes(), layout.little);
            }
            Item::Bytes(len) => {
                let text = text_of(rest.next())?;
                let len = len.unwrap_or(text.len());
                let part = text.get(..len).ok_or("string too short")?;
                out.extend_from_slice(part);
            }
            Item::Zeroed => {
                out.extend_from_slice(&text_of(rest.next())?);
                out.push(0);
            }
        }
    }
    Ok(out)
}

fn unpack(lua: &Lua, args: &[Value]) -> Result<Vec<Value>, String> {
    let (Some(Value::String(format)), Some(Value::String(data))) = (args.first(), args.get(1))
    else {
        return Err("string expected".into());
    };
    let (format, data) = (format.as_bytes().to_vec(), data.as_bytes());
    let from = match args.get(2) {
        None | Some(Value::Nil) => 1.0,
        value => number_of(value)?,
    };
    if from < 1.0 {
        return Err("offset must be 1 or greater".into());
    }
    let mut at = from as usize - 1;
    let mut layout = Layout::new(&format);
    let mut values: Vec<Value> = Vec::new();
    let string =
        |bytes: &[u8]| lua.create_string(bytes).map(Value::String).map_err(|e| e.to_string());
    while let Some((item, size)) = layout.next()? {
        at = at.saturating_add(layout.padding(at, size));
        let fixed = match item {
            Item::Pad => 1,
            Item::Int { size, .. } => size,
            Item::Float => 4,
            Item::Double => 8,
            Item::Bytes(Some(len)) => len,
            Item::Bytes(None) => match values.pop() {
                Some(Value::Integer(len)) if len >= 0 => len as usize,
                Some(Value::Number(len)) if len >= 0.0 => len as usize,
                _ => return Err("format 'c0' needs a previous size".into()),
            },
            Item::Zeroed => 0,
        };
        let part =
            data.get(at..).and_then(|rest| rest.get(..fixed)).ok_or("data string too short")?;
        at += fixed;
        let mut ordered = [0; 8];
        if fixed <= 8 {
            ordered[..fixed].copy_from_slice(part);
            if !layout.little {
                ordered[..fixed].reverse();
            }
        }
        let value = match item {
            Item::Pad => continue,
            Item::Int { size, signed } => {
                let number = u64::from_le_bytes(ordered);
                let unused = 64 - 8 * size as u32;
                let number = if signed {
                    ((number << unused) as i64 >> unused) as f64
                } else {
                    number as f64
                };
                Value::Number(number)
            }
            Item::Float => {
                let bytes = [ordered[0], ordered[1], ordered[2], ordered[3]];
                Value::Number(f64::from(f32::from_le_bytes(bytes)))
            }
            Item::Double => Value::Number(f64::from_le_bytes(ordered)),
            Item::Bytes(_) => string(part)?,
            Item::Zeroed => {
                let rest = &data[at..];
                let len = rest.iter().position(|b| *b == 0).ok_or("unfinished string in data")?;
                at += len + 1;
                string(&rest[..len])?
            }
        };
        values.push(value);
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(values)
}

fn size(args: &[Value]) -> Result<usize, String> {
    let Some(Value::String(format)) = args.first() else { return Err("string expected".into()) };
    let format = format.as_bytes().to_vec();
    let mut layout = Layout::new(&format);
    let mut total = 0_usize;
    while let Some((item, size)) = layout.next()? {
        total += layout.padding(total, size);
        total += match item {
            Item::Pad => 1,
            Item::Int { size, .. } => size,
            Item::Float => 4,
            Item::Double => 8,
            Item::Bytes(Some(len)) => len,
            Item::Bytes(None) | Item::Zeroed => return Err("variable-size format in 'size'".into()),
        };
    }
    Ok(total)
}

/// The functions of the library.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    library::add(lua, &table, "pack", |lua, args| library::text(lua, pack(args)?))?;
    library::add(lua, &table, "unpack", unpack)?;
    library::add(lua, &table, "size", |_, args| library::number(size(args)? as f64))?;
    Ok(table)
}
