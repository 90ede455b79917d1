//! Stories about changes of leaders, as the gateways of the machines see them.

use crate::story::{Story, read};
use engine::ids::{GatewayId, MachineId, ShardId, Token};
use engine::message::Request;
use engine::node::{Event, Parcel};

#[test]
fn no_machine_is_asked_before_the_gateway_has_heard_that_it_leads() {
    let mut story = Story::new();
    let (shard, now) = (ShardId(1), story.now);
    let (leader, term) = story.lead(shard).unwrap();
    let (asker, next) = ((leader + 1) % 3, (leader + 2) % 3);
    let node = &mut story.nodes[asker];
    let leads = Parcel::Leads { shard, term: term + 1 };
    node.take(now, MachineId(next as u16 + 1), leads).unwrap();

    let gateway = GatewayId { machine: MachineId(asker as u16 + 1), worker: 0, life: 1 };
    let request = |number| Request { gateway, token: Token(number), after: None, body: read() };
    let refused = node.request(now, shard, request(100));
    assert!(refused.is_some(), "the gateway would wait for the leader of before");
    assert!(node.poll_parcel().is_none());

    let Some(Event::Led(of, Some((machine, _)))) = node.poll() else { panic!("no machine leads") };
    assert_eq!((of, machine.0), (shard, next as u16 + 1));
    assert!(node.request(now, shard, request(101)).is_none());
    assert!(node.poll_parcel().is_some());
}
