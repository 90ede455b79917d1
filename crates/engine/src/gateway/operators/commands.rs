//! Words of the commands of operators.

use super::latency::WantedSeconds;
use super::questions::LocalQuestion;
use crate::gateway::admin::inquiry::{Combine, Inquiry};
use crate::gateway::clients::effect::CommandEffect;
use crate::gateway::command_docs::{subcommand_syntax, unknown_subcommand};
use crate::limits::{PASSWORD_BITS, PASSWORD_BITS_MAX, PAUSE_MS_MAX};
use adt::{Args, Blob, ErrorReply};

/// Number of entries that `SLOWLOG GET` and `ACL LOG` show if the client gives none.
const SHOWN: usize = 10;

/// `SLOWLOG GET [count] | LEN | RESET`.
pub(in crate::gateway) fn slowlog(args: &Args<'_>) -> CommandEffect {
    let inquiry = match args.len() {
        2 | 3 if args.is(1, "GET") => match count(args) {
            Ok(most) => {
                Inquiry::of_machine(Combine::SlowCommands(most), LocalQuestion::SlowCommands(most))
            }
            Err(error) => return error.into(),
        },
        2 if args.is(1, "LEN") => Inquiry::of_machine(Combine::SlowCount, LocalQuestion::SlowCount),
        2 if args.is(1, "RESET") => Inquiry::of_machine(Combine::Ok, LocalQuestion::ForgetSlow),
        _ if args.is(1, "GET") => return subcommand_syntax(args).into(),
        _ => return unknown_subcommand(args).into(),
    };
    inquiry.into()
}

/// Number of commands that the client wants to see.
fn count(args: &Args<'_>) -> Result<usize, ErrorReply> {
    if args.len() == 2 {
        return Ok(SHOWN);
    }
    match args.int(2) {
        Ok(-1) => Ok(usize::MAX),
        Ok(count @ 0..) => Ok(count as usize),
        _ => Err(ErrorReply::err("count should be greater than or equal to -1")),
    }
}

/// `LATENCY LATEST | HISTORY event | RESET [event ...] | HISTOGRAM [command ...]`.
pub(in crate::gateway) fn latency(args: &Args<'_>) -> CommandEffect {
    let names = || args.iter_from(2).map(Blob::from).collect::<Vec<_>>();
    let inquiry = match args.len() {
        2 if args.is(1, "LATEST") => {
            Inquiry::of_machine(Combine::Events(WantedSeconds::Latest), LocalQuestion::Events)
        }
        3 if args.is(1, "HISTORY") => {
            let kind = Blob::from(args.get(2).unwrap_or_default());
            Inquiry::of_machine(
                Combine::Events(WantedSeconds::History(kind)),
                LocalQuestion::Events,
            )
        }
        _ if args.is(1, "RESET") => {
            Inquiry::of_machine(Combine::DistinctNames, LocalQuestion::ForgetEvents(names()))
        }
        _ if args.is(1, "HISTOGRAM") => {
            Inquiry::of_machine(Combine::Durations(names()), LocalQuestion::Durations)
        }
        _ => return unknown_subcommand(args).into(),
    };
    inquiry.into()
}

/// `CLIENT PAUSE milliseconds [WRITE | ALL]`.
pub(in crate::gateway) fn pause(args: &Args<'_>) -> CommandEffect {
    match parse_pause(args) {
        Ok(question) => Inquiry::of_machine(Combine::Ok, question).into(),
        Err(error) => error.into(),
    }
}

fn parse_pause(args: &Args<'_>) -> Result<LocalQuestion, ErrorReply> {
    let all = match args.len() {
        3 => true,
        4 if args.is(3, "ALL") => true,
        4 if args.is(3, "WRITE") => false,
        4 => return Err(ErrorReply::err("CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(subcommand_syntax(args)),
    };
    let no_number = |_| ErrorReply::err("timeout is not an integer or out of range");
    match args.int(2).map_err(no_number)? {
        ..0 => Err(ErrorReply::err("timeout is negative")),
        ms if ms as u64 > PAUSE_MS_MAX => {
            let text = format!("timeout is out of range: a pause has at most {PAUSE_MS_MAX} ms");
            Err(ErrorReply::err(text))
        }
        ms => Ok(LocalQuestion::Pause { ms: ms as u64, all }),
    }
}

/// `ACL LOG [count | RESET]`.
pub(in crate::gateway) fn acl_log(args: &Args<'_>) -> CommandEffect {
    let most = match args.len() {
        2 => SHOWN,
        4.. => return subcommand_syntax(args).into(),
        _ if args.is(2, "RESET") => {
            return Inquiry::of_machine(Combine::Ok, LocalQuestion::ForgetDenials).into();
        }
        _ => match args.int(2) {
            Ok(count) => usize::try_from(count).unwrap_or(0),
            Err(error) => return error.into(),
        },
    };
    Inquiry::of_machine(Combine::Denials(most), LocalQuestion::Denials).into()
}

/// Number of bits of a password that `ACL GENPASS [bits]` asks for.
pub(in crate::gateway) fn bits(args: &Args<'_>) -> Result<u16, ErrorReply> {
    let error = || {
        ErrorReply::err(format!(
            "ACL GENPASS argument must be the number of bits for the output password, a positive \
             number up to {PASSWORD_BITS_MAX}"
        ))
    };
    match args.len() {
        2 => Ok(PASSWORD_BITS),
        3 => {
            let bits = args.int(2)?;
            let bits = u16::try_from(bits).ok().filter(|b| (1..=PASSWORD_BITS_MAX).contains(b));
            bits.ok_or_else(error)
        }
        _ => Err(subcommand_syntax(args)),
    }
}
