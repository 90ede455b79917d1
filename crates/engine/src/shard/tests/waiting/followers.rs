//! Stories about gateways that follow a shard, and are told of what they want.

use super::turns::operation;
use super::*;
use crate::message::Following;
use adt::record::events::Classes;

fn follow(keys: bool, classes: &str) -> Body {
    let events = Classes::parse(classes).expect("letters").told();
    Body::Follow(Following { keys, events })
}

/// Carries commands out, and says which keys were told to have changed, and which events.
fn told(story: &mut Story, lines: &[&str]) -> Vec<String> {
    for line in lines {
        let ops = SmallVec::from_iter([operation(line)]);
        story.ask(Body::Apply(Apply { ops, ..Apply::default() }));
    }
    story.sync();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let lines = story.answers().into_iter().flat_map(|(_, answer)| match answer {
        Answer::Notice(Notice::Changed { keys, .. }) => {
            keys.iter().map(|key| format!("changed {}", text(key))).collect()
        }
        Answer::Notice(Notice::Happened(events)) => {
            events.iter().map(|told| format!("{} {}", told.event.name, text(&told.key))).collect()
        }
        _ => Vec::new(),
    });
    lines.collect()
}

#[test]
fn a_follower_is_told_of_what_it_wants_and_of_nothing_else() {
    let mut story = Story::new();
    let lines = ["set k 1", "del k", "rpush l a"];
    assert!(told(&mut story, &lines).is_empty(), "there is no follower");
    story.ask(follow(false, "Kg"));
    assert_eq!(told(&mut story, &lines), ["del k"]);
    story.ask(follow(false, "KA"));
    assert_eq!(told(&mut story, &lines), ["set k", "del k", "rpush l"]);
    story.ask(follow(true, ""));
    assert_eq!(told(&mut story, &lines), ["changed k", "changed k", "changed l"]);
    story.ask(follow(true, "En"));
    assert_eq!(
        told(&mut story, &["set k 1", "del l", "rpush l b"]),
        ["changed k", "changed l", "changed l", "new k", "new l"]
    );
    story.pass(crate::limits::FOLLOWER_US + 1);
    assert!(told(&mut story, &lines).is_empty(), "it was not heard of");
    assert!(story.shard.desk.waits.followers.wants().is_empty());
    story.ask(follow(false, "KA"));
    story.ask(follow(false, ""));
    assert!(told(&mut story, &lines).is_empty(), "it wants nothing any more");
    assert!(story.shard.desk.waits.followers.is_empty());
}

#[test]
fn events_of_the_keys_of_the_store_are_not_told() {
    let mut story = Story::new();
    story.ask(follow(false, "KA"));
    let own = Blob::new(b"\x00\xc1own");
    let ops = SmallVec::from_iter([(own, operation("set k 1").1)]);
    story.ask(Body::Apply(Apply { ops, ..Apply::default() }));
    assert_eq!(told(&mut story, &["set k 1"]), ["set k"]);
}
