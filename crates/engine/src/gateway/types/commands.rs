//! `TYPE.DEFINE`, `TYPE.MIGRATE`, `TYPE.DROP`, `TYPE.LIST`, `TYPE.GET` and `TYPE.LAWS`.

use super::known::{DEFINITION, DROPPED, Definitions, built_in, name_at, on_types, read};
use crate::gateway::core::Core;
use crate::gateway::txn::work::{Changed, ProgramStep};
use crate::ids::KeyedOp;
use crate::limits::{TYPE_NAMES_MAX, TYPES_MAX};
use crate::script::keys::field;
use adt::kinds::composed::definition::Definition;
use adt::kinds::composed::derived::derived;
use adt::{Args, CommandSpec, ErrorReply, Reply};
use std::sync::Arc;

/// Whether a command is about definitions of types.
pub(in crate::gateway) fn is_of_definitions(spec: &CommandSpec) -> bool {
    matches!(
        spec.name,
        "type.define" | "type.drop" | "type.get" | "type.laws" | "type.list" | "type.migrate"
    )
}

fn no_type(name: &str) -> ErrorReply {
    ErrorReply::err(format!("there is no type {name}: see TYPE.LIST"))
}

/// A step that looks at all definitions, and replies.
fn looking(
    look: impl Fn(&Definitions) -> Result<Reply, ErrorReply> + Send + Sync + 'static,
) -> ProgramStep {
    ProgramStep::looking(read(), move |reply| Definitions::of(reply).and_then(|all| look(&all)))
}

/// A step that looks at all definitions, and then writes and replies.
fn changing(
    change: impl Fn(&Definitions) -> Result<Changed, ErrorReply> + Send + Sync + 'static,
) -> ProgramStep {
    ProgramStep::changing(read(), move |reply| Definitions::of(reply).and_then(|all| change(&all)))
}

/// Reads the programs of a definition, whose errors name the operation.
fn check_programs(core: &mut Core, definition: &Arc<Definition>) -> Result<(), ErrorReply> {
    for (number, operation) in definition.operations().iter().enumerate() {
        if operation.program.is_none() {
            continue;
        }
        core.scripts.read_operation(definition, number).map_err(|error| {
            ErrorReply::err(format!("operation {}: {}", operation.name, error.text()))
        })?;
    }
    Ok(())
}

/// The definition in the words of a command, with a version that is given later.
fn definition_of(core: &mut Core, args: &Args<'_>) -> Result<Arc<Definition>, ErrorReply> {
    let definition = Definition::parse(args.get(2).unwrap_or_default(), Some(1))?;
    definition.check_new()?;
    let name = name_at(args, 1);
    if definition.name() != name {
        let text = format!("the definition is of {}, and not of {name}", definition.name());
        return Err(ErrorReply::err(text));
    }
    if let Some(taken) = built_in(&name) {
        return Err(ErrorReply::err(format!("'{name}' is the beginning of the command {taken}")));
    }
    let definition = Arc::new(definition);
    check_programs(core, &definition)?;
    Ok(definition)
}

/// Write that puts a definition into the store.
fn put(definition: &Definition) -> KeyedOp {
    on_types(&[b"hset", &field(DEFINITION, definition.name().as_bytes()), definition.text()])
}

fn define(core: &mut Core, args: &Args<'_>) -> Result<ProgramStep, ErrorReply> {
    let new = definition_of(core, args)?;
    Ok(changing(move |all| {
        if let Some(old) = all.by_name.get(new.name()) {
            let same = Definition::parse(new.text(), Some(old.version()))?;
            if same.text() == old.text() {
                return Ok((Vec::new(), Reply::Int(old.version().into())));
            }
            let text = format!(
                "the type {} has another definition, version {}: TYPE.MIGRATE changes it",
                old.name(),
                old.version()
            );
            return Err(ErrorReply::err(text));
        }
        if all.by_name.len() >= TYPES_MAX {
            return Err(ErrorReply::err(format!("there are at most {TYPES_MAX} types")));
        }
        let dropped = all.dropped.get(new.name());
        if dropped.is_none() && all.dropped.len() >= TYPE_NAMES_MAX {
            let text = format!("at most {TYPE_NAMES_MAX} names of types can have been dropped");
            return Err(ErrorReply::err(text));
        }
        let version = dropped.map_or(1, |last| last + 1);
        let new = Definition::parse(new.text(), Some(version))?;
        Ok((vec![put(&new)], Reply::Int(version.into())))
    }))
}

fn migrate(core: &mut Core, args: &Args<'_>) -> Result<ProgramStep, ErrorReply> {
    let new = definition_of(core, args)?;
    Ok(changing(move |all| {
        let old = all.by_name.get(new.name()).ok_or_else(|| no_type(new.name()))?;
        let next = new.next_of(old)?;
        let same = Definition::parse(next.text(), Some(old.version()))?;
        if same.text() == old.text() {
            return Ok((Vec::new(), Reply::Int(old.version().into())));
        }
        Ok((vec![put(&next)], Reply::Int(next.version().into())))
    }))
}

fn drop_type(args: &Args<'_>) -> Result<ProgramStep, ErrorReply> {
    let name = name_at(args, 1);
    Ok(changing(move |all| {
        let Some(old) = all.by_name.get(&name) else { return Ok((Vec::new(), Reply::Int(0))) };
        let version = old.version().to_string();
        let writes = vec![
            on_types(&[b"hdel", &field(DEFINITION, name.as_bytes())]),
            on_types(&[b"hset", &field(DROPPED, name.as_bytes()), version.as_bytes()]),
        ];
        Ok((writes, Reply::Int(1)))
    }))
}

fn list() -> ProgramStep {
    looking(|all| {
        let types = all.by_name.values().map(|definition| {
            let operations = definition.operations().iter().map(|operation| {
                Reply::bulk(format!(
                    "{}.{} {}",
                    definition.name(),
                    operation.name,
                    operation.syntax()
                ))
            });
            let parts = definition.parts().iter().map(|part| {
                let shape = if part.is_map { "map" } else { "part" };
                Reply::bulk(format!("{shape} {} {}", part.name, part.kind))
            });
            Reply::Map(vec![
                (Reply::bulk("name"), Reply::bulk(definition.name())),
                (Reply::bulk("version"), Reply::Int(definition.version().into())),
                (Reply::bulk("parts"), Reply::Array(parts.collect())),
                (Reply::bulk("operations"), Reply::Array(operations.collect())),
            ])
        });
        Ok(Reply::Array(types.collect()))
    })
}

/// Step of a command about definitions, whose number of words is right.
pub(in crate::gateway) fn step(
    core: &mut Core,
    spec: &CommandSpec,
    args: &Args<'_>,
) -> Result<ProgramStep, ErrorReply> {
    match spec.name {
        "type.define" | "type.migrate" => {
            core.check_growth()?;
            if spec.name == "type.define" { define(core, args) } else { migrate(core, args) }
        }
        "type.drop" => drop_type(args),
        "type.list" => Ok(list()),
        "type.get" => get(args),
        _ => Ok(of_one(name_at(args, 1), derived)),
    }
}

fn get(args: &Args<'_>) -> Result<ProgramStep, ErrorReply> {
    let name = name_at(args, 1);
    match args.get(2) {
        None => Ok(of_one(name, |definition| Reply::Bulk(definition.text().clone()))),
        Some(form) if args.len() == 3 && form.eq_ignore_ascii_case(b"json") => {
            Ok(of_one(name, |definition| Reply::bulk(definition.json())))
        }
        Some(_) => Err(ErrorReply::syntax()),
    }
}

/// A step that looks at one definition.
fn of_one(name: String, look: fn(&Arc<Definition>) -> Reply) -> ProgramStep {
    looking(move |all| all.by_name.get(&name).map(look).ok_or_else(|| no_type(&name)))
}
