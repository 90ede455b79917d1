//! Data types of a build of one's own: any [`DataType`] that a program registers before its server starts
//! ([`register`]).
//!
//! The registry of [`crate::record`] knows the types of this crate, one variant for each. This one is for all
//! others: a value or an operation with the table of its type. What the built-in types offer besides the
//! contract is absent: quantities for escrow, elements for `SORT`, and use as a part of a composed type.

use crate::command::CommandSpec;
use crate::record::{self, Mode};
use crate::types::{
    Access, Corrupt, Ctx, DataType, Forecast, Foresight, Meta, MortalParts, ValueSink, ValueSource,
};
use crate::{ArgBuf, Blob, Compound, ErrorReply, OtherType, Reply};
use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Most types that a build can add.
pub const EXTENSIONS_MAX: usize = 64;

type Held = dyn Any + Send + Sync;

/// The table of a type: [`DataType`] with values and operations of any type. Those of another type are not
/// given to it.
trait Kind: Send + Sync {
    fn id(&self) -> TypeId;
    fn name(&self) -> &'static str;
    fn commands(&self) -> &'static [CommandSpec];
    fn modes(&self) -> &'static [&'static str];
    fn shared(&self) -> [u8; 8];
    fn fresh(&self) -> Box<Held>;
    fn clone_value(&self, value: &Held) -> Box<Held>;
    fn same_value(&self, a: &Held, b: &Held) -> bool;
    fn same_op(&self, a: &Held, b: &Held) -> bool;
    fn show_value(&self, value: &Held, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    fn show_op(&self, op: &Held, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    fn is_write(&self, op: &Held) -> bool;
    fn is_empty(&self, value: &Held) -> bool;
    fn creates(&self, op: &Held) -> bool;
    fn query(&self, value: &Held, op: &Held, ctx: &Ctx) -> Reply;
    fn apply(&self, value: &mut Held, op: &Held, ctx: &Ctx, meta: &mut Meta) -> Reply;
    fn may_be_idle(&self, op: &Held) -> bool;
    fn idle(&self, value: &Held, op: &Held, now_ms: u64) -> Option<Reply>;
    fn on_other_type(&self, op: &Held) -> OtherType;
    fn preserves_key(&self, op: &Held) -> bool;
    fn commutes(&self, value: &Held, a: (&Held, bool), b: (&Held, bool)) -> bool;
    fn follows(&self, op: &Held) -> (bool, bool);
    fn cost(&self, value: &Held) -> usize;
    fn foretell(&self, value: &Held, op: &Held, ctx: &Ctx) -> Option<Reply>;
    fn next_expiry_ms(&self, value: &Held, after_ms: Option<u64>) -> Option<u64>;
    fn outlives(&self, value: &Held, now_ms: u64) -> bool;
    fn expire(&self, value: &mut Held, now_ms: u64, most: usize) -> usize;
    fn query_left(&self, value: &Held, op: &Held, ctx: &Ctx) -> Reply;
    fn mode(&self, op: &Held, observed: bool) -> u8;
    fn chosen_first(&self, key: &Blob, op: &Held) -> Option<Compound>;
    fn combine(&self, earlier: &Held, next: &Held) -> Option<Arc<Held>>;
    fn encode(&self, op: &Held, key: &[u8], out: &mut ArgBuf);
    fn save(&self, value: &Held, sink: &mut dyn ValueSink);
    fn load(&self, source: &mut dyn ValueSource) -> Result<Box<Held>, Corrupt>;
}

struct Of<T>(PhantomData<fn() -> T>);

/// A value of the type, which it is.
fn value<T: 'static>(held: &Held) -> Option<&T> {
    held.downcast_ref()
}

/// An access by an operation of the type, which it is.
fn access<T: DataType<Op: 'static>>(held: &Held, observed: bool) -> Option<Access<'_, T::Op>> {
    held.downcast_ref().map(|op| Access { op, observed })
}

impl<T> Kind for Of<T>
where
    T: DataType<Op: Send + Sync + 'static> + Send + Sync + 'static,
{
    fn id(&self) -> TypeId {
        TypeId::of::<T>()
    }

    fn name(&self) -> &'static str {
        T::NAME
    }

    fn commands(&self) -> &'static [CommandSpec] {
        T::COMMANDS
    }

    fn modes(&self) -> &'static [&'static str] {
        T::MODES
    }

    fn shared(&self) -> [u8; 8] {
        T::SHARED
    }

    fn fresh(&self) -> Box<Held> {
        Box::new(T::default())
    }

    fn clone_value(&self, held: &Held) -> Box<Held> {
        Box::new(value::<T>(held).cloned().unwrap_or_default())
    }

    fn same_value(&self, a: &Held, b: &Held) -> bool {
        value::<T>(a) == value::<T>(b)
    }

    fn same_op(&self, a: &Held, b: &Held) -> bool {
        value::<T::Op>(a) == value::<T::Op>(b)
    }

    fn show_value(&self, held: &Held, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&value::<T>(held), f)
    }

    fn show_op(&self, op: &Held, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&value::<T::Op>(op), f)
    }

    fn is_write(&self, op: &Held) -> bool {
        value(op).is_some_and(T::is_write)
    }

    fn is_empty(&self, held: &Held) -> bool {
        value(held).is_none_or(T::is_empty)
    }

    fn creates(&self, op: &Held) -> bool {
        value(op).is_some_and(T::creates)
    }

    fn query(&self, held: &Held, op: &Held, ctx: &Ctx) -> Reply {
        match (value::<T>(held), value(op)) {
            (Some(held), Some(op)) => held.query(op, ctx),
            _ => ErrorReply::wrong_type().into(),
        }
    }

    fn apply(&self, held: &mut Held, op: &Held, ctx: &Ctx, meta: &mut Meta) -> Reply {
        match (held.downcast_mut::<T>(), value(op)) {
            (Some(held), Some(op)) => held.apply(op, ctx, meta),
            _ => ErrorReply::wrong_type().into(),
        }
    }

    fn may_be_idle(&self, op: &Held) -> bool {
        value(op).is_some_and(T::may_be_idle)
    }

    fn idle(&self, held: &Held, op: &Held, now_ms: u64) -> Option<Reply> {
        value::<T>(held)?.idle(value(op)?, now_ms)
    }

    fn on_other_type(&self, op: &Held) -> OtherType {
        value(op).map_or(OtherType::Refuse, T::on_other_type)
    }

    fn preserves_key(&self, op: &Held) -> bool {
        value(op).is_some_and(T::preserves_key)
    }

    fn commutes(&self, held: &Held, a: (&Held, bool), b: (&Held, bool)) -> bool {
        let accesses = access::<T>(a.0, a.1).zip(access::<T>(b.0, b.1));
        let all = value::<T>(held).zip(accesses);
        all.is_some_and(|(held, (a, b))| held.commutes(a, b))
    }

    fn follows(&self, op: &Held) -> (bool, bool) {
        let known = T::FORESIGHT.zip(value(op));
        known.map_or((false, false), |(known, op)| {
            ((known.follows)(op), (known.follows_in_time)(op))
        })
    }

    fn cost(&self, held: &Held) -> usize {
        T::FORESIGHT.zip(value(held)).map_or(usize::MAX, |(known, held)| (known.cost)(held))
    }

    fn foretell(&self, held: &Held, op: &Held, ctx: &Ctx) -> Option<Reply> {
        (T::FORECAST?.reply)(value(held)?, value(op)?, ctx)
    }

    fn next_expiry_ms(&self, held: &Held, after_ms: Option<u64>) -> Option<u64> {
        (T::PARTS?.next_expiry_ms)(value(held)?, after_ms)
    }

    fn outlives(&self, held: &Held, now_ms: u64) -> bool {
        T::PARTS.zip(value(held)).is_none_or(|(parts, held)| (parts.outlives)(held, now_ms))
    }

    fn expire(&self, held: &mut Held, now_ms: u64, most: usize) -> usize {
        let known = T::PARTS.zip(held.downcast_mut());
        known.map_or(0, |(parts, held)| (parts.expire)(held, now_ms, most))
    }

    fn query_left(&self, held: &Held, op: &Held, ctx: &Ctx) -> Reply {
        match (T::PARTS, value(held), value(op)) {
            (Some(parts), Some(held), Some(op)) => (parts.query_left)(held, op, ctx),
            _ => self.query(held, op, ctx),
        }
    }

    fn mode(&self, op: &Held, observed: bool) -> u8 {
        access::<T>(op, observed).map_or(0, T::mode)
    }

    fn chosen_first(&self, key: &Blob, op: &Held) -> Option<Compound> {
        T::chosen_first(key, value(op)?)
    }

    fn combine(&self, earlier: &Held, next: &Held) -> Option<Arc<Held>> {
        T::combine(value(earlier)?, value(next)?).map(|op| Arc::new(op) as Arc<Held>)
    }

    fn encode(&self, op: &Held, key: &[u8], out: &mut ArgBuf) {
        if let Some(op) = value(op) {
            T::encode(op, key, out);
        }
    }

    fn save(&self, held: &Held, sink: &mut dyn ValueSink) {
        if let Some(held) = value::<T>(held) {
            held.save(sink);
        }
    }

    fn load(&self, source: &mut dyn ValueSource) -> Result<Box<Held>, Corrupt> {
        T::load(source).map(|held| Box::new(held) as Box<Held>)
    }
}

static ADDED: Mutex<Vec<&'static dyn Kind>> = Mutex::new(Vec::new());
static FINAL: OnceLock<Vec<&'static dyn Kind>> = OnceLock::new();

/// All registered types. None can be added from now on.
fn all() -> &'static [&'static dyn Kind] {
    FINAL.get_or_init(|| ADDED.lock().unwrap_or_else(PoisonError::into_inner).clone())
}

/// Adds a data type to this program: its commands are commands of the server, beside those of the built-in
/// types. To be called before anything else of the store is used, by every machine of a cluster: log and
/// snapshots hold operations and values that no other build can read.
///
/// # Errors
/// A text that says why the type cannot be added: its name or a command's is taken by another type, a name is
/// not in lower case, there are too many types, or it is too late. Names of commands that are about no key
/// (`ping`) are checked when the program starts.
pub fn register<T>() -> Result<(), String>
where
    T: DataType<Op: Send + Sync + 'static> + Send + Sync + 'static,
{
    let mut added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    if added.iter().any(|kind| kind.id() == TypeId::of::<T>()) {
        return Ok(());
    }
    if FINAL.get().is_some() {
        return Err(format!(
            "the type {} is registered too late: begin the program with it",
            T::NAME
        ));
    }
    if added.len() == EXTENSIONS_MAX {
        return Err(format!("there are at most {EXTENSIONS_MAX} registered types"));
    }
    let is_word = |name: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '_';
        (1..=32).contains(&name.len()) && name.chars().all(fits)
    };
    let names = std::iter::once(T::NAME).chain(T::COMMANDS.iter().map(|spec| spec.name));
    if let Some(name) = names.into_iter().find(|name| !is_word(name)) {
        return Err(format!("'{name}' is no name: at most 32 of a-z 0-9 . _"));
    }
    let is_taken =
        record::is_built_in_type(T::NAME) || added.iter().any(|kind| kind.name() == T::NAME);
    if is_taken || T::NAME == "none" {
        return Err(format!("there is a type {} already", T::NAME));
    }
    let commands = || added.iter().flat_map(|kind| kind.commands());
    for (place, spec) in T::COMMANDS.iter().enumerate() {
        let before = T::COMMANDS[..place].iter();
        let known = record::built_in_commands().chain(commands()).chain(before);
        if known.into_iter().any(|known| known.name == spec.name) {
            return Err(format!("there is a command {} already", spec.name));
        }
    }
    if T::MODES.is_empty() || T::MODES.len() > 8 {
        return Err(format!("the type {} has no modes, or more than 8", T::NAME));
    }
    added.push(&Of::<T>(PhantomData));
    Ok(())
}

/// Commands of all registered types.
pub(crate) fn commands() -> impl Iterator<Item = &'static CommandSpec> {
    all().iter().flat_map(|kind| kind.commands())
}

/// Lock modes of all registered types, as [`record::lock_modes`] has them.
pub(crate) fn lock_modes() -> impl Iterator<Item = (&'static str, &'static [&'static str], [u8; 8])>
{
    all().iter().map(|kind| (kind.name(), kind.modes(), kind.shared()))
}

/// An operation of a registered type, for the parser of its commands.
pub fn op<T>(op: T::Op) -> crate::Op
where
    T: DataType<Op: Send + Sync + 'static> + Send + Sync + 'static,
{
    crate::Op::Extension(Op { kind: &Of::<T>(PhantomData), held: Arc::new(op) })
}

/// An operation of a registered type.
#[derive(Clone)]
pub struct Op {
    kind: &'static dyn Kind,
    held: Arc<Held>,
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.show_op(&*self.held, f)
    }
}

impl PartialEq for Op {
    fn eq(&self, other: &Self) -> bool {
        self.kind.id() == other.kind.id() && self.kind.same_op(&*self.held, &*other.held)
    }
}

impl Op {
    /// The lock mode of an access by it. The types have numbers behind those of the built-in ones.
    pub(crate) fn mode(&self, built_in: u8, observed: bool) -> Mode {
        let number = all().iter().position(|kind| kind.id() == self.kind.id()).unwrap_or(0);
        let mode = self.kind.mode(&*self.held, observed);
        let shared = self.kind.shared()[usize::from(mode & 7)];
        let number = u8::try_from(number).unwrap_or(u8::MAX);
        Mode::new(built_in.saturating_add(number), (mode, shared), !self.kind.is_write(&*self.held))
    }

    /// Name of its type, and of the mode of an access by it.
    pub(crate) fn mode_name(&self, observed: bool) -> (&'static str, &'static str) {
        let mode = usize::from(self.kind.mode(&*self.held, observed));
        (self.kind.name(), self.kind.modes().get(mode).copied().unwrap_or("?"))
    }
}

/// A value of a registered type; a new one has no type yet.
#[derive(Default)]
pub struct Value(Option<(&'static dyn Kind, Box<Held>)>);

impl Value {
    /// Name of the type.
    pub fn name(&self) -> &'static str {
        self.0.as_ref().map_or("none", |(kind, _)| kind.name())
    }

    /// Result of a function of the type for the value, or for a new one if there is none; `None` if the
    /// value is of another type.
    fn with<R>(&self, op: &Op, of: impl FnOnce(&Held) -> R) -> Option<R> {
        match &self.0 {
            Some((kind, held)) if kind.id() == op.kind.id() => Some(of(&**held)),
            Some(_) => None,
            None => Some(of(&*op.kind.fresh())),
        }
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        Self(self.0.as_ref().map(|(kind, held)| (*kind, kind.clone_value(&**held))))
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some((kind, held)) => kind.show_value(&**held, f),
            None => f.write_str("None"),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some((kind, a)), Some((other, b))) => {
                kind.id() == other.id() && kind.same_value(&**a, &**b)
            }
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "extension";
    const COMMANDS: &'static [CommandSpec] = &[];
    // Those of the types themselves count.
    const MODES: &'static [&'static str] = &["read", "write"];
    const SHARED: [u8; 8] = [0b1, 0, 0, 0, 0, 0, 0, 0];

    const FORESIGHT: Option<Foresight<Self, Op>> = Some(Foresight {
        follows: |op| op.kind.follows(&*op.held).0,
        follows_in_time: |op| op.kind.follows(&*op.held).1,
        cost: |value| value.0.as_ref().map_or(0, |(kind, held)| kind.cost(&**held)),
    });

    const FORECAST: Option<Forecast<Self, Op>> = Some(Forecast {
        reply: |value, op, ctx| {
            let known = value.with(op, |held| op.kind.foretell(held, &*op.held, ctx));
            known.unwrap_or_else(|| Some(ErrorReply::wrong_type().into()))
        },
        // A value of another registered type refuses it.
        is_always_possible: |_| false,
    });

    const PARTS: Option<MortalParts<Self, Op>> = Some(MortalParts {
        next_expiry_ms: |value, after_ms| {
            let (kind, held) = value.0.as_ref()?;
            kind.next_expiry_ms(&**held, after_ms)
        },
        outlives: |value, now_ms| {
            value.0.as_ref().is_none_or(|(kind, held)| kind.outlives(&**held, now_ms))
        },
        expire: |value, now_ms, most| match &mut value.0 {
            Some((kind, held)) => kind.expire(&mut **held, now_ms, most),
            None => 0,
        },
        query_left: |value, op, ctx| {
            let left = value.with(op, |held| op.kind.query_left(held, &*op.held, ctx));
            left.unwrap_or_else(|| ErrorReply::wrong_type().into())
        },
    });

    fn is_write(op: &Op) -> bool {
        op.kind.is_write(&*op.held)
    }

    fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|(kind, held)| kind.is_empty(&**held))
    }

    fn creates(op: &Op) -> bool {
        op.kind.creates(&*op.held)
    }

    fn query(&self, op: &Op, ctx: &Ctx) -> Reply {
        let reply = self.with(op, |held| op.kind.query(held, &*op.held, ctx));
        reply.unwrap_or_else(|| ErrorReply::wrong_type().into())
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        let (kind, held) = self.0.get_or_insert_with(|| (op.kind, op.kind.fresh()));
        if kind.id() != op.kind.id() {
            meta.untouched = true;
            return ErrorReply::wrong_type().into();
        }
        kind.apply(&mut **held, &*op.held, ctx, meta)
    }

    fn may_be_idle(op: &Op) -> bool {
        op.kind.may_be_idle(&*op.held)
    }

    fn idle(&self, op: &Op, now_ms: u64) -> Option<Reply> {
        self.with(op, |held| op.kind.idle(held, &*op.held, now_ms))?
    }

    fn on_other_type(op: &Op) -> OtherType {
        op.kind.on_other_type(&*op.held)
    }

    fn preserves_key(op: &Op) -> bool {
        op.kind.preserves_key(&*op.held)
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        let accesses = ((&*a.op.held, a.observed), (&*b.op.held, b.observed));
        let commute = |held: &Held| a.op.kind.commutes(held, accesses.0, accesses.1);
        a.op.kind.id() == b.op.kind.id() && self.with(a.op, commute) == Some(true)
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        u8::from(Self::is_write(access.op))
    }

    fn chosen_first(key: &Blob, op: &Op) -> Option<Compound> {
        op.kind.chosen_first(key, &*op.held)
    }

    fn combine(earlier: &Op, next: &Op) -> Option<Op> {
        if earlier.kind.id() != next.kind.id() {
            return None;
        }
        let held = earlier.kind.combine(&*earlier.held, &*next.held)?;
        Some(Op { kind: earlier.kind, held })
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        op.kind.encode(&*op.held, key, out);
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        sink.bytes(self.name().as_bytes());
        if let Some((kind, held)) = &self.0 {
            kind.save(&**held, sink);
        }
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let name = source.bytes()?;
        let kind = all().iter().find(|kind| kind.name().as_bytes() == name).ok_or(Corrupt)?;
        kind.load(source).map(|held| Self(Some((*kind, held))))
    }
}
