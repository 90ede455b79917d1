//! Recommendation of a lock algorithm, with reasons.
//!
//! Every available algorithm is predicted; the best comes first, each with the sentences that
//! explain it: the hand-over, the load of the lock that results, the limit of its rate, and its
//! price.

use crate::law::Invalid;
use crate::lock::{Algorithm, Prediction, Setting, State};
use serde::Serialize;

/// Quantity to minimize.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Matters {
    /// The mean latency.
    #[default]
    Mean,
    /// Latency of the slowest hundredth.
    P99,
    /// Log entries and messages per acquisition.
    ServerLoad,
}

/// Available means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Available {
    /// Whether the service has locks of its own. If not, there are nodes, versions and watches.
    pub native: bool,
    /// Whether a gateway near the clients may hold a lock for them.
    pub gateway: bool,
    /// Whether all operations under the lock are in the store, which refuses old tokens.
    pub fenced: bool,
    /// The critical section consists of operations on the store, and is known beforehand.
    pub section_in_store: bool,
    /// Whether to include algorithms that no service has yet.
    pub designs: bool,
}

/// An algorithm with its rank and its reasons.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// Prediction for the algorithm.
    pub prediction: Prediction,
    /// Whether the lock has at most one holder even if clients die.
    pub safe: bool,
    /// Requests per second up to which it is stable.
    pub limit_per_s: Option<f64>,
    /// Reasons for its rank, in sentences.
    pub why: Vec<String>,
}

/// All available algorithms, the best first: safe ones before others, stable before critical before
/// overloaded, and among these the one with less of the quantity to minimize.
///
/// # Errors
/// The setting is impossible.
pub fn rank(
    setting: &Setting,
    available: Available,
    matters: Matters,
) -> Result<Vec<Choice>, Invalid> {
    let candidates = Algorithm::ALL.into_iter().filter(|&one| can_be_had(one, setting, available));
    let predictions: Result<Vec<Prediction>, Invalid> =
        candidates.map(|algorithm| setting.predict(algorithm)).collect();
    let mut predictions = predictions?;
    predictions.sort_by(|a, b| {
        let rank = |p: &Prediction| (!is_safe(p.algorithm), p.state);
        let measures = |p: &Prediction| measures(p, matters);
        let smaller = measures(a).into_iter().zip(measures(b)).map(|(a, b)| a.total_cmp(&b));
        let smaller = smaller.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then);
        rank(a).cmp(&rank(b)).then(smaller)
    });
    let best = predictions.first().cloned();
    let choice = |prediction: Prediction| {
        let why = reasons(setting, &prediction, best.as_ref());
        let busy = prediction.occupancy_ms;
        Choice {
            safe: is_safe(prediction.algorithm),
            limit_per_s: (busy > 0.0).then(|| 1_000.0 / busy),
            prediction,
            why,
        }
    };
    Ok(predictions.into_iter().map(choice).collect())
}

fn can_be_had(algorithm: Algorithm, setting: &Setting, available: Available) -> bool {
    match algorithm {
        Algorithm::Grant => available.native,
        // It is then impossible to ask whether the lock is held.
        Algorithm::Successor => available.native && available.fenced,
        Algorithm::Tentative => available.native && available.designs && available.fenced,
        Algorithm::Cohort => available.native && available.gateway,
        // Without repeated requests of one user the lock would be recalled every time.
        Algorithm::Retained => available.native && setting.same_user > 0.0,
        Algorithm::Fused => available.native && available.section_in_store,
        _ => true,
    }
}

/// The papers' queue trusts a watch that also fires when a waiter dies.
const fn is_safe(algorithm: Algorithm) -> bool {
    !matches!(algorithm, Algorithm::SyncQueue)
}

/// Criteria, the most important first. An unknown value counts as very large; an overloaded lock is
/// the worse, the faster its waits grow.
fn measures(prediction: &Prediction, matters: Matters) -> [f64; 4] {
    let large = |value: Option<f64>| value.unwrap_or(f64::INFINITY);
    let growth = prediction.growth_ms_per_request.unwrap_or(0.0);
    let (mean, p99) = (large(prediction.mean_ms), large(prediction.p99_ms));
    let writes = large(prediction.quorum_writes);
    match matters {
        Matters::Mean => [growth, mean, p99, writes],
        Matters::P99 => [growth, p99, mean, writes],
        Matters::ServerLoad => [growth, writes, large(prediction.messages), mean],
    }
}

fn reasons(setting: &Setting, prediction: &Prediction, best: Option<&Prediction>) -> Vec<String> {
    let mut why = vec![hand_over(prediction), occupation(setting, prediction)];
    if let Some(best) = best.filter(|best| best.algorithm != prediction.algorithm) {
        why.extend(beside(prediction, best));
    }
    why.extend(in_return(prediction.algorithm).map(String::from));
    why
}

/// Milliseconds in readable form.
fn ms(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0} ms"),
        value if value >= 1.0 => format!("{value:.1} ms"),
        value => format!("{value:.3} ms"),
    }
}

fn hand_over(prediction: &Prediction) -> String {
    let how = match prediction.algorithm {
        Algorithm::SyncQueue => "the next in the queue is notified, and trusts that",
        Algorithm::SyncQueueRelist => {
            "the next in the queue is notified, and lists again to be sure"
        }
        Algorithm::AsyncQueue => "the next in the queue sees it with its next poll",
        Algorithm::SyncTas => "the first try after the release gets the lock",
        Algorithm::AsyncTas => "the first try after the release gets the lock; tries do not wait",
        Algorithm::TasWatch => "all waiters are notified and try, and one of them gets the lock",
        Algorithm::AsyncQueueWatch => {
            "the next in the queue is notified of deleted nodes, and knows that it is the first"
        }
        Algorithm::Grant => "the release and the next grant are one log entry",
        Algorithm::Tentative => "the next one begins when the release reaches the leader",
        Algorithm::Successor => "the next one is known before the release, which is only passed on",
        Algorithm::Cohort => "the gateway passes the lock on among its clients",
        Algorithm::Retained => "the last user still has the lock; other clients have it recalled",
        Algorithm::Fused => {
            "no client holds the lock: the server carries out the whole section in its turn"
        }
    };
    let (free, hand_off) = (ms(prediction.free_ms), ms(prediction.hand_off_ms));
    format!("{how}: {free} when it is free, {hand_off} from one holder to the next")
}

fn occupation(setting: &Setting, prediction: &Prediction) -> String {
    let busy = ms(prediction.occupancy_ms);
    let between = ms(setting.interarrival_ms);
    let percent = 100.0 * prediction.load;
    match prediction.state {
        State::Stable => {
            format!(
                "a request occupies it for {busy} of every {between}: {percent:.0} % of its time"
            )
        }
        State::Critical => format!(
            "a request occupies it for {busy} of every {between}: at {percent:.0} % of its time \
             latencies are long and take thousands of requests to settle"
        ),
        State::Overloaded => {
            let growth = ms(prediction.growth_ms_per_request.unwrap_or(0.0));
            format!(
                "requests come every {between} and occupy it for {busy}: each waits {growth} \
                 longer than the one before, without end"
            )
        }
    }
}

fn beside(prediction: &Prediction, best: &Prediction) -> Option<String> {
    let name = best.algorithm.name();
    let (mean, least) = (prediction.mean_ms?, best.mean_ms?);
    let ratio = mean / least;
    let mean = format!("its mean is {} beside {} with {name}", ms(mean), ms(least));
    let tail = match (prediction.p99_ms, best.p99_ms) {
        (Some(p99), Some(of_best)) if p99 > 1.2 * of_best * ratio.max(1.0) => {
            format!(", and its tail is worse: {} beside {} at 99 %", ms(p99), ms(of_best))
        }
        _ => String::new(),
    };
    Some(mean + &tail)
}

/// Price of an algorithm.
const fn in_return(algorithm: Algorithm) -> Option<&'static str> {
    match algorithm {
        Algorithm::SyncQueue => Some(
            "unsafe: when a client in the middle of the queue dies, the one behind it enters \
             although the lock is held",
        ),
        Algorithm::AsyncQueue => Some("every waiter lists the whole queue with every poll"),
        Algorithm::SyncTas => Some(
            "in no order: clients near the leader win more often; every try is a write, even if it \
             fails",
        ),
        Algorithm::AsyncTas => Some(
            "in no order: clients near the leader win more often; every waiter writes with every \
             poll, and enough of them stop the service",
        ),
        Algorithm::TasWatch => Some("every release wakes all waiters"),
        Algorithm::AsyncQueueWatch => Some(
            "every waiter is notified of all nodes that are created and deleted; needs ZooKeeper 3.6",
        ),
        Algorithm::Tentative => {
            Some("operations under the lock take effect only when the grant has been committed")
        }
        Algorithm::Cohort => Some(
            "others wait until a cohort has had its turns; if the gateway is lost, a lease has to \
             end first",
        ),
        Algorithm::Retained => Some("a lock of a lost user must be recalled, which takes a lease"),
        Algorithm::Successor => Some(
            "a release that was passed on may be lost with the leader: the protected resource \
             must refuse old tokens",
        ),
        Algorithm::SyncQueueRelist | Algorithm::Grant | Algorithm::Fused => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Timing;

    const NATIVE: Available = Available {
        native: true,
        gateway: false,
        fenced: false,
        section_in_store: false,
        designs: false,
    };
    const ALL: Available = Available {
        native: true,
        gateway: true,
        fenced: true,
        section_in_store: true,
        designs: true,
    };

    fn setting(client: f64, server: f64, interarrival: f64, service: f64) -> Setting {
        Setting::new(Timing::constant(client, server, 1.0).unwrap(), interarrival, service)
    }

    fn order(setting: &Setting, available: Available, matters: Matters) -> Vec<Algorithm> {
        let ranked = rank(setting, available, matters).unwrap();
        ranked.into_iter().map(|choice| choice.prediction.algorithm).collect()
    }

    #[test]
    fn of_the_papers_ways_async_tas_has_the_best_mean_and_never_the_least_load() {
        let contended = setting(100.0, 0.0, 200.0, 50.0);
        let by_mean = order(&contended, Available::default(), Matters::Mean);
        assert_eq!(by_mean[..2], [Algorithm::AsyncQueueWatch, Algorithm::AsyncTas]);
        let by_tail = order(&contended, Available::default(), Matters::P99);
        assert_eq!(by_tail[..2], [Algorithm::AsyncQueueWatch, Algorithm::AsyncQueue]);
        let by_load = order(&contended, Available::default(), Matters::ServerLoad);
        assert_ne!(by_load[0], Algorithm::AsyncTas);
        assert!(by_mean.iter().all(|one| one.needs_nodes_only()));
    }

    #[test]
    fn a_lock_that_the_service_knows_is_best_or_equal_everywhere() {
        for (client, server, interarrival, service) in
            [(100.0, 0.0, 200.0, 1.0), (0.2, 0.0, 200.0, 150.0), (125.0, 125.0, 500.0, 1.0)]
        {
            let setting = setting(client, server, interarrival, service);
            for matters in [Matters::Mean, Matters::P99, Matters::ServerLoad] {
                assert_eq!(order(&setting, NATIVE, matters)[0], Algorithm::Grant);
                let fenced = Available { fenced: true, ..NATIVE };
                let best = order(&setting, fenced, matters)[0];
                assert!(matches!(best, Algorithm::Grant | Algorithm::Successor), "{best:?}");
            }
        }
    }

    #[test]
    fn what_is_unsafe_comes_last_and_says_why() {
        let ranked = rank(&setting(1.0, 1.0, 100.0, 5.0), NATIVE, Matters::Mean).unwrap();
        let last = ranked.last().unwrap();
        assert!(!last.safe && last.prediction.algorithm == Algorithm::SyncQueue);
        assert!(last.why.iter().any(|why| why.starts_with("unsafe")));
    }

    #[test]
    fn overloaded_locks_come_after_stable_ones_and_say_how_they_grow() {
        let ranked = rank(&setting(100.0, 0.0, 200.0, 50.0), NATIVE, Matters::Mean).unwrap();
        let states: Vec<State> =
            ranked[..ranked.len() - 1].iter().map(|choice| choice.prediction.state).collect();
        assert!(states.is_sorted());
        let relist = ranked
            .iter()
            .find(|choice| choice.prediction.algorithm == Algorithm::SyncQueueRelist)
            .unwrap();
        assert_eq!(relist.prediction.state, State::Overloaded);
        assert!(relist.why[1].contains("51.0 ms longer"), "{:?}", relist.why);
        assert!((relist.limit_per_s.unwrap() - 1_000.0 / 251.0).abs() < 1e-9);
    }

    #[test]
    fn special_circumstances_bring_special_algorithms() {
        let mut setting = setting(100.0, 100.0, 400.0, 1.0);
        setting.same_user = 0.9;
        let found = order(&setting, ALL, Matters::Mean);
        assert_eq!(found.len(), Algorithm::ALL.len());
        assert_eq!(found[0], Algorithm::Cohort);
        for lacking in [Algorithm::Tentative, Algorithm::Successor] {
            assert!(!order(&setting, NATIVE, Matters::Mean).contains(&lacking));
        }
        let words = rank(&setting, ALL, Matters::Mean).unwrap();
        assert!(words.iter().all(|choice| choice.why.len() >= 2));
    }
}
