//! Virtual machines in which scripts run: what they contain, and how they are limited.

use crate::convert::number;
use crate::{bits, json, library, msgpack, name_of, structs};
use engine::limits::{
    SCRIPT_FUEL_MAX, SCRIPT_FUEL_OF_HOST, SCRIPT_FUEL_PER_PIECE, SCRIPT_MEMORY_BYTES_MAX,
    SCRIPTS_LOADED_MAX,
};
use engine::script::{Script, ScriptInputs, ScriptName};
use mlua::LuaString;
use mlua::chunk::ChunkMode;
use mlua::{
    Function, Lua, LuaOptions, MultiValue, StdLib, Table, Thread, Value, Variadic, VmState,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Bytes above a fresh machine's from which on its garbage is collected after a run.
const GARBAGE_BYTES: usize = 1 << 20;
/// Bytes above a fresh machine's that may be left then.
const REST_BYTES: usize = 1 << 20;

/// Version of Redis' scripts that these are like.
const VERSION: &str = "7.2.0";
const VERSION_NUMBER: u32 = 0x0007_0200;

/// Most keys and arguments that are given to a run one by one.
const FEW_WORDS: usize = 64;
/// Most bytes that are given to a run without a limit of memory.
pub const UNLIMITED_BYTES_MAX: usize = 1 << 16;

/// Bytes of allocated memory, or bytes that a function works on, that count as one step.
pub const BYTES_PER_STEP: usize = 64;
/// Bytes that are allocated between two collections of garbage if the live data are few.
const COLLECT_BYTES: usize = 1 << 20;

/// Meter of what a run uses.
#[derive(Debug, Default)]
pub struct Meter {
    fuel: AtomicU64,
    piece: AtomicU64,
    exhausted: AtomicBool,
    resp3: AtomicBool,
    /// Further steps of each step while a long pattern is matched.
    weight: AtomicU64,
    /// Memory in use at the last step.
    used: AtomicUsize,
    /// Memory in use from which on garbage is collected.
    collect_at: AtomicUsize,
    /// Most memory.
    memory_max: AtomicUsize,
}

impl Meter {
    /// Number of steps so far.
    pub fn fuel(&self) -> u64 {
        self.fuel.load(Ordering::Relaxed)
    }

    /// Whether the steps are used up.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }

    /// Whether replies are given to the script in the form of RESP3.
    pub fn is_resp3(&self) -> bool {
        self.resp3.load(Ordering::Relaxed)
    }

    fn reset(&self, lua: &Lua, memory_max: usize) {
        let used = lua.used_memory();
        self.fuel.store(0, Ordering::Relaxed);
        self.piece.store(0, Ordering::Relaxed);
        self.exhausted.store(false, Ordering::Relaxed);
        self.resp3.store(false, Ordering::Relaxed);
        self.weight.store(0, Ordering::Relaxed);
        self.used.store(used, Ordering::Relaxed);
        self.collect_at.store(used + COLLECT_BYTES, Ordering::Relaxed);
        self.memory_max.store(memory_max, Ordering::Relaxed);
    }

    /// Charges steps.
    pub fn charge(&self, steps: u64) -> mlua::Result<()> {
        self.piece.fetch_add(steps, Ordering::Relaxed);
        let fuel = self.fuel.load(Ordering::Relaxed).saturating_add(steps);
        self.fuel.store(fuel, Ordering::Relaxed);
        if fuel > SCRIPT_FUEL_MAX {
            self.exhausted.store(true, Ordering::Relaxed);
            return Err(mlua::Error::runtime("out of steps"));
        }
        Ok(())
    }

    /// Counts a step, and the memory that was allocated since the last one. Garbage is collected here and
    /// nowhere else: otherwise memory that is allocated and freed within one step would not be seen, and a
    /// script could copy long strings for ever without being charged for it.
    fn step(&self, lua: &Lua) -> mlua::Result<VmState> {
        let used = lua.used_memory();
        let grown = used.saturating_sub(self.used.load(Ordering::Relaxed)) / BYTES_PER_STEP;
        self.used.store(used, Ordering::Relaxed);
        if used > self.collect_at.load(Ordering::Relaxed) && !self.is_exhausted() {
            self.collect(lua)?;
        }
        self.charge(1 + self.weight.load(Ordering::Relaxed) + grown as u64)?;
        if self.piece.load(Ordering::Relaxed) < SCRIPT_FUEL_PER_PIECE {
            return Ok(VmState::Continue);
        }
        // Within a function of the host, a pattern that is matched for example, the machine goes on all the
        // same: such steps are dearer, because nothing else of the worker goes ahead.
        self.charge(SCRIPT_FUEL_OF_HOST - 1)?;
        Ok(VmState::Yield)
    }

    /// Begins the next piece of a run.
    pub fn next_piece(&self) {
        self.piece.store(0, Ordering::Relaxed);
    }

    fn collect(&self, lua: &Lua) -> mlua::Result<()> {
        lua.gc_collect()?;
        lua.gc_stop();
        let live = lua.used_memory();
        self.used.store(live, Ordering::Relaxed);
        // After half of what is left at most, so that a step that allocates much still fits.
        let left = self.memory_max.load(Ordering::Relaxed).saturating_sub(live);
        let more = COLLECT_BYTES.max(live).min(left / 2);
        self.collect_at.store(live + more, Ordering::Relaxed);
        Ok(())
    }
}

/// Where `wanted` is in `text` from the character `from` on: `string.find` of a plain text, in linear time.
fn find(
    meter: &Meter,
    (text, wanted, from): (LuaString, LuaString, Option<f64>),
) -> mlua::Result<(Option<f64>, Option<f64>)> {
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    meter.charge(((text.len() + wanted.len()) / 16) as u64)?;
    let from = from.map_or(1, |from| from as i64);
    let first = if from < 0 { (text.len() as i64 + from + 1).max(1) } else { from.max(1) };
    let start = first as usize - 1;
    let Some(rest) = text.get(start..) else { return Ok((None, None)) };
    Ok(match memchr::memmem::find(rest, &wanted) {
        Some(at) => {
            let before = (start + at) as f64;
            (Some(before + 1.0), Some(before + wanted.len() as f64))
        }
        None => (None, None),
    })
}

/// The functions with which the prelude charges work that is done within one step.
fn charging(lua: &Lua, meter: &Arc<Meter>, host: &Table) -> mlua::Result<()> {
    let own = meter.clone();
    let work =
        lua.create_function(move |_, bytes: f64| own.charge(bytes as u64 / BYTES_PER_STEP as u64))?;
    host.raw_set("work", work)?;
    let own = meter.clone();
    let sorting = lua.create_function(move |_, items: f64| {
        let items = items as u64;
        own.charge(items * u64::from(items.max(1).ilog2() + 1) / 4)
    })?;
    host.raw_set("sorting", sorting)?;
    let own = meter.clone();
    let weigh = lua.create_function(move |_, weight: f64| {
        own.weight.store(weight as u64, Ordering::Relaxed);
        Ok(())
    })?;
    host.raw_set("weigh", weigh)?;
    let own = meter.clone();
    host.raw_set("find", lua.create_function(move |_, args| find(&own, args))?)
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    pub lua: Lua,
    pub meter: Arc<Meter>,
    /// Main function of the coroutine in which one run follows the other.
    main: Function,
    /// The coroutine.
    thread: Thread,
    fresh_bytes: usize,
    loaded: VecDeque<(ScriptName, Function)>,
}

/// A coroutine that waits for its first run.
fn waiting(lua: &Lua, main: &Function) -> mlua::Result<Thread> {
    let thread = lua.create_thread(main.clone())?;
    thread.resume::<()>(())?;
    Ok(thread)
}

/// The functions that the prelude gets from the host.
fn host(lua: &Lua, meter: &Arc<Meter>) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    host.raw_set("cjson", json::library(lua)?)?;
    host.raw_set("cmsgpack", msgpack::library(lua)?)?;
    host.raw_set("struct", structs::library(lua)?)?;
    host.raw_set("bit", bits::library(lua)?)?;
    host.raw_set("null", json::null())?;
    host.raw_set("version", VERSION)?;
    host.raw_set("version_number", VERSION_NUMBER)?;
    host.raw_set("globals", lua.globals())?;
    // Named in the text of the prelude, it would make the compiler expect the worst of it.
    host.raw_set("set_environment", lua.globals().raw_get::<Function>("setfenv")?)?;
    let freeze = lua.create_function(|_, table: Table| {
        table.set_readonly(true);
        Ok(table)
    })?;
    host.raw_set("freeze", freeze)?;
    let error_text = lua.create_function(|lua, text: mlua::LuaString| {
        let text = text.as_bytes();
        let text = text.strip_prefix(b"-").unwrap_or(&text);
        let mut whole = if text.contains(&b' ') { Vec::new() } else { b"ERR ".to_vec() };
        whole.extend_from_slice(text);
        lua.create_string(whole)
    })?;
    host.raw_set("error_text", error_text)?;
    library::add(lua, &host, "sha1hex", |lua, args| match args {
        [Value::String(text)] => library::text(lua, name_of(&text.as_bytes())),
        [Value::Number(value)] => library::text(lua, name_of(number(*value).as_bytes())),
        [Value::Integer(value)] => library::text(lua, name_of(value.to_string().as_bytes())),
        _ => Err("wrong number of arguments".into()),
    })?;
    let own = meter.clone();
    library::add(lua, &host, "setresp", move |_, args| match args {
        [Value::Integer(version @ 2..=3)] => {
            own.resp3.store(*version == 3, Ordering::Relaxed);
            Ok(Vec::new())
        }
        [_] => Err("RESP version must be 2 or 3.".into()),
        _ => Err("redis.setresp() requires one argument.".into()),
    })?;
    let own = meter.clone();
    let clock = lua.create_function(move |_, _: Variadic<Value>| Ok(own.fuel() as f64 / 1e8))?;
    host.raw_set("clock", clock)?;
    charging(lua, meter, &host)?;
    Ok(host)
}

impl Machine {
    /// A machine without scripts.
    pub fn new() -> mlua::Result<Self> {
        let libraries =
            StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::COROUTINE | StdLib::DEBUG;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let meter = Arc::new(Meter::default());
        let host = host(&lua, &meter)?;
        let prelude = lua.load(include_str!("prelude.luau")).set_name("=prelude");
        let main: Function = prelude.call(host)?;
        lua.sandbox(true)?;
        let thread = waiting(&lua, &main)?;
        let own = meter.clone();
        lua.set_interrupt(move |lua| own.step(lua));
        lua.gc_collect()?;
        lua.gc_stop();
        let fresh_bytes = lua.used_memory();
        let loaded = VecDeque::new();
        Ok(Self { lua, meter, main, thread, fresh_bytes, loaded })
    }

    /// Function of a script.
    fn function(&mut self, script: &Script) -> mlua::Result<Function> {
        if let Some((_, function)) = self.loaded.iter().find(|(name, _)| *name == script.name) {
            return Ok(function.clone());
        }
        let chunk = self.lua.load(&script.code[..]).set_mode(ChunkMode::Binary);
        let name = if script.function.is_some() { "@user_function" } else { "@user_script" };
        let function = chunk.set_name(name).into_function()?;
        if self.loaded.len() >= SCRIPTS_LOADED_MAX {
            self.loaded.pop_front();
        }
        self.loaded.push_back((script.name, function.clone()));
        Ok(function)
    }

    /// Begins a run: the values that its coroutine goes on with.
    pub fn begin(&mut self, script: &Script, inputs: &ScriptInputs) -> mlua::Result<MultiValue> {
        self.meter.reset(&self.lua, self.fresh_bytes + SCRIPT_MEMORY_BYTES_MAX);
        let function = self.function(script)?;
        let ScriptInputs { keys, args } = inputs;
        let bytes: usize = keys.iter().chain(args).map(|word| word.len()).sum();
        let called = match &script.function {
            None => Value::Nil,
            Some(name) => Value::String(self.lua.create_string(name)?),
        };
        let are_few = keys.len() + args.len() <= FEW_WORDS;
        self.limit(are_few && bytes <= UNLIMITED_BYTES_MAX)?;
        if are_few {
            let mut values = MultiValue::with_capacity(3 + keys.len() + args.len());
            values.push_back(Value::Function(function));
            values.push_back(called);
            values.push_back(Value::Integer(keys.len() as i64));
            for word in keys.iter().chain(args) {
                values.push_back(Value::String(self.lua.create_string(word)?));
            }
            return Ok(values);
        }
        let list = |words: &[adt::Blob]| -> mlua::Result<Value> {
            let table = self.lua.create_table_with_capacity(words.len(), 0)?;
            for (at, word) in words.iter().enumerate() {
                table.raw_set(at + 1, self.lua.create_string(word)?)?;
            }
            Ok(Value::Table(table))
        };
        let values = [Value::Function(function), called, Value::Integer(-1)];
        Ok(MultiValue::from_iter(values.into_iter().chain([list(keys)?, list(args)?])))
    }

    /// Sets the limit of memory. Without one the values of the host are made in a fraction of the time, so
    /// there is none while few bytes are made.
    pub fn limit(&self, none: bool) -> mlua::Result<()> {
        let limit = if none { 0 } else { self.fresh_bytes + SCRIPT_MEMORY_BYTES_MAX };
        self.lua.set_memory_limit(limit).map(drop)
    }

    /// Goes on up to the next values that the coroutine gives.
    pub fn resume(&self, values: MultiValue) -> mlua::Result<MultiValue> {
        self.limit(false)?;
        self.thread.resume(values)
    }

    /// Drops the present run, which has not ended.
    pub fn give_up(&mut self) -> mlua::Result<()> {
        self.limit(true)?;
        self.thread = waiting(&self.lua, &self.main)?;
        Ok(())
    }

    /// Whether the machine can be used again after a run.
    pub fn is_fit(&self) -> bool {
        if self.lua.used_memory() < self.fresh_bytes + GARBAGE_BYTES {
            return true;
        }
        let collected = self.lua.gc_collect().is_ok();
        self.lua.gc_stop();
        collected && self.lua.used_memory() < self.fresh_bytes + REST_BYTES
    }
}
