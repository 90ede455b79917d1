//! A data type that a build adds: that of the example, which is a crate outside of the workspace.

#[path = "../../../examples/rust-type/src/gauge.rs"]
mod gauge;

use adt::extension::{op, register};
use adt::record::{apply, decode, lock_modes, query};
use adt::{ArgBuf, Ctx, DataType, ErrorReply, Record, Reply, Value};
use gauge::{Gauge, GaugeOp};

fn run(slot: &mut Option<Record>, line: &str) -> Reply {
    match decode(&ArgBuf::of(line.split(' ')).args()) {
        Ok((_, op)) if op.is_write() => apply(slot, &op, &Ctx::default()),
        Ok((_, op)) => query(slot.as_ref(), &op, &Ctx::default()),
        Err(error) => error.into(),
    }
}

#[test]
fn a_registered_type_is_beside_the_built_in_ones() {
    register::<Gauge>().expect("it can be added");
    register::<Gauge>().expect("it is there already");
    let mut slot = None;
    assert_eq!(run(&mut slot, "gauge.add k 5"), Reply::Ok);
    assert_eq!(run(&mut slot, "GAUGE.ADD k 7"), Reply::Ok);
    let record = slot.clone().expect("a record");
    assert_eq!((record.value.shown_type(), record.value.type_name()), ("gauge", "extension"));
    assert!(lock_modes().iter().any(|(name, modes, _)| (*name, modes.len()) == ("gauge", 2)));
    assert_eq!(run(&mut slot, "lpush k x"), Reply::Error(ErrorReply::wrong_type()));

    // A saved value reads back; one of a type that nothing knows does not.
    let put = adt::Op::Key(adt::key::KeyOp::Put(Box::new(record), adt::key::Cause::Copy));
    let mut words = ArgBuf::new();
    put.encode(b"k", &mut words);
    assert_eq!(decode(&words.args()).expect("a record").1, put);
    let other =
        words.args().iter_from(0).map(|word| if word == b"gauge" { b"other" } else { word });
    let other: Vec<&[u8]> = other.collect();
    assert!(decode(&ArgBuf::of(other).args()).is_err());
    assert_ne!(op::<Gauge>(GaugeOp::Show), put);
}

/// A type that takes a name of others.
macro_rules! impostor {
    ($name:ident, $called:literal, $commands:expr) => {
        #[derive(Clone, Debug, Default, PartialEq)]
        struct $name(Gauge);

        impl DataType for $name {
            type Op = GaugeOp;
            const NAME: &'static str = $called;
            const COMMANDS: &'static [adt::CommandSpec] = $commands;
            const MODES: &'static [&'static str] = Gauge::MODES;
            const SHARED: [u8; 8] = Gauge::SHARED;

            fn mode(_: adt::Access<'_, GaugeOp>) -> u8 {
                0
            }
            fn commutes(&self, _: adt::Access<'_, GaugeOp>, _: adt::Access<'_, GaugeOp>) -> bool {
                false
            }
            fn is_write(op: &GaugeOp) -> bool {
                Gauge::is_write(op)
            }
            fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
            fn creates(op: &GaugeOp) -> bool {
                Gauge::creates(op)
            }
            fn preserves_key(op: &GaugeOp) -> bool {
                Gauge::preserves_key(op)
            }
            fn query(&self, op: &GaugeOp, ctx: &Ctx) -> Reply {
                self.0.query(op, ctx)
            }
            fn apply(&mut self, op: &GaugeOp, ctx: &Ctx, meta: &mut adt::Meta) -> Reply {
                self.0.apply(op, ctx, meta)
            }
            fn combine(_: &GaugeOp, _: &GaugeOp) -> Option<GaugeOp> {
                None
            }
            fn encode(op: &GaugeOp, key: &[u8], out: &mut ArgBuf) {
                Gauge::encode(op, key, out);
            }
            fn save(&self, sink: &mut dyn adt::ValueSink) {
                self.0.save(sink);
            }
            fn load(source: &mut dyn adt::ValueSource) -> Result<Self, adt::Corrupt> {
                Gauge::load(source).map(Self)
            }
        }
    };
}

impostor!(NamedAsBuiltIn, "counter", &[]);
impostor!(NamedAsNothing, "none", &[]);
impostor!(Shouting, "GAUGE", &[]);
impostor!(TakingCommands, "gauge2", Gauge::COMMANDS);
impostor!(Late, "late", &[]);

#[test]
fn a_type_that_cannot_be_added_is_refused_with_the_reason() {
    register::<Gauge>().expect("it can be added");
    let refused =
        [register::<NamedAsBuiltIn>(), register::<NamedAsNothing>(), register::<Shouting>()];
    let refused = refused.into_iter().chain([register::<TakingCommands>()]);
    let texts: Vec<String> = refused.map(|tried| tried.expect_err("it is refused")).collect();
    // Another test may have used the store by now: then it is too late for any type.
    let whys =
        ["there is a type counter", "there is a type none", "is no name", "a command gauge."];
    for (text, why) in texts.iter().zip(whys) {
        assert!(text.contains(why) || text.contains("registered too late"), "{text}, not {why}");
    }
    assert_eq!(run(&mut None, "gauge.show k"), Reply::Array([0; 4].map(Reply::Int).to_vec()));
    let late = register::<Late>().expect_err("the store was used");
    assert!(late.contains("registered too late"), "{late}");
}

#[test]
fn values_of_two_types_are_not_taken_for_each_other() {
    register::<Gauge>().expect("it can be added");
    let mut slot = None;
    run(&mut slot, "gauge.add k 5");
    let before = slot.clone();
    let foreign = op::<Late>(GaugeOp::Show);
    let wrong = Reply::Error(ErrorReply::wrong_type());
    assert_eq!(query(slot.as_ref(), &foreign, &Ctx::default()), wrong);
    assert_eq!(before, slot);
    assert!(matches!(slot.map(|record| record.value), Some(Value::Extension(_))));
}
