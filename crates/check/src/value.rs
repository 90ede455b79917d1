//! Replies in the form that the checkers use, their JSON form, and their equivalence.

use serde_json::{Map, Number, Value as Json, json};
use std::fmt;

/// A reply, or a part of one. It represents the content, not the encoding: RESP2 and RESP3 forms of
/// one answer [agree](Value::agrees).
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Nil,
    /// A signed integer; truth values are 0 and 1.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A byte string or a status such as `OK`.
    Text(Vec<u8>),
    /// A sequence or an unordered collection.
    List(Vec<Value>),
    /// Pairs.
    Map(Vec<(Value, Value)>),
    /// An error: a code, then a text for people.
    Error(String),
}

impl Value {
    /// The status `OK`.
    pub fn ok() -> Self {
        Self::text("OK")
    }

    /// A byte string copied from `bytes`.
    pub fn text(bytes: impl AsRef<[u8]>) -> Self {
        Self::Text(bytes.as_ref().to_vec())
    }

    /// Whether this is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// Whether two replies are equivalent. Numbers agree with their decimal text, a map agrees with
    /// its flat list and with a list of pairs, and errors agree if their codes do.
    pub fn agrees(&self, other: &Self) -> bool {
        if self.is_aggregate() || other.is_aggregate() {
            return self.is_aggregate()
                && other.is_aggregate()
                && scalars_agree(&self.flat(), &other.flat());
        }
        self.scalar_agrees(other)
    }

    /// As [`Value::agrees`], for replies whose elements have no order, in groups of `group`: 1 for
    /// members, 2 for fields with values.
    pub fn agrees_unordered(&self, other: &Self, group: usize) -> bool {
        if !self.is_aggregate() || !other.is_aggregate() {
            return self.agrees(other);
        }
        // Readers are compared with every state in the history, and few have as many elements.
        if self.scalars() != other.scalars() {
            return false;
        }
        let sorted = |value: &Self| {
            let flat = value.flat();
            let mut groups: Vec<Vec<Value>> = flat.chunks(group).map(<[_]>::to_vec).collect();
            groups.sort_by_cached_key(|part| part.iter().map(Value::canonical).collect::<Vec<_>>());
            groups.concat()
        };
        scalars_agree(&sorted(self), &sorted(other))
    }

    /// Number of scalars.
    fn scalars(&self) -> usize {
        match self {
            Self::List(items) => items.iter().map(Self::scalars).sum(),
            Self::Map(pairs) => pairs.iter().map(|(k, v)| k.scalars() + v.scalars()).sum(),
            _ => 1,
        }
    }

    /// All scalars in order, without structure.
    pub fn flat(&self) -> Vec<Value> {
        fn walk(value: &Value, out: &mut Vec<Value>) {
            match value {
                Value::List(items) => items.iter().for_each(|item| walk(item, out)),
                Value::Map(pairs) => pairs.iter().for_each(|(key, value)| {
                    walk(key, out);
                    walk(value, out);
                }),
                scalar => out.push(scalar.clone()),
            }
        }
        let mut out = Vec::new();
        walk(self, &mut out);
        out
    }

    /// Bytes of a scalar: text as it is, numbers in decimal.
    pub fn canonical(&self) -> Vec<u8> {
        match self {
            Self::Text(bytes) => bytes.clone(),
            Self::Int(number) => number.to_string().into_bytes(),
            Self::Float(number) => format!("{number}").into_bytes(),
            other => other.to_string().into_bytes(),
        }
    }

    fn is_aggregate(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(_))
    }

    fn scalar_agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Error(a), Self::Error(b)) => code(a) == code(b),
            (Self::Nil, Self::Nil) => true,
            (Self::Nil | Self::Error(_), _) | (_, Self::Nil | Self::Error(_)) => false,
            (a, b) => match (a.number(), b.number()) {
                (Some(a), Some(b)) => a == b,
                _ => false,
            },
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            Self::Text(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
            _ => None,
        }
    }

    /// The JSON form: `null`, numbers (a float keeps its decimal point), strings, arrays, and
    /// objects with one field for what JSON lacks: `{"map":[[k,v],...]}`, `{"error":"..."}`,
    /// `{"float":"inf"}`, `{"hex":"00ff"}` for bytes that are not UTF-8.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Nil => Json::Null,
            Self::Int(number) => json!(number),
            Self::Float(number) => match Number::from_f64(*number) {
                Some(number) => Json::Number(number),
                None => json!({"float": number.to_string()}),
            },
            Self::Text(bytes) => bytes_to_json(bytes),
            Self::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Self::Map(pairs) => {
                let pairs: Vec<Json> =
                    pairs.iter().map(|(k, v)| json!([k.to_json(), v.to_json()])).collect();
                json!({"map": pairs})
            }
            Self::Error(text) => json!({"error": text}),
        }
    }

    /// Reads the output of [`Value::to_json`]. `true` and `false` are read as 1 and 0.
    ///
    /// # Errors
    /// A sentence that names the permitted forms.
    pub fn from_json(json: &Json) -> Result<Self, String> {
        match json {
            Json::Null => Ok(Self::Nil),
            Json::Bool(truth) => Ok(Self::Int(i64::from(*truth))),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Ok(Self::Int(number)),
                None => number
                    .as_f64()
                    .map(Self::Float)
                    .ok_or_else(|| format!("number {number} is out of range")),
            },
            Json::String(text) => Ok(Self::text(text)),
            Json::Array(items) => {
                Ok(Self::List(items.iter().map(Self::from_json).collect::<Result<_, _>>()?))
            }
            Json::Object(fields) => object_from_json(fields),
        }
    }
}

/// The JSON form of a byte string: a string, or `{"hex":"..."}` if it is not UTF-8.
pub(crate) fn bytes_to_json(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({"hex": hex})
        }
    }
}

fn object_from_json(fields: &Map<String, Json>) -> Result<Value, String> {
    const ALLOWED: &str = "an object in a reply has one field: map, error, float or hex";
    let mut entries = fields.iter();
    let (Some((name, value)), None) = (entries.next(), entries.next()) else {
        return Err(ALLOWED.to_owned());
    };
    match (name.as_str(), value) {
        ("error", Json::String(text)) => Ok(Value::Error(text.clone())),
        ("float", Json::String(text)) => {
            text.parse().map(Value::Float).map_err(|_| format!("{text:?} is no float"))
        }
        ("hex", Json::String(text)) => hex(text).map(Value::Text),
        ("map", Json::Array(pairs)) => {
            let mut out = Vec::new();
            for pair in pairs {
                match pair.as_array().map(Vec::as_slice) {
                    Some([key, value]) => {
                        out.push((Value::from_json(key)?, Value::from_json(value)?));
                    }
                    _ => return Err("a map is a list of [key, value] pairs".to_owned()),
                }
            }
            Ok(Value::Map(out))
        }
        _ => Err(ALLOWED.to_owned()),
    }
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    text.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect::<Option<_>>()
        .ok_or_else(|| format!("{text:?} is not an even number of hexadecimal digits"))
}

fn scalars_agree(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.scalar_agrees(b))
}

fn code(error: &str) -> &str {
    error.split(' ').next().unwrap_or_default()
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number:?}"),
            Self::Text(bytes) => f.write_str(&show_word(bytes)),
            Self::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { " " })?;
                }
                f.write_str("]")
            }
            Self::Map(pairs) => {
                f.write_str("{")?;
                for (i, (key, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{key} {value}", if i == 0 { "" } else { " " })?;
                }
                f.write_str("}")
            }
            Self::Error(text) => write!(f, "!{}", text.replace(' ', "_")),
        }
    }
}

/// A word as people read it: bare if it is plain, else quoted and escaped.
pub(crate) fn show_word(word: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.:+*()/".contains(byte);
    match std::str::from_utf8(word) {
        Ok(text) if !word.is_empty() && word.iter().all(plain) => text.to_owned(),
        _ => format!("\"{}\"", word.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_every_value() {
        let values = [
            Value::Nil,
            Value::Int(-7),
            Value::Float(2.0),
            Value::Float(f64::INFINITY),
            Value::text("a b"),
            Value::text([0xff, 0x00]),
            Value::List(vec![Value::Int(1), Value::Nil]),
            Value::Map(vec![(Value::text("f"), Value::List(vec![]))]),
            Value::Error("WRONGTYPE no".to_owned()),
        ];
        for value in values {
            let line = value.to_json().to_string();
            let back = Value::from_json(&serde_json::from_str(&line).unwrap()).unwrap();
            assert_eq!(back, value, "{line}");
        }
    }

    #[test]
    fn bad_objects_are_refused_with_what_is_allowed() {
        for text in [r#"{"hex":"0"}"#, r#"{"map":[1]}"#, r#"{"a":1}"#, r#"{"float":"x"}"#, "{}"] {
            assert!(Value::from_json(&serde_json::from_str(text).unwrap()).is_err(), "{text}");
        }
    }

    #[test]
    fn forms_of_one_answer_agree_and_others_do_not() {
        let pairs = Value::List(vec![Value::List(vec![Value::text("m"), Value::Float(1.0)])]);
        let flat = Value::List(vec![Value::text("m"), Value::text("1")]);
        assert!(pairs.agrees(&flat));
        assert!(Value::Int(1).agrees(&Value::text("1")));
        assert!(!Value::text("01").agrees(&Value::text("1")));
        assert!(!Value::Nil.agrees(&Value::List(vec![])));
        assert!(!Value::Nil.agrees(&Value::text("nil")));
        let [ab, ba] = [["a", "b"], ["b", "a"]]
            .map(|items| Value::List(items.iter().map(Value::text).collect()));
        assert!(!ab.agrees(&ba));
        assert!(ab.agrees_unordered(&ba, 1));
    }
}
