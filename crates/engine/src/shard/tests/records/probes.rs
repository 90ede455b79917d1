//! Stories about questions whether prepared transactions are decided.

use super::*;

impl Story {
    /// A shard whose process has the gateway of all transactions.
    fn near() -> Self {
        Self::leading(ShardConfig { beside: G, ..Self::new().shard.desk.core.config })
    }

    /// Asks for the fate of a transaction, through this gateway.
    fn inquire(&mut self, gateway: GatewayId, id: u64) {
        let request = self.request(Body::Inquire { txn: txn(id) });
        self.shard.handle(self.now, Request { gateway, ..request });
    }
}

#[test]
fn nothing_is_asked_about_transactions_of_the_same_process() {
    let mut story = Story::near();
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    story.ask(prepare(2, &[("s", card())]));
    story.sync();
    assert_eq!(story.seen(), ["1 prepared", "2 prepared"]);
}

#[test]
fn a_transaction_of_another_life_of_the_machine_is_asked_about() {
    let mut story = Story::near();
    story.shard.desk.core.config.beside.life = 1;
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    story.ask(prepare(2, &[("s", card())]));
    story.sync();
    assert_eq!(story.seen(), ["1 prepared", "0 probe 1"]);
}

#[test]
fn a_transaction_that_another_machine_may_decide_is_waited_for() {
    let mut story = Story::near();
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    story.inquire(GatewayId { worker: 1, ..G }, 1);
    story.ask(prepare(2, &[("s", card())]));
    story.sync();
    assert!(story.seen().contains(&"3 prepared".to_owned()), "a gateway of this process asked");
    story.inquire(GatewayId { machine: MachineId(2), ..G }, 1);
    story.ask(prepare(3, &[("s", card())]));
    story.sync();
    assert!(!story.seen().iter().any(|answer| answer.contains("prepared")));
    let clock = story.shard.clock().0;
    story.ask(decide(1, Some(clock + 100)));
    story.sync();
    assert_eq!(story.seen(), ["5 prepared"]);
}

#[test]
fn a_new_leader_asks_about_what_it_has_inherited() {
    let mut story = Story::near();
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    let mut shard =
        Shard::restored(story.shard.desk.core.config.clone(), story.restored(), Timestamp::ZERO);
    shard.lead(story.now, 2);
    story.shard = shard;
    story.seen();
    story.ask(prepare(2, &[("s", card())]));
    story.sync();
    assert_eq!(story.seen(), ["0 probe 1"]);
}
