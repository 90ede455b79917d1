//! Definitions that a gateway knows, and calls by them.

use crate::gateway::clients::session_commands::{all, position};
use crate::ids::KeyedOp;
use crate::limits::{TYPES_KNOWN_US, TYPES_LOOK_US};
use crate::now::Now;
use crate::script::keys::{is_types, on_own, types_key};
use adt::kinds::composed::definition::{Definition, NAME_BYTES_MAX};
use adt::kinds::composed::{CALL, CALL_RO};
use adt::{ArgBuf, Args, CommandSpec, ErrorReply, Reply};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest name of a type with that of an operation behind it.
const CALLED_BYTES_MAX: usize = 2 * NAME_BYTES_MAX + 1;

/// First byte of the fields with definitions.
pub(super) const DEFINITION: u8 = b'd';
/// First byte of the fields with versions of dropped definitions.
pub(super) const DROPPED: u8 = b'x';

/// The definitions in the store.
#[derive(Clone, Debug, Default)]
pub(super) struct Definitions {
    pub by_name: BTreeMap<String, Arc<Definition>>,
    /// The last version of each name that was dropped.
    pub dropped: BTreeMap<String, u32>,
}

/// Operation on the record of all definitions.
pub(super) fn on_types(words: &[&[u8]]) -> KeyedOp {
    on_own(types_key(), words)
}

/// A read of all definitions.
pub(in crate::gateway) fn read() -> KeyedOp {
    on_types(&[b"hgetall"])
}

impl Definitions {
    /// Definitions, from the reply of [`read`].
    pub fn of(reply: Option<&Reply>) -> Result<Self, ErrorReply> {
        let mut all = Self::default();
        let pairs = match reply {
            Some(Reply::Map(pairs)) => pairs,
            Some(Reply::Error(error)) => return Err(error.clone()),
            _ => return Ok(all),
        };
        for (field, value) in pairs {
            let (Reply::Bulk(field), Reply::Bulk(value)) = (field, value) else { continue };
            let Some((kind, name)) = field.split_first() else { continue };
            let Ok(name) = std::str::from_utf8(name) else { continue };
            if *kind == DEFINITION {
                // One that this build does not understand is none.
                let Ok(definition) = Definition::read(value) else { continue };
                all.by_name.insert(name.to_owned(), definition);
            } else if let Ok(version) = adt::parse_int(value) {
                all.dropped.insert(name.to_owned(), u32::try_from(version).unwrap_or(0));
            }
        }
        Ok(all)
    }
}

/// The definitions that a gateway knows.
#[derive(Default)]
pub(in crate::gateway) struct Types {
    /// The last copy, if there is one.
    known: Option<Definitions>,
    /// When it was read (monotonic clock, microseconds); `None` if the definitions have changed since.
    read_us: Option<u64>,
    /// Whether they are being read for commands that wait.
    reading: bool,
    /// Whether they have changed while they are being read.
    outdated: bool,
}

/// Meaning of the words of a command.
pub(in crate::gateway) enum Resolved {
    /// A call: position and words of the command that carries it out.
    Call(usize, ArgBuf),
    /// A call of an operation that is a program, in the same form.
    Program(usize, ArgBuf),
    /// Nothing that is known before the definitions are read.
    Read,
    Error(ErrorReply),
}

impl Types {
    /// Takes definitions that were read. An error means that there are none, not even an old copy.
    pub fn take(&mut self, now: Now, reply: &Reply) -> Result<(), ErrorReply> {
        self.reading = false;
        match Definitions::of(Some(reply)) {
            Ok(known) => self.known = Some(known),
            Err(error) if self.known.is_none() => return Err(error),
            // A copy that is old is better than none.
            Err(_) => {}
        }
        self.read_us = (!self.outdated).then_some(now.mono_us);
        Ok(())
    }

    /// Notes that definitions are read for commands that wait. Returns whether they were not before.
    pub fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.reading, true)
    }

    /// Notes that definitions are asked for.
    pub fn asks(&mut self) {
        self.outdated = false;
    }

    /// Lets definitions be read again, which have changed.
    pub fn forget(&mut self) {
        self.read_us = None;
        self.outdated = true;
    }

    /// Call that a command is which is no built-in one, or `TYPE.CALL`; `None` if it is none. A command that
    /// cannot wait for a newer copy goes by the present one.
    pub fn resolve(&self, now: Now, args: &Args<'_>, waits: bool) -> Option<Resolved> {
        let first = args.get(0)?;
        let is_call = |name: &str| first.eq_ignore_ascii_case(name.as_bytes());
        let (named, only_reads) = match () {
            () if is_call(CALL) => (true, false),
            () if is_call(CALL_RO) => (true, true),
            () => (false, false),
        };
        let (word, key, rest) = match named {
            true => (args.get(2)?, args.get(1)?, 3),
            false => (first, args.get(1).unwrap_or_default(), 2),
        };
        let word = std::str::from_utf8(word).ok().filter(|word| word.len() <= CALLED_BYTES_MAX);
        let Some((name, operation)) = word.and_then(|word| word.split_once('.')) else {
            let text = "name an operation of a type: TYPE.CALL key type.operation [arg ...]";
            return named.then(|| Resolved::Error(ErrorReply::err(text)));
        };
        let name = name.to_ascii_lowercase();
        let no_type = || {
            let text = format!("there is no type {name}: see TYPE.DEFINE and TYPE.LIST");
            named.then(|| Resolved::Error(ErrorReply::err(text)))
        };
        let fresh_us = self.read_us.filter(|at| !waits || now.mono_us < at + TYPES_LOOK_US);
        // A command that cannot wait is called again.
        let at_least_us = now.mono_us.saturating_sub(if waits { 0 } else { TYPES_KNOWN_US });
        let just_read = fresh_us.is_some_and(|at| at >= at_least_us);
        let known = self.known.as_ref().filter(|_| fresh_us.is_some());
        let Some(definition) = known.and_then(|known| known.by_name.get(&name)) else {
            // No type has the name of built-in commands.
            if just_read || built_in(&name).is_some() {
                return no_type();
            }
            return Some(Resolved::Read);
        };
        let found = match definition.operation(operation.as_bytes()) {
            Ok(position) => &definition.operations()[position],
            Err(_) if !just_read => return Some(Resolved::Read),
            Err(error) => return Some(Resolved::Error(error)),
        };
        let given = args.len().checked_sub(rest).unwrap_or(usize::MAX);
        if let Err(error) = found.check_count(&name, given) {
            return Some(Resolved::Error(error));
        }
        if only_reads && found.writes {
            let text = "Can not execute an operation that writes using *_ro command.";
            return Some(Resolved::Error(ErrorReply::err(text)));
        }
        let command = if found.writes { CALL } else { CALL_RO };
        let bytes = args.iter_from(rest).map(<[u8]>::len).sum::<usize>();
        let text = definition.text();
        let mut words = ArgBuf::with_room(bytes + key.len() + text.len() + 64, args.len() + 3);
        words.push(command).push(key).push(text).push(&found.name);
        args.iter_from(rest).for_each(|word| _ = words.push(word));
        let position = position(command.as_bytes())?;
        Some(match found.program {
            None => Resolved::Call(position, words),
            Some(_) => Resolved::Program(position, words),
        })
    }
}

/// The built-in command that has the name of a type, or begins with it and a dot.
pub(in crate::gateway) fn built_in(name: &str) -> Option<&'static str> {
    let is_its = |known: &str| known.split_once('.').is_some_and(|(first, _)| first == name);
    all().iter().map(|spec| spec.name).find(|known| *known == name || is_its(known))
}

/// Whether words call a built-in command, which is no call of an operation.
pub(in crate::gateway) fn is_built_in(args: &Args<'_>) -> bool {
    let name = args.get(0).unwrap_or_default();
    position(name).is_some_and(|position| !is_call(spec_at(position)))
}

/// Type and number of the operation in the words of a resolved call.
pub(in crate::gateway) fn operation_of(
    args: &Args<'_>,
) -> Result<(Arc<Definition>, usize), ErrorReply> {
    let definition = Definition::read(args.get(2).unwrap_or_default())?;
    let operation = definition.operation(args.get(3).unwrap_or_default())?;
    Ok((definition, operation))
}

/// Whether a command calls an operation of a composed type.
#[inline]
pub(in crate::gateway) fn is_call(spec: &CommandSpec) -> bool {
    spec.name == CALL || spec.name == CALL_RO
}

/// The command that a resolved call is.
pub(in crate::gateway) fn spec_at(position: usize) -> &'static CommandSpec {
    all()[position]
}

/// Whether an operation changes definitions.
pub(in crate::gateway) fn changes_definitions((key, op): &KeyedOp) -> bool {
    is_types(key) && op.is_write()
}

/// Name of a type in the words of a command.
pub(super) fn name_at(args: &Args<'_>, at: usize) -> String {
    let name = args.get(at).unwrap_or_default();
    String::from_utf8_lossy(&name[..name.len().min(CALLED_BYTES_MAX)]).to_ascii_lowercase()
}
