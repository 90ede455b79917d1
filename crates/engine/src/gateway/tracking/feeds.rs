//! The changes of all shards, as one gateway follows them.

use crate::gateway::core::Core;
use crate::gateway::mail::Pending;
use crate::ids::ShardId;
use crate::limits::SILENT_US_MAX;
use crate::message::{Answer, Body, Following};
use adt::Reply;

/// Changes of one shard.
#[derive(Clone, Debug, Default)]
struct Feed {
    /// Number of the feed, if it is followed without a gap.
    number: Option<u64>,
    /// Number of the last notice.
    heard: u64,
    /// When the last answered request was sent: all changes before are known. Monotonic, in microseconds.
    known_us: u64,
    /// When the request was sent that has no answer yet, and what it asked for.
    asked: Option<(u64, Following)>,
    /// Content of the last request that the shard has answered.
    tells: Following,
}

/// Changes of all shards.
#[derive(Clone, Debug, Default)]
pub struct Feeds {
    all: Vec<Feed>,
    /// Changes and events that the gateway is to be told of.
    wants: Following,
}

impl Feeds {
    /// Changes and events that the gateway is to be told of.
    pub fn wants(&self) -> Following {
        self.wants
    }

    /// Asks the shards that have answered, from now on for this.
    pub fn ask(&mut self, core: &mut Core, wants: Following) {
        self.wants = wants;
        self.all.resize_with(usize::from(core.mail.routes.shards()), Feed::default);
        for shard in 0..self.all.len() {
            self.ask_one(core, ShardId(shard as u16));
        }
    }

    /// Asks a shard, unless it has not answered.
    fn ask_one(&mut self, core: &mut Core, shard: ShardId) {
        let wants = self.wants;
        if let Some(feed) = self.all.get_mut(usize::from(shard.0)).filter(|f| f.asked.is_none()) {
            feed.asked = Some((core.now.mono_us, wants));
            core.mail.ask(shard, Pending::Follow { shard }, Body::Follow(wants));
        }
    }

    /// Asks a shard again that has answered a question for something else.
    pub fn ask_anew(&mut self, core: &mut Core, shard: ShardId, asked: Following) {
        if self.wants != asked {
            self.ask_one(core, shard);
        }
    }

    /// Content of the request that a shard has not answered.
    pub fn asked(&self, shard: ShardId) -> Option<Following> {
        let feed = self.all.get(usize::from(shard.0))?;
        feed.asked.map(|(_, wants)| wants)
    }

    /// Takes the answer of a shard. Whether changes of keys may have been missed.
    pub fn answered(&mut self, shard: ShardId, answer: &Answer) -> bool {
        let Some(feed) = self.all.get_mut(usize::from(shard.0)) else { return false };
        let Some((asked_us, wants)) = feed.asked.take() else { return false };
        let Answer::Reply(Reply::Array(numbers)) = answer else { return false };
        let [Reply::Int(number), Reply::Int(told)] = numbers[..] else { return false };
        let (number, told) = (number as u64, told as u64);
        (feed.known_us, feed.tells) = (asked_us, wants);
        if !wants.keys {
            feed.number = None;
            return false;
        }
        let goes_on = feed.number == Some(number) && feed.heard >= told;
        if !goes_on {
            (feed.number, feed.heard) = (Some(number), told);
        }
        !goes_on
    }

    /// Takes the numbers of a notice. Whether changes before it may have been missed.
    pub fn heard(&mut self, shard: ShardId, feed: u64, number: u64) -> bool {
        let Some(own) = self.all.get_mut(usize::from(shard.0)) else { return false };
        if own.number != Some(feed) {
            // Of an earlier leader, or behind a gap that is known.
            return false;
        }
        let gap = number != own.heard + 1;
        own.heard = own.heard.max(number);
        gap
    }

    /// Whether all shards are followed, the changes of keys without a gap.
    pub fn are_live(&self) -> bool {
        let Following { keys, events } = self.wants;
        // A shard that was asked for less, and has not answered, tells less from some moment on.
        let tells = |feed: &Feed| {
            let lasts = feed.asked.is_none_or(|(_, asked)| asked.events.has(events));
            lasts && feed.tells.events.has(events)
        };
        let is_live = |feed: &Feed| (!keys || feed.number.is_some()) && tells(feed);
        !self.all.is_empty() && self.all.iter().all(is_live)
    }

    /// Ends the feeds of shards that have been silent for long. Whether there is one.
    pub fn end_silent(&mut self, now_us: u64) -> bool {
        let mut any = false;
        for feed in &mut self.all {
            if feed.number.is_some() && now_us.saturating_sub(feed.known_us) > SILENT_US_MAX {
                feed.number = None;
                any = true;
            }
        }
        any
    }

    /// Ends all feeds: nothing depends on them.
    pub fn end_all(&mut self) {
        self.all.iter_mut().for_each(|feed| feed.number = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::record::events::Classes;

    fn answer(feed: i64, told: i64) -> Answer {
        Answer::Reply(Reply::Array(vec![Reply::Int(feed), Reply::Int(told)]))
    }

    /// Feeds of one shard that was asked at this time.
    fn asked(feeds: &mut Feeds, at_us: u64) -> &mut Feeds {
        feeds.wants.keys = true;
        feeds.all.resize_with(1, Feed::default);
        feeds.all[0].asked = Some((at_us, feeds.wants));
        feeds
    }

    #[test]
    fn a_feed_goes_on_until_a_notice_or_an_answer_is_missing() {
        let (mut feeds, shard) = (Feeds::default(), ShardId(0));
        assert!(asked(&mut feeds, 0).answered(shard, &answer(7, 0)), "it has just begun");
        assert!(feeds.are_live());
        assert!(!feeds.heard(shard, 7, 1) && !feeds.heard(shard, 7, 2));
        assert!(!asked(&mut feeds, 1).answered(shard, &answer(7, 1)), "a late answer");
        assert!(feeds.heard(shard, 7, 4), "the third is missing");
        assert!(!feeds.heard(shard, 7, 5));
        assert!(asked(&mut feeds, 2).answered(shard, &answer(7, 6)), "the sixth is missing");
        assert!(!feeds.heard(shard, 7, 7) && !feeds.heard(shard, 6, 1), "of another feed");
        assert!(asked(&mut feeds, 3).answered(shard, &answer(8, 0)), "of another leader");
        assert!(!feeds.heard(shard, 8, 1));
    }

    #[test]
    fn a_shard_that_was_asked_for_less_tells_less_from_some_moment_on() {
        let (mut feeds, shard) = (Feeds::default(), ShardId(0));
        feeds.wants.events = Classes::EXPIRED;
        feeds.all.resize_with(1, Feed::default);
        let none = Following::default();
        let ask = |feeds: &mut Feeds, wants| feeds.all[0].asked = Some((1, wants));
        let wants = feeds.wants;
        ask(&mut feeds, wants);
        assert!(!feeds.are_live());
        feeds.answered(shard, &answer(7, 0));
        assert!(feeds.are_live());
        ask(&mut feeds, none);
        assert!(!feeds.are_live(), "it may have taken the question, and tell nothing more");
        feeds.answered(shard, &answer(0, 0));
        assert!(!feeds.are_live());
        ask(&mut feeds, wants);
        feeds.answered(shard, &answer(8, 0));
        assert!(feeds.are_live());
    }

    #[test]
    fn a_silent_shard_ends_its_feed() {
        let (mut feeds, shard) = (Feeds::default(), ShardId(0));
        asked(&mut feeds, 1_000).answered(shard, &answer(7, 0));
        assert!(!feeds.end_silent(1_000 + SILENT_US_MAX) && feeds.are_live());
        assert!(feeds.end_silent(1_001 + SILENT_US_MAX) && !feeds.are_live());
        assert!(!feeds.end_silent(u64::MAX), "once");
        assert!(!asked(&mut feeds, 9).answered(shard, &Answer::Unknown), "no answer");
        assert!(asked(&mut feeds, 9).answered(shard, &answer(7, 0)) && feeds.are_live());
    }
}
