//! `FUNCTION`: libraries of functions are loaded, replaced, listed, dumped and removed.

use super::dump;
use super::kept::{FUNCTION, Kept, LIBRARY, fact, fact_of, on_all, too_many};
use crate::gateway::command_docs::unknown_subcommand;
use crate::gateway::core::Core;
use crate::gateway::txn::work::{Changed, ProgramStep};
use crate::ids::KeyedOp;
use crate::limits::{LIBRARIES_BYTES_MAX, LIBRARIES_MAX, LIBRARY_FUNCTIONS_MAX};
use crate::script::keys::{field, functions_key};
use crate::script::{Library, LibraryFunction};
use adt::command::glob;
use adt::key::KeyOp;
use adt::{Args, Blob, ErrorReply, Merge, Op, Reply};
use std::collections::BTreeMap;

/// How new libraries meet those of the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// No library is replaced.
    Append,
    /// Libraries of the same names are replaced.
    Replace,
    /// All libraries of the store are removed.
    Flush,
}

/// A library of the store.
struct Owned {
    text: Blob,
    functions: Vec<LibraryFunction>,
}

/// All libraries of the store.
#[derive(Default)]
struct Libraries {
    by_name: BTreeMap<Blob, Owned>,
    /// The library of each function.
    owners: BTreeMap<Blob, Blob>,
    /// Bytes of all texts.
    bytes: usize,
}

impl Libraries {
    /// Reads the reply of `HGETALL`.
    fn read(reply: Option<&Reply>) -> Result<Self, ErrorReply> {
        let mut all = Self::default();
        let pairs = match reply {
            Some(Reply::Map(pairs)) => pairs,
            Some(Reply::Error(error)) => return Err(error.clone()),
            _ => return Ok(all),
        };
        let mut functions = BTreeMap::new();
        for pair in pairs {
            let (Reply::Bulk(field), Reply::Bulk(value)) = pair else { continue };
            let Some((kind, name)) = field.split_first() else { continue };
            let name = Blob::new(name);
            if *kind == LIBRARY {
                all.bytes += value.len();
                all.by_name.insert(name, Owned { text: value.clone(), functions: Vec::new() });
            } else if let Some(kept) = fact_of(&name, value) {
                functions.insert(name, kept);
            }
        }
        for (name, Kept { owner, function, .. }) in functions {
            if let Some(library) = all.by_name.get_mut(&owner) {
                library.functions.push(function);
                all.owners.insert(name, owner);
            }
        }
        Ok(all)
    }

    /// Removes a library. Returns the write that does the same in the store.
    fn remove(&mut self, library: &Blob) -> Option<KeyedOp> {
        let removed = self.by_name.remove(library)?;
        self.bytes -= removed.text.len();
        let mut fields = vec![field(LIBRARY, library)];
        for function in &removed.functions {
            self.owners.remove(&function.name);
            fields.push(field(FUNCTION, &function.name));
        }
        let mut words: Vec<&[u8]> = vec![b"hdel"];
        words.extend(fields.iter().map(Vec::as_slice));
        Some(on_all(&words))
    }

    /// Checks that no library has the name of a new one.
    fn lacks(&self, new: &Library) -> Result<(), ErrorReply> {
        if !self.by_name.contains_key(&new.name) {
            return Ok(());
        }
        let name = String::from_utf8_lossy(&new.name);
        Err(ErrorReply::err(format!("Library '{name}' already exists")))
    }

    /// Adds a library, whose name is a new one, if there is room for it.
    fn add(&mut self, new: &Library, text: &Blob) -> Result<(), ErrorReply> {
        for function in &new.functions {
            if self.owners.contains_key(&function.name) {
                let name = String::from_utf8_lossy(&function.name);
                return Err(ErrorReply::err(format!("Function {name} already exists")));
            }
        }
        self.bytes += text.len();
        let owned = Owned { text: text.clone(), functions: new.functions.clone() };
        self.by_name.insert(new.name.clone(), owned);
        let names = new.functions.iter().map(|function| function.name.clone());
        self.owners.extend(names.map(|name| (name, new.name.clone())));
        let fits = self.bytes <= LIBRARIES_BYTES_MAX
            && self.owners.len() <= LIBRARY_FUNCTIONS_MAX
            && self.by_name.len() <= LIBRARIES_MAX;
        if fits { Ok(()) } else { Err(too_many()) }
    }

    /// Writes that add libraries: all of them, or an error.
    fn adding(self, new: &[(Library, Blob)], policy: Policy) -> Result<Vec<KeyedOp>, ErrorReply> {
        // Of the new ones, none replaces another.
        let mut alone = Self::default();
        for (library, text) in new {
            alone.lacks(library)?;
            alone.add(library, text)?;
        }
        let mut after = self;
        let mut names = new.iter().map(|(library, _)| &library.name);
        let mut writes = Vec::new();
        match policy {
            Policy::Append => {
                if let Some(name) = names.find(|name| after.by_name.contains_key(*name)) {
                    let name = String::from_utf8_lossy(name);
                    return Err(ErrorReply::err(format!("Library {name} already exists")));
                }
            }
            // All that are replaced go first: a function may change its library.
            Policy::Replace => writes.extend(names.filter_map(|name| after.remove(name))),
            Policy::Flush => {
                after = Self::default();
                writes.push(removal_of_all());
            }
        }
        let mut fields = Vec::new();
        for (library, text) in new {
            after.add(library, text)?;
            fields.push((field(LIBRARY, &library.name), text.to_vec()));
            let functions = library.functions.iter();
            fields.extend(functions.map(|f| (field(FUNCTION, &f.name), fact(library, f))));
        }
        if !fields.is_empty() {
            let mut words: Vec<&[u8]> = vec![b"hset"];
            words.extend(fields.iter().flat_map(|(field, value)| [&field[..], value]));
            writes.push(on_all(&words));
        }
        Ok(writes)
    }

    /// The reply of `FUNCTION LIST`.
    fn list(&self, pattern: Option<&Blob>, with_code: bool) -> Reply {
        let matches = |name: &Blob| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        let libraries =
            self.by_name.iter().filter(|(name, _)| matches(name)).map(|(name, owned)| {
                let functions = owned.functions.iter().map(|function| {
                    let shown =
                        |flag: &Blob| Reply::status(String::from_utf8_lossy(flag).into_owned());
                    let flags = function.flags.iter().map(shown).collect();
                    Reply::Map(vec![
                        (Reply::bulk("name"), Reply::Bulk(function.name.clone())),
                        (
                            Reply::bulk("description"),
                            function.description.clone().map_or(Reply::Nil, Reply::Bulk),
                        ),
                        (Reply::bulk("flags"), Reply::Set(flags)),
                    ])
                });
                let mut facts = vec![
                    (Reply::bulk("library_name"), Reply::Bulk(name.clone())),
                    (Reply::bulk("engine"), Reply::bulk("LUA")),
                    (Reply::bulk("functions"), Reply::Array(functions.collect())),
                ];
                if with_code {
                    facts.push((Reply::bulk("library_code"), Reply::Bulk(owned.text.clone())));
                }
                Reply::Map(facts)
            });
        Reply::Array(libraries.collect())
    }

    /// The reply of `FUNCTION DUMP`.
    fn dump(&self) -> Reply {
        Reply::Bulk(dump::dump(self.by_name.values().map(|owned| &owned.text)))
    }

    /// The reply of `FUNCTION STATS`. No function that runs keeps others waiting, so none is shown.
    fn stats(&self) -> Reply {
        let count = |n: usize| Reply::Int(n as i64);
        let engine = Reply::Map(vec![
            (Reply::bulk("libraries_count"), count(self.by_name.len())),
            (Reply::bulk("functions_count"), count(self.owners.len())),
        ]);
        Reply::Map(vec![
            (Reply::bulk("running_script"), Reply::Nil),
            (Reply::bulk("engines"), Reply::Map(vec![(Reply::bulk("LUA"), engine)])),
        ])
    }
}

/// A read of all libraries.
fn read() -> KeyedOp {
    on_all(&[b"hgetall"])
}

/// A step that looks at all libraries, and then writes and replies.
fn changing(
    change: impl Fn(Libraries) -> Result<Changed, ErrorReply> + Send + Sync + 'static,
) -> ProgramStep {
    ProgramStep::changing(read(), move |reply| Libraries::read(reply).and_then(&change))
}

/// A step that looks at all libraries, and replies.
fn looking(look: impl Fn(&Libraries) -> Reply + Send + Sync + 'static) -> ProgramStep {
    ProgramStep::looking(read(), move |reply| Libraries::read(reply).map(|all| look(&all)))
}

fn load(core: &Core, args: &Args<'_>) -> Result<ProgramStep, ErrorReply> {
    let replaces = args.len() == 4;
    if replaces && !args.is(2, "REPLACE") {
        let word = String::from_utf8_lossy(args.get(2).unwrap_or_default());
        return Err(ErrorReply::err(format!("Unknown option given: {word}")));
    }
    let text = args.blob(args.len() - 1)?;
    let library = core.scripts.read_library(&text)?;
    let name = library.name.clone();
    let policy = if replaces { Policy::Replace } else { Policy::Append };
    let new = [(library, text)];
    Ok(changing(move |all| {
        if !replaces {
            all.lacks(&new[0].0)?;
        }
        Ok((all.adding(&new, policy)?, Reply::Bulk(name.clone())))
    }))
}

fn restore(core: &Core, args: &Args<'_>) -> Result<ProgramStep, ErrorReply> {
    let policy = match () {
        () if args.len() == 3 || args.is(3, "APPEND") => Policy::Append,
        () if args.is(3, "REPLACE") => Policy::Replace,
        () if args.is(3, "FLUSH") => Policy::Flush,
        () => {
            let text =
                "Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
            return Err(ErrorReply::err(text));
        }
    };
    let texts = dump::texts(args.get(2).unwrap_or_default())?;
    let read = |text: Blob| core.scripts.read_library(&text).map(|library| (library, text));
    let new = texts.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(changing(move |all| Ok((all.adding(&new, policy)?, Reply::Ok))))
}

/// Write that removes all libraries.
fn removal_of_all() -> KeyedOp {
    (functions_key(), Op::Key(KeyOp::Del))
}

fn list(args: &Args<'_>) -> Result<ProgramStep, ErrorReply> {
    let (mut pattern, mut with_code, mut at) = (None, false, 2);
    while at < args.len() {
        match () {
            () if args.is(at, "WITHCODE") && !with_code => with_code = true,
            () if args.is(at, "LIBRARYNAME") && pattern.is_none() => {
                at += 1;
                if at == args.len() {
                    return Err(ErrorReply::err("library name argument was not given"));
                }
                pattern = Some(args.blob(at)?);
            }
            () => {
                let word = String::from_utf8_lossy(args.get(at).unwrap_or_default());
                return Err(ErrorReply::err(format!("Unknown argument {word}")));
            }
        }
        at += 1;
    }
    Ok(looking(move |all| all.list(pattern.as_ref(), with_code)))
}

/// Step of `FUNCTION`, whose number of words is right.
pub(super) fn step(core: &Core, args: &Args<'_>) -> Result<ProgramStep, ErrorReply> {
    match () {
        () if args.is(1, "LOAD") || args.is(1, "RESTORE") => {
            core.check_growth()?;
            if args.is(1, "LOAD") { load(core, args) } else { restore(core, args) }
        }
        () if args.is(1, "LIST") => list(args),
        () if args.is(1, "DUMP") => Ok(looking(Libraries::dump)),
        () if args.is(1, "STATS") => Ok(looking(Libraries::stats)),
        () if args.is(1, "DELETE") => {
            let library = args.blob(2)?;
            let not_found = || ErrorReply::err("Library not found");
            Ok(changing(move |mut all| {
                let removal = all.remove(&library).ok_or_else(not_found)?;
                Ok((vec![removal], Reply::Ok))
            }))
        }
        () if args.is(1, "FLUSH") => {
            if args.len() == 3 && !args.is(2, "ASYNC") && !args.is(2, "SYNC") {
                let text = "FUNCTION FLUSH only supports SYNC|ASYNC option";
                return Err(ErrorReply::err(text));
            }
            Ok(ProgramStep::Ops(vec![removal_of_all()], Some(Merge::Ok)))
        }
        () if args.is(1, "KILL") => {
            let text = "No scripts in execution right now: a function that takes too long ends by \
                        itself, and nothing waits for it but what needs the same records.";
            Err(ErrorReply::new("NOTBUSY", text))
        }
        () => Err(unknown_subcommand(args)),
    }
}
