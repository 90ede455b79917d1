//! Courses: the ways in which programs are carried out.

use super::route::{Route, about_all, only_reads};
use crate::entry::Apply;
use crate::gateway::core::Core;
use crate::gateway::pipelines::planned::Planned;
use crate::gateway::target::Target;
use crate::gateway::txn::transaction::repeated::home_of;
use crate::gateway::txn::work::{Finish, Outcome, Program, ProgramStep, Work};
use crate::gateway::waiting::fence::several_shards;
use crate::ids::{KeyedOp, ShardId};
use crate::script::{ScriptOf, ScriptRun};
use adt::{ErrorReply, Reply};
use smallvec::SmallVec;

/// Course of a program, the cheapest one that is possible.
pub(in crate::gateway) enum Course {
    /// No shard is asked: all replies are known.
    Known(Finish),
    /// The program is dispatched with its session's pipeline.
    Gathered(Planned),
    /// One shard carries out all operations, which are one request.
    OneShard(ShardId, Apply, Finish),
    /// Several shards are read at one instant, without locks.
    Snapshot(Vec<KeyedOp>, Finish),
    /// Several shards prepare and decide operations that are all known.
    Transaction(Apply, Finish),
    /// The shard of its keys runs the script that the program is.
    Script(ShardId, ScriptRun, Program),
    /// A transaction looks at records before all its operations are known.
    Steps(Program),
    /// The program is refused.
    Refused(Reply),
}

/// Whether a program consists of operations on one shard and nothing else, and can be a unit of a stream.
pub(in crate::gateway) fn may_gather(core: &Core, program: &Program, route: Route) -> bool {
    let plain = program.guards.is_empty() && program.fences.is_empty() && program.request.is_none();
    let direct = |step: &ProgramStep| match step {
        ProgramStep::Ops(ops, _) => !about_all(ops),
        step => matches!(step, ProgramStep::Fixed(_)),
    };
    plain
        && matches!(route, Route::One(_))
        && core.config.concurrency.sends_in_one_step()
        && program.steps.iter().all(direct)
}

/// The shard that may run the script which is the whole program, and the run there.
pub(in crate::gateway) fn at_its_shard(
    core: &mut Core,
    program: &Program,
) -> Option<(ShardId, ScriptRun)> {
    let plain = program.guards.is_empty() && program.fences.is_empty() && program.request.is_none();
    let [ProgramStep::Script(call)] = &program.steps[..] else { return None };
    if !plain
        || core.config.tags.is_none()
        || !core.config.concurrency.reads_ahead()
        || !core.has_room()
        || call.is_limited()
    {
        return None;
    }
    let mut route = Route::Nowhere;
    // A key has the same slot in all databases.
    let keys = call.inputs.keys.iter().map(|name| core.naming(0).key_of(name));
    keys.for_each(|key| route.add(core.mail.shard_of(&key)));
    let Route::One(shard) = route else { return None };
    let run = ScriptRun {
        script: ScriptOf::Read(core.scripts.for_shard(call)?),
        inputs: call.inputs.clone(),
        only_reads: call.only_reads,
        database: call.database,
        slots: core.mail.routes.slots_of(shard),
        also: Vec::new(),
    };
    Some((shard, run))
}

impl Course {
    /// Course of a program, whose session may keep the order of its commands across shards.
    pub fn of_program(
        core: &mut Core,
        keeps_order: bool,
        program: Program,
        route: Route,
    ) -> (Target, Self) {
        let target = program.target;
        let direct = program.steps.iter().all(ProgramStep::is_direct);
        let in_one_step = direct && core.config.concurrency.sends_in_one_step();
        if !program.fences.is_empty() && !in_one_step {
            let text = "FENCE needs what it guards to be carried out in one step";
            return (target, Self::Refused(ErrorReply::err(text).into()));
        }
        if !in_one_step {
            return (target, Self::of_steps(core, program));
        }
        let gathers = keeps_order && may_gather(core, &program, route);
        let Program { steps, form, guards, fences, request, .. } = program;
        let mut work = Work::default();
        for step in steps {
            match step {
                ProgramStep::Ops(ops, merge) => work.add(ops, merge),
                ProgramStep::Fixed(reply) => work.add_without_ops(Outcome::Fixed(reply)),
                ProgramStep::Later(words) => work.add_without_ops(Outcome::Later(words)),
                ProgramStep::Compound(_) | ProgramStep::Attempts(_) | ProgramStep::Script(_) => {}
            }
        }
        let home = |request| home_of(&work.ops).unwrap_or_else(|| core.client_key(request));
        let kept = request.as_ref().map(|request| (request, home(request)));
        let finish = Finish::new(work.outcomes, form, kept);
        let ops = SmallVec::from_vec(work.ops);
        if gathers {
            let finish = Some(Box::new(finish));
            return (target, Self::Gathered(Planned { target, ops, finish }));
        }
        (target, Self::of(core, route, Apply { ops, guards, fences, request }, finish))
    }

    /// Course of a program of which not all operations are known. A shard runs a script that is the whole
    /// program if it has all its declared keys, and if nothing has to be checked that shards do not know.
    fn of_steps(core: &mut Core, program: Program) -> Self {
        match at_its_shard(core, &program) {
            Some((shard, run)) => Self::Script(shard, run, program),
            None => Self::Steps(program),
        }
    }

    /// Course of operations that are all known.
    pub fn of(core: &Core, route: Route, apply: Apply, finish: Finish) -> Self {
        // Operations on all keys are a transaction even at a single shard.
        let route = if about_all(&apply.ops) { Route::Many } else { route };
        match (route, &apply.request) {
            // A shard remembers all the same that the request was carried out.
            (Route::Nowhere, Some(request)) => {
                let shard = core.mail.shard_of(&core.client_key(request));
                Self::OneShard(shard, apply, finish)
            }
            (Route::Nowhere, None) => Self::Known(finish),
            (Route::One(shard), _) => Self::OneShard(shard, apply, finish),
            (Route::Many, _) if !apply.fences.is_empty() => Self::Refused(several_shards().into()),
            (Route::Many, _)
                if only_reads(&apply) && core.config.concurrency.reads_without_locks() =>
            {
                Self::Snapshot(apply.ops.into_vec(), finish)
            }
            (Route::Many, _) => Self::Transaction(apply, finish),
        }
    }
}
