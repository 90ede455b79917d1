import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ClosedError,
  connect,
  ConnectionError,
  OrderError,
  RejectedError,
  UndoneError,
  WriteRefusedError,
} from "@claret/client";
import { sleep, withEachDriver } from "./fixture.js";

await withEachDriver(({ driver, server, db }) => {
  test("money is neither lost nor made by concurrent transfers", async () => {
    await db.mset({ ann: 100, ben: 0 });
    const transfer = (from, to) =>
      db.run(async (tx) => {
        const [left] = await Promise.all([tx.get(from), tx.get(to)]);
        if (Number(left) < 10) return false;
        tx.decrBy(from, 10);
        tx.incrBy(to, 10);
        return true;
      });
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, (_, n) =>
        n % 3 ? transfer("ann", "ben") : transfer("ben", "ann"),
      ),
    );
    const [ann, ben] = await db.snapshot((reads) => reads.mget("ann", "ben"));
    assert.equal(Number(ann) + Number(ben), 100);
    assert.ok(outcomes.includes(true));
  });

  test("replies of writes are known after the commit, and not before", async () => {
    const replies = await db.run(async (tx) => {
      const count = tx.incr("n");
      assert.throws(() => count.value, ClosedError);
      return { count, added: tx.sadd("s", "a", "b") };
    });
    assert.deepEqual([replies.count.value, replies.added.value], [1, 2]);
  });

  test("a deferred reply is not a value", async () => {
    const uses = [
      (d) => `${d}`,
      (d) => d + 1,
      (d) => [...d],
      (d) => JSON.stringify({ d }),
      async (d) => await d,
      (d, tx) => tx.set("x", d),
      (d, tx) => tx.ask("SET", "x", d),
    ];
    for (const use of uses) {
      const running = db.run(async (tx) => void (await use(tx.incr("n"), tx)));
      await assert.rejects(running, OrderError, String(use));
    }
    await assert.rejects(
      db.run((tx) => tx.incr("n")),
      OrderError,
    );
    assert.equal(await db.get("n"), null);
  });

  test("a promise is not a word, and a floating one fails the commit", async () => {
    await assert.rejects(
      db.run(async (tx) => void tx.set("x", tx.get("y"))),
      OrderError,
    );
    await assert.rejects(
      db.run(async (tx) => {
        tx.set("x", 1);
        void tx.ask("SET", "y", {});
      }),
      TypeError,
    );
    assert.equal(await db.get("x"), null);
  });

  test("a write that is asked for is refused before the commit", async () => {
    for (const incr of ["INCR", "incr", new TextEncoder().encode("INCR")]) {
      await assert.rejects(
        db.run((tx) => tx.ask(incr, "n")),
        OrderError,
      );
    }
    await assert.rejects(
      db.run(async (tx) => void (await tx.ask("INCR", "n").catch(() => 0))),
      OrderError,
    );
    assert.equal(await db.get("n"), null);
    assert.equal(await db.run((tx) => tx.ask("INCR", "n"), { now: true }), 1);
    await db.set("q", "QUEUED");
    assert.equal(await db.run((tx) => tx.get("q")), "QUEUED");
  });

  test("a swallowed conflict is not taken for a success", async () => {
    let attempts = 0;
    let hasRead = () => {};
    const read = new Promise((resolve) => (hasRead = resolve));
    const running = db.run(
      async (tx) => {
        attempts += 1;
        await tx.get("n");
        hasRead();
        // Meanwhile another client waits, so that the server ends the transaction.
        if (attempts === 1) await sleep(600);
        const missing = await tx.get("m").catch(() => "swallowed");
        tx.set("m", "1");
        return missing;
      },
      { idleTimeoutMs: 100 },
    );
    await read;
    await db.set("n", 5);
    assert.equal(await running, null);
    assert.deepEqual([attempts, await db.get("m")], [2, "1"]);
  });

  test("strict or not: what a refused command undoes", async () => {
    await db.rpush("l", "one");
    const body = async (tx) => {
      tx.set("x", 1);
      tx.incr("l");
    };
    await assert.rejects(db.run(body), UndoneError);
    assert.equal(await db.get("x"), null);
    await assert.rejects(db.run(body, { strict: false }), (error) => {
      assert.ok(error instanceof WriteRefusedError);
      assert.deepEqual(
        error.refused.map(({ command }) => command),
        ["INCR"],
      );
      return true;
    });
    assert.equal(await db.get("x"), "1");
  });

  test("the caller gives up, and gets its own reason", async () => {
    await assert.rejects(
      db.run((tx) => tx.get("x"), { signal: AbortSignal.abort(new Error("before")) }),
      /before/,
    );
    const stop = new AbortController();
    const running = db.run(
      async (tx) => {
        await tx.get("x");
        tx.set("x", 1);
        stop.abort(new Error("meanwhile"));
        await sleep(1000);
      },
      { signal: stop.signal },
    );
    await assert.rejects(running, /meanwhile/);
    assert.equal(await db.get("x"), null);
  });

  test("a transaction under a text of its own takes effect once", async () => {
    const once = `order-8f3a-${driver.name}`;
    const order = () => db.run(async (tx) => ({ count: tx.incr("orders") }), { once });
    const [first, second] = [await order(), await order()];
    assert.deepEqual([first.count.value, second.count.value], [1, 1]);
    assert.equal(await db.get("orders"), "1");
  });

  test("a text whose number was given up takes effect under another", async () => {
    const once = `given-up-${driver.name}`;
    assert.equal(await db.command("TXN", "RESOLVE", `once:${once}`, 1), 0);
    for (let n = 0; n < 2; n++) {
      await db.run(async (tx) => void tx.incr("n"), { once });
    }
    assert.equal(await db.get("n"), "1");
  });

  test("a limit of one connection serves all in turn", async () => {
    const narrow = connect({ driver, addresses: [server.address], connectionsMax: 1 });
    const body = async (tx) => void tx.set("n", Number(await tx.get("n")) + 1);
    await Promise.all(Array.from({ length: 10 }, () => narrow.run(body)));
    assert.equal(await narrow.get("n"), "10");
    await narrow.close();
  });

  test("a refused user is told so at once", async () => {
    await db.command("ACL", "SETUSER", "ann", "on", ">secret", "~*", "+@all");
    const user = (password) =>
      connect({ driver, addresses: [server.address], username: "ann", password });
    const right = user("secret");
    assert.equal(await right.command("ACL", "WHOAMI"), "ann");
    await right.close();
    await assert.rejects(
      user("guess").run((tx) => tx.get("x")),
      RejectedError,
    );
  });

  test("commands are not carried out alone if TXN is not allowed", async () => {
    await db.command("ACL", "SETUSER", "ben", "on", ">secret", "~*", "+@all", "-txn", "-multi");
    const ben = connect({
      driver,
      addresses: [server.address],
      username: "ben",
      password: "secret",
    });
    await assert.rejects(
      ben.run(async (tx) => void tx.incr("n")),
      RejectedError,
    );
    await assert.rejects(
      ben.batch((batch) => void batch.incr("n")),
      RejectedError,
    );
    assert.equal(await ben.get("n"), null);
    await ben.close();
  });

  test("no server answers: no effect, and a label that says so", async () => {
    const nowhere = connect({ driver, addresses: ["127.0.0.1:1", "127.0.0.1:2"] });
    await assert.rejects(
      nowhere.run((tx) => tx.get("x"), { deadlineMs: 50 }),
      (error) => {
        assert.ok(error instanceof ConnectionError);
        assert.deepEqual([error.retryable, error.mayHaveHappened], [true, false]);
        return true;
      },
    );
    await nowhere.close();
    await assert.rejects(nowhere.get("x"), ClosedError);
  });
});
