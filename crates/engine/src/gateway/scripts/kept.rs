//! Libraries of functions in the store.
//!
//! All libraries are one record of the store's own: a hash with the texts of libraries by their names, and
//! with a description of each function by its name. So a library is loaded, replaced and removed in one step,
//! and a call of a function reads which text it has in the transaction in which it runs.

use crate::ids::KeyedOp;
use crate::limits::{LIBRARIES_BYTES_MAX, LIBRARIES_MAX, LIBRARY_FUNCTIONS_MAX};
use crate::script::keys::{field, functions_key, on_own};
use crate::script::{Library, LibraryFunction, ScriptName};
use adt::{Blob, ErrorReply, Reply};

/// First byte of the fields with texts of libraries.
pub(super) const LIBRARY: u8 = b'l';
/// First byte of the fields with descriptions of functions.
pub(super) const FUNCTION: u8 = b'f';

/// Description of a function in the store.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::gateway) struct Kept {
    /// Name of the library.
    pub owner: Blob,
    /// Name of the library's text.
    pub text: ScriptName,
    pub function: LibraryFunction,
}

/// The error for a function that no library has.
pub(in crate::gateway) fn not_found() -> ErrorReply {
    ErrorReply::err("Function not found")
}

/// The error for a function that may write, where it must not.
pub(in crate::gateway) fn writes() -> ErrorReply {
    ErrorReply::err("Can not execute a script with write flag using *_ro command.")
}

/// The error for more libraries than there may be.
pub(super) fn too_many() -> ErrorReply {
    ErrorReply::err(format!(
        "all libraries together have at most {LIBRARIES_BYTES_MAX} bytes and {LIBRARY_FUNCTIONS_MAX} \
         functions, and there are at most {LIBRARIES_MAX}"
    ))
}

/// Operation on the record of all libraries.
pub(super) fn on_all(words: &[&[u8]]) -> KeyedOp {
    on_own(functions_key(), words)
}

/// A read of the description of a function.
pub(in crate::gateway) fn read(name: &Blob) -> KeyedOp {
    on_all(&[b"hget", &field(FUNCTION, name)])
}

/// A read of the text of a library.
pub(in crate::gateway) fn read_text(name: &Blob) -> KeyedOp {
    on_all(&[b"hget", &field(LIBRARY, name)])
}

/// Description of a function, from the reply of [`read`].
pub(in crate::gateway) fn found(name: &Blob, reply: &Reply) -> Result<Kept, ErrorReply> {
    match reply {
        Reply::Bulk(fact) => fact_of(name, fact).ok_or_else(not_found),
        Reply::Error(error) => Err(error.clone()),
        _ => Err(not_found()),
    }
}

/// The value of a function's field: name of the text, name of the library, flags, and a description if there
/// is one.
pub(super) fn fact(library: &Library, function: &LibraryFunction) -> Vec<u8> {
    let flags: Vec<&[u8]> = function.flags.iter().map(|flag| &**flag).collect();
    let mut fact = [&library.text[..], &library.name, &flags.join(&b',')].join(&b' ');
    if let Some(description) = &function.description {
        fact.push(b' ');
        fact.extend_from_slice(description);
    }
    fact
}

/// Description of a function, from the value of its field.
pub(super) fn fact_of(name: &Blob, fact: &[u8]) -> Option<Kept> {
    let mut words = fact.splitn(4, |b| *b == b' ');
    let text: ScriptName = words.next()?.try_into().ok()?;
    let owner = Blob::new(words.next()?);
    let flags = words.next()?.split(|b| *b == b',').filter(|flag| !flag.is_empty());
    let flags = flags.map(Blob::new).collect();
    let description = words.next().map(Blob::new);
    let function = LibraryFunction { name: name.clone(), description, flags };
    Some(Kept { owner, text, function })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_function_is_read_back() {
        let library = Library { name: Blob::from("l"), text: [b'a'; 40], functions: Vec::new() };
        for (description, flags) in [
            (None, vec![]),
            (Some("two words"), vec!["no-writes", "allow-oom"]),
            (Some(""), vec!["no-writes"]),
        ] {
            let function = LibraryFunction {
                name: Blob::from("f"),
                description: description.map(Blob::from),
                flags: flags.into_iter().map(Blob::from).collect(),
            };
            let kept = Kept { owner: library.name.clone(), text: library.text, function };
            let fact = fact(&library, &kept.function);
            assert_eq!(fact_of(&kept.function.name, &fact), Some(kept));
        }
        assert_eq!(fact_of(&Blob::from("f"), b"short"), None);
    }
}
