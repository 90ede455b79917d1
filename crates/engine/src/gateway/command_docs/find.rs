//! Lookup of commands by the words of a client.

use crate::gateway::clients::session_commands;
use adt::{Args, CommandSpec, ErrorReply, Flags, known};

/// Whether the reply of a command may be large in comparison with the command. A connection should have
/// few of these under way.
pub fn is_heavy(args: &Args<'_>) -> bool {
    // An operator ends a pause, however many requests under way wait for that.
    find(args).is_ok_and(|spec| is_heavy_spec(spec) && !(spec.name == "client" && is_light(args)))
}

/// Whether a subcommand of `CLIENT` concerns no list of clients.
fn is_light(args: &Args<'_>) -> bool {
    !(args.is(1, "LIST") || args.is(1, "KILL"))
}

/// Command that the words call.
pub(in crate::gateway) fn find(args: &Args<'_>) -> Result<&'static CommandSpec, ErrorReply> {
    let position = session_commands::position(args.get(0).unwrap_or_default());
    checked(position, args).map(|(_, spec)| spec)
}

/// Command at the position in the table that the first word has, and the position, if there is one and the
/// number of words is right.
pub(in crate::gateway) fn checked(
    position: Option<usize>,
    args: &Args<'_>,
) -> Result<(usize, &'static CommandSpec), ErrorReply> {
    let position = position.ok_or_else(|| unknown(args))?;
    let spec = session_commands::all()[position];
    spec.check_arity(args.len())?;
    Ok((position, spec))
}

/// Whether a command reads in more than constant time, or carries out another command.
#[inline]
pub(in crate::gateway) fn is_heavy_spec(spec: &CommandSpec) -> bool {
    // What a script answers fits into its memory.
    let light =
        spec.flags.has(Flags::FAST) || spec.flags.has(Flags::BLOCKING) || spec.group == "scripting";
    if light || (spec.flags.has(Flags::WRITE) && spec.name != "fence") {
        return false;
    }
    spec.complexity != "O(1)"
}

/// Error for a name that is no command, in the words of Redis unless Redis has such a command.
fn unknown(args: &Args<'_>) -> ErrorReply {
    if let Some(error) = known::not_built(args) {
        return error;
    }
    let shown = |word: &[u8], most: usize| {
        String::from_utf8_lossy(&word[..word.len().min(most)]).into_owned()
    };
    let mut rest = String::new();
    for word in args.iter_from(1) {
        if rest.len() >= 128 {
            break;
        }
        let most = 128 - rest.len();
        rest.push_str(&format!("'{}' ", shown(word, most)));
    }
    let name = shown(args.get(0).unwrap_or_default(), 128);
    ErrorReply::err(format!("unknown command '{name}', with args beginning with: {rest}"))
}
