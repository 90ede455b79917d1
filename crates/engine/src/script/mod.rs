//! Scripts as the store sees them. An interpreter is given to the engine: it turns a text into a [`Script`],
//! and a run of it into steps, each of which asks for one command or ends the run. The engine carries out the
//! commands and knows no language.
//!
//! A run is a function of its inputs and of the replies that it was given, and of nothing else: the same ones
//! bring about the same steps. A run that has to give way can begin again.

pub mod counts;
pub mod keys;
mod operation;
pub(crate) mod texts;

pub use operation::OperationProgram;

use adt::command::database::{Naming, database_of, name_of};
use adt::command::tags::TagRules;
use adt::{ArgBuf, Blob, ErrorReply, Reply};
use std::fmt;
use std::sync::Arc;

/// Name of a text: its SHA-1 as 40 hexadecimal digits in lower case.
pub type ScriptName = [u8; 40];

/// A text that an interpreter has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Name of the text.
    pub name: ScriptName,
    /// The text, as the client sent it.
    pub text: Blob,
    /// Whether the text says that it writes nothing (`#!lua flags=no-writes`).
    pub no_writes: bool,
    /// The text in the form that the interpreter runs.
    pub code: Vec<u8>,
    /// Function to call, if the text is a library; name of the operation, if the text is one of a type.
    pub function: Option<Blob>,
    /// The program, if the text is an operation of a composed type.
    pub operation: Option<Arc<OperationProgram>>,
}

/// A library of functions, as its text describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Name of the library.
    pub name: Blob,
    /// Name of its text.
    pub text: ScriptName,
    /// The functions, in the order in which they are registered.
    pub functions: Vec<LibraryFunction>,
}

/// A function of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFunction {
    /// Name of the function, which only one library has.
    pub name: Blob,
    /// Description for people.
    pub description: Option<Blob>,
    /// Flags, as the text writes them (`no-writes`).
    pub flags: Vec<Blob>,
}

impl LibraryFunction {
    /// Whether the function says that it writes nothing.
    pub fn no_writes(&self) -> bool {
        self.flags.iter().any(|flag| **flag == *b"no-writes")
    }
}

/// Inputs of a run, besides the replies of commands.
#[derive(Clone, Debug)]
pub struct ScriptInputs {
    /// Words that the client declared as keys.
    pub keys: Vec<Blob>,
    /// Further words.
    pub args: Vec<Blob>,
}

/// Call of a script that a shard carries out, beside its records.
#[derive(Clone, Debug)]
pub struct ScriptRun {
    /// The script.
    pub script: ScriptOf,
    /// Inputs of the run.
    pub inputs: Arc<ScriptInputs>,
    /// Whether the client says that the script only reads.
    pub only_reads: bool,
    /// Database of the keys that the script names.
    pub database: u8,
    /// Slots that the shard has, as the gateway knows it, first and last: the script may name keys in them.
    pub slots: (u16, u16),
    /// Further keys that an earlier attempt has named and that were not free.
    pub also: Vec<Blob>,
}

impl ScriptRun {
    /// Keys that must be free before the run begins, as they are stored.
    pub fn keys<'s>(&'s self, tags: &'s TagRules) -> impl Iterator<Item = Blob> + 's {
        self.declared(tags).chain(self.also.iter().cloned())
    }

    /// Whether a stored key is one of those that must be free before the run begins.
    pub fn names(&self, key: &Blob) -> bool {
        let declared = || self.inputs.keys.iter().any(|name| **name == *name_of(key));
        database_of(key) == Some(self.database) && declared() || self.also.contains(key)
    }

    /// Keys that the client has declared, as they are stored.
    pub fn declared<'s>(&'s self, tags: &'s TagRules) -> impl Iterator<Item = Blob> + 's {
        let naming = Naming { database: self.database, tags };
        self.inputs.keys.iter().map(move |name| naming.key_of(name))
    }
}

/// Script of a [`ScriptRun`].
#[derive(Clone, Debug)]
pub enum ScriptOf {
    /// A text that was read.
    Read(Arc<Script>),
    /// A text, which comes from another machine.
    Text(Blob),
}

impl ScriptOf {
    /// The text.
    pub fn text(&self) -> &Blob {
        match self {
            Self::Read(script) => &script.text,
            Self::Text(text) => text,
        }
    }
}

/// Reply of `TIME`, at a time in microseconds since 1970.
pub(crate) fn time(wall_us: u64) -> Reply {
    let parts = [wall_us / 1_000_000, wall_us % 1_000_000];
    Reply::Array(parts.map(|n| Reply::bulk(n.to_string())).to_vec())
}

/// Use of a reply by a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The script looks at the reply, or may do so.
    Seen,
    /// The script drops the reply. If it is an error, the run fails with it.
    Dropped,
    /// The script drops the reply, even if it is an error.
    Ignored,
}

/// The next input of a run.
#[derive(Clone, Debug)]
pub enum ScriptInput {
    /// The run begins, or goes on after a [`ScriptStep::Log`] or after a command whose reply is dropped and
    /// not known yet.
    Go,
    /// Reply to a command. An error is raised in the script, or given to it if it has asked for that.
    Reply(Reply),
    /// Whether the user may run the command of [`ScriptStep::MayRun`].
    MayRun(bool),
}

/// Step of a run.
#[derive(Clone, Debug)]
pub enum ScriptStep {
    /// Runs a command.
    Call(ArgBuf, Use),
    /// Asks whether the user may run a command.
    MayRun(ArgBuf),
    /// Has run for a while, and lets others go ahead before it goes on.
    Pause,
    /// Writes a line for the operator.
    Log(LogLevel, Blob),
    /// Ends with this reply.
    Done(Reply),
    /// Ends with an error that the script has raised, or because of a limit: it takes no effect.
    Failed(ErrorReply),
}

/// Importance of a line for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// For debugging.
    Debug,
    /// Verbose.
    Verbose,
    /// Worth to be noticed.
    Notice,
    /// A warning.
    Warning,
}

/// One run of a script.
pub trait Run: fmt::Debug {
    /// Goes on up to the next step. Not called again after the last one.
    fn resume(&mut self, input: ScriptInput) -> ScriptStep;

    /// The script.
    fn script(&self) -> &Script;

    /// Number of steps of the interpreter so far.
    fn steps(&self) -> u64;
}

/// An interpreter.
pub trait Interpreter: fmt::Debug + Sync {
    /// Reads a text. The error says where it is wrong.
    fn read(&self, text: &Blob) -> Result<Arc<Script>, ErrorReply>;

    /// Begins a run.
    fn begin(&self, script: &Arc<Script>, inputs: &Arc<ScriptInputs>) -> Box<dyn Run>;

    /// Reads the text of a library and runs it, to learn which functions it registers.
    fn read_library(&self, _text: &Blob) -> Result<Library, ErrorReply> {
        Err(ErrorReply::err("there are no functions in this language"))
    }

    /// Reads the text of a library in order to call a function of it.
    fn read_function(
        &self,
        _text: &Blob,
        _function: &LibraryFunction,
    ) -> Result<Arc<Script>, ErrorReply> {
        Err(ErrorReply::err("there are no functions in this language"))
    }
}
