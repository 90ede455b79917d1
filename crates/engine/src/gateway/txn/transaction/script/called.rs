//! Commands that scripts run: what a script may run, and as which step of its transaction.

use crate::gateway::admin::keyspace::with_all_keys;
use crate::gateway::clients::session_commands;
use crate::gateway::clients::session_commands::publishes;
use crate::gateway::command_docs::find::find;
use crate::gateway::core::Core;
use crate::gateway::routing::databases::{Reach, stored};
use crate::gateway::routing::route::unusable_key_of;
use crate::gateway::scripts::ScriptCall;
use crate::gateway::txn::work::ProgramStep;
use crate::message::Published;
use crate::script::keys::{on_own, script_key};
use crate::script::{ScriptName, time};
use adt::command::database;
use adt::{ArgBuf, Args, Blob, CommandSpec, ErrorReply, Flags, Handler, Op, Reply};

/// The error for a name that stands for no text.
pub(in crate::gateway) fn no_script() -> ErrorReply {
    ErrorReply::new("NOSCRIPT", "No matching script. Please use EVAL.")
}

/// A read of the text with a name.
pub(in crate::gateway) fn read_text(name: &ScriptName) -> (Blob, Op) {
    on_own(script_key(name), &[b"get"])
}

/// Command of a script.
pub(in crate::gateway::txn) enum Called {
    /// The reply is known.
    Known(Reply),
    /// A step of the transaction.
    Step(ProgramStep),
    /// A message is published if the transaction takes effect.
    Publish(Published),
}

/// Commands that look at all keys.
const ABOUT_ALL: [&str; 4] = ["dbsize", "keys", "randomkey", "scan"];

fn not_from_script() -> ErrorReply {
    ErrorReply::err("This Redis command is not allowed from script")
}

/// The command that the words of a script call.
fn spec_of(args: &Args<'_>) -> Result<&'static CommandSpec, ErrorReply> {
    match find(args) {
        Ok(spec) => Ok(spec),
        Err(_) if session_commands::lookup(args.get(0).unwrap_or_default()).is_some() => {
            Err(ErrorReply::err("Wrong number of args calling Redis command from script"))
        }
        Err(_) => Err(ErrorReply::err("Unknown Redis command called from script")),
    }
}

/// Whether the user of a script may run a command in it.
pub(in crate::gateway::txn) fn may_run(
    call: &ScriptCall,
    args: &Args<'_>,
) -> Result<(), ErrorReply> {
    let spec = spec_of(args)?;
    call.user_of_commands().map_or(Ok(()), |user| user.check(spec, args))
}

/// Consequence of a command of a script, which only reads or not, whose time stands still, and which may
/// select another database for its commands.
pub(in crate::gateway::txn) fn called(
    core: &mut Core,
    call: &ScriptCall,
    (only_reads, wall_us): (bool, u64),
    selected: &mut u8,
    words: &ArgBuf,
) -> Result<Called, ErrorReply> {
    let (args, database) = (&words.args(), *selected);
    let spec = spec_of(args)?;
    if let Some(user) = call.user_of_commands()
        && let Some(refusal) = user.judge(spec, args)?
    {
        core.mail.stats.denied += 1;
        core.denials.note(core.now, &refusal, (user.name(), "lua", String::new()));
        return Err(user.error(&refusal));
    }
    if only_reads && (spec.flags.has(Flags::WRITE) || publishes(spec.name)) {
        return Err(ErrorReply::err("Write commands are not allowed from read-only scripts."));
    }
    core.check_room(spec)?;
    let step = match spec.handler {
        Handler::Data(parse) => match stored(spec, (core, database), args)? {
            Some(words) => parse(&words.args()).map(ProgramStep::from)?,
            None => parse(args).map(ProgramStep::from)?,
        },
        Handler::Session if ABOUT_ALL.contains(&spec.name) => {
            with_all_keys(core, database, ProgramStep::Later(words.clone()))
        }
        Handler::Session => return of_session(wall_us, selected, spec, args),
    };
    match unusable_key_of(Reach::of(spec, database), std::slice::from_ref(&step)) {
        Some(error) => Err(error),
        None => Ok(Called::Step(step)),
    }
}

fn of_session(
    wall_us: u64,
    selected: &mut u8,
    spec: &CommandSpec,
    args: &Args<'_>,
) -> Result<Called, ErrorReply> {
    if let Some(published) = Published::of(args) {
        return Ok(Called::Publish(published));
    }
    Ok(match spec.name {
        "ping" if args.len() == 1 => Called::Known(Reply::status("PONG")),
        "ping" | "echo" => Called::Known(Reply::bulk(args.get(1).unwrap_or_default())),
        "select" => {
            *selected = database::number(args, 1)?;
            Called::Known(Reply::Ok)
        }
        "time" => Called::Known(time(wall_us)),
        "lolwut" => Called::Known(session_commands::lolwut(args)),
        _ => return Err(not_from_script()),
    })
}
