//! Operations on a stream, with their options.

use super::{Fields, Id, Once};
use crate::Blob;

/// Identifier of a new entry, as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewId {
    /// From the commit timestamp.
    Auto,
    /// The next one in this millisecond.
    Milli(u64),
    /// This one.
    Exact(Id),
}

/// Entries that are to be removed from the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// Which.
    pub to: Bound,
    /// Whether it is enough to remove them in hundreds (`~`).
    pub roughly: bool,
    /// Most entries to remove; 0 means any number.
    pub limit: u64,
    /// Treatment of deliveries that are pending.
    pub references: References,
}

/// Entries that a trimmed stream keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// So many of the newest entries.
    Len(u64),
    /// Entries from this identifier on.
    From(Id),
}

/// Where a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Behind this entry.
    Id(Id),
    /// At the end: there is nothing to read.
    End,
    /// Before the last entry.
    Last,
}

/// Options of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Time since the last delivery that an entry must have, in milliseconds.
    pub min_idle_ms: u64,
    /// When the entry is said to have been delivered.
    pub at: Delivered,
    /// Number of deliveries to set.
    pub count: Option<u64>,
    /// Whether entries that are not pending become so.
    pub force: bool,
    /// Whether identifiers are answered, and deliveries are not counted.
    pub just_id: bool,
    /// Last delivered identifier of the group, if it is higher than the present one.
    pub last: Option<Id>,
}

/// Options of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Reason.
    pub failure: Failure,
    /// Number of deliveries to set.
    pub count: Option<u64>,
    /// Whether entries that are not pending become so.
    pub force: bool,
}

/// Reason for which a consumer releases an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// None that counts: there is one delivery less.
    Silent,
    /// The consumer could not do it.
    Fail,
    /// The entry cannot be worked on: there are as many deliveries as there may be.
    Fatal,
}

/// Time of a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivered {
    /// Now.
    #[default]
    Now,
    /// So many milliseconds ago.
    Ago(u64),
    /// In milliseconds since 1970.
    At(u64),
}

/// Treatment of deliveries that are pending when their entry is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// Deliveries stay.
    #[default]
    Keep,
    /// Deliveries are removed, in all groups.
    Delete,
    /// The entry stays while a group has not acknowledged it.
    Acknowledged,
}

/// Operations on a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// Adds an entry; answers its identifier.
    Add {
        /// Identifier.
        id: NewId,
        /// Whether an absent stream is created.
        creates: bool,
        /// Trimming that follows.
        trim: Option<Trim>,
        /// Name under which it is added once.
        once: Option<Once>,
        /// Fields and values.
        fields: Fields,
    },
    /// Identifier of the entry that was added under a name, or nil.
    Original(Once),
    /// Counts an add that has found its name.
    Repeated,
    /// Sets for how long names of entries are remembered, and how many.
    Configure {
        /// Time, in seconds.
        remembered_s: Option<u64>,
        /// Most names of a producer.
        most: Option<u64>,
    },
    /// Identifier that an entry added now would get.
    Next,
    /// Highest identifier ever assigned.
    Last,
    /// Number of entries.
    Len,
    /// Entries from one identifier to another, both included.
    Range {
        /// First one.
        from: Id,
        /// Last one.
        to: Id,
        /// Most entries.
        count: Option<u64>,
        /// Whether the last one comes first.
        back: bool,
    },
    /// Entries behind a place; nil if there are none.
    Read {
        /// The place.
        after: After,
        /// Most entries.
        count: Option<u64>,
    },
    /// Removes entries; answers how many.
    Delete(Vec<Id>),
    /// Removes entries, after acknowledging them if a group is named; answers for each whether it is
    /// removed.
    Forget {
        /// The group that acknowledges them.
        group: Option<Blob>,
        /// Treatment of deliveries that are pending in groups.
        references: References,
        /// The entries.
        ids: Vec<Id>,
    },
    /// Removes entries from the front; answers how many.
    Trim(Trim),
    /// Sets the last identifier.
    SetId {
        /// Last identifier.
        id: Id,
        /// Number of entries ever added.
        added: Option<u64>,
        /// Highest identifier of a removed entry.
        deleted: Option<Id>,
    },
    /// Creates a group.
    CreateGroup {
        /// Name of the group.
        group: Blob,
        /// Last identifier that counts as delivered; none is the stream's last one.
        id: Option<Id>,
        /// Whether an absent stream is created.
        creates: bool,
        /// Number of entries that count as read.
        read: Option<u64>,
    },
    /// Sets the last delivered identifier of a group.
    MoveGroup {
        /// Name of the group.
        group: Blob,
        /// Last identifier that counts as delivered; none is the stream's last one.
        id: Option<Id>,
        /// Number of entries that count as read.
        read: Option<u64>,
    },
    /// Removes a group.
    DestroyGroup(Blob),
    /// Creates a consumer of a group.
    CreateConsumer(Blob, Blob),
    /// Removes a consumer of a group; answers how many entries were pending for it.
    DeleteConsumer(Blob, Blob),
    /// Delivers entries of a group to a consumer.
    ReadGroup {
        /// The group.
        group: Blob,
        /// The consumer.
        consumer: Blob,
        /// New entries; or those pending for the consumer behind an identifier.
        after: Option<Id>,
        /// Most entries.
        count: Option<u64>,
        /// Whether the entries count as acknowledged.
        no_ack: bool,
        /// Time since the last delivery from which pending entries are delivered before new ones, in
        /// milliseconds, if such are.
        claim_ms: Option<u64>,
    },
    /// Entries that such a delivery with `claim_ms` would deliver: those that are pending, those that are
    /// new, and the identifiers of those that are pending and gone. Nil if there are none to deliver.
    Due {
        /// The group.
        group: Blob,
        /// Time since the last delivery that pending ones must have, in milliseconds.
        min_idle_ms: u64,
        /// Most entries.
        count: Option<u64>,
    },
    /// Delivers these entries of a group to a consumer.
    HandOut {
        /// The group.
        group: Blob,
        /// The consumer.
        consumer: Blob,
        /// Entries that are pending; the delivery of one that is gone ends.
        pending: Vec<Id>,
        /// Entries that are new.
        new: Vec<Id>,
        /// Whether the new ones count as acknowledged.
        no_ack: bool,
    },
    /// Reply that such a delivery would have.
    PeekGroup {
        /// The group.
        group: Blob,
        /// The consumer.
        consumer: Blob,
        /// New entries; or those pending for the consumer behind an identifier.
        after: Option<Id>,
        /// Most entries.
        count: Option<u64>,
    },
    /// Acknowledges entries; answers how many were pending.
    Ack(Blob, Vec<Id>),
    /// Summary of a group's pending entries.
    Pending(Blob),
    /// Pending entries of a group.
    ListPending {
        /// The group.
        group: Blob,
        /// Time since the last delivery that they must have, in milliseconds.
        idle_ms: u64,
        /// First one.
        from: Id,
        /// Last one.
        to: Id,
        /// Most of them.
        count: u64,
        /// The consumer that they are pending for, if one is named.
        consumer: Option<Blob>,
    },
    /// Makes pending entries those of another consumer.
    Claim {
        /// The group.
        group: Blob,
        /// The consumer.
        consumer: Blob,
        /// The entries.
        ids: Vec<Id>,
        /// Options.
        how: Claim,
    },
    /// Makes pending entries those of no consumer; answers how many.
    Release {
        /// The group.
        group: Blob,
        /// The entries.
        ids: Vec<Id>,
        /// Options.
        how: Release,
    },
    /// Makes entries that are pending for long those of another consumer.
    AutoClaim {
        /// The group.
        group: Blob,
        /// The consumer.
        consumer: Blob,
        /// Time since the last delivery that an entry must have, in milliseconds.
        min_idle_ms: u64,
        /// Where to begin.
        from: Id,
        /// Most entries.
        count: u64,
        /// Whether identifiers are answered, and deliveries are not counted.
        just_id: bool,
    },
    /// Facts about the stream.
    Info,
    /// Facts about the stream, its entries and groups; of each so many, or all for 0.
    InfoFull(u64),
    /// Facts about the groups.
    InfoGroups,
    /// Facts about the consumers of a group.
    InfoConsumers(Blob),
}
