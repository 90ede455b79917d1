//! Results of one cell, and its row.

use super::{Cell, Load};
use crate::load::recorder::Recorder;
use crate::report::{fields, rounded};
use serde_json::{Map, Value};

/// Results and costs.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Duration of the measurement.
    pub elapsed_s: f64,
    /// Number of answered commands.
    pub commands: u64,
    /// Messages between machines that clients' requests caused.
    pub messages: u64,
    /// Bytes between machines.
    pub bytes: u64,
    /// Log entries.
    pub appends: u64,
    /// Figures that only real processes have, by the name of the field.
    pub more: Map<String, Value>,
    /// Results of requests.
    pub recorder: Recorder,
}

impl Figures {
    /// Latency that this share of the requests did not exceed, in microseconds.
    pub fn latency_us(&self, share: f64) -> Option<f64> {
        let some = self.recorder.commits() > 0;
        some.then(|| self.recorder.latency.value_at_quantile(share) as f64 / 1e3)
    }

    /// Requests per second.
    pub fn requests_per_s(&self) -> f64 {
        self.recorder.commits() as f64 / self.elapsed_s
    }

    /// Builds the row of a cell.
    pub fn row(&self, cell: &Cell<'_>, kinds: &[&str]) -> Map<String, Value> {
        let us = |share| self.latency_us(share).map_or(Value::Null, rounded);
        let per_op = |count: u64| rounded(count as f64 / self.commands.max(1) as f64);
        let commits = self.recorder.commits().max(1);
        let mut row = fields([
            ("order", Value::from(cell.order)),
            ("topology", Value::from(cell.topology.name.as_str())),
            ("shards", Value::from(cell.shards)),
            ("clients", Value::from(cell.clients)),
            ("requests", Value::from(self.recorder.commits())),
            ("ops_per_request", rounded(self.commands as f64 / commits as f64)),
            ("p50_us", us(0.5)),
            ("p99_us", us(0.99)),
            ("mean_us", rounded(self.recorder.latency.mean() / 1e3)),
            ("requests_per_s", rounded(self.requests_per_s())),
            ("ops_per_s", rounded(self.commands as f64 / self.elapsed_s)),
            ("messages_per_op", per_op(self.messages)),
            ("bytes_per_op", per_op(self.bytes)),
            ("log_appends_per_op", per_op(self.appends)),
        ]);
        // An application draws the number of commands per request: the field exists without a
        // number.
        let (fanout, zipf) = match cell.load {
            Load::Keys { fanout, zipf } => (fanout.into(), rounded(zipf)),
            Load::Retwis => (Value::Null, Value::Null),
        };
        row.insert("fanout".into(), fanout);
        row.insert("zipf".into(), zipf);
        if kinds.len() > 1 {
            let done = kinds.iter().zip(&self.recorder.committed);
            let done = done.map(|(kind, count)| ((*kind).to_owned(), Value::from(*count)));
            row.insert("done_by_kind".into(), done.collect::<Map<_, _>>().into());
        }
        row.extend(self.more.clone());
        row
    }
}
