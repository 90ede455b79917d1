// What is refused before it is sent, and what is done when the server refuses a beginning.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { connect, OrderError, OutcomeUnknownError, RejectedError } from "@claret/client";
import { withEachDriver } from "./fixture.js";

await withEachDriver(({ driver, server, proxy, proxied: db, db: direct }) => {
  beforeEach(async () => {
    // The connection has begun a transaction and a batch before.
    await db.run(async (tx) => void tx.set("w", 1));
    await db.batch((batch) => void batch.set("w", 1));
    proxy.seen.length = 0;
  });

  test("wrong options are refused before anything is sent", async () => {
    const wrong = [
      ...["", "a b", "a\nb", "a\u0000", "x".repeat(60), "ü".repeat(30), 7].map((once) => ({
        once,
      })),
      ...[-5, NaN, 1.5, Infinity, "5", 86_400_001].flatMap((ms) => [
        { idleTimeoutMs: ms },
        { transactionTimeoutMs: ms },
      ]),
    ];
    for (const options of wrong) {
      const running = db.run(async (tx) => void tx.incr("n"), options);
      await assert.rejects(running, OrderError, JSON.stringify(options));
      if (!("once" in options)) continue;
      await assert.rejects(
        db.batch((batch) => void batch.incr("n"), options),
        OrderError,
      );
    }
    assert.deepEqual(proxy.seen, []);
    const right = { once: `x${driver.name}`.padEnd(59, "y") };
    await db.run(async (tx) => void tx.incr("n"), { ...right, idleTimeoutMs: 0 });
    assert.equal(await direct.get("n"), "1");
  });

  test("commands about the connection are refused", async () => {
    const commands = [
      ...["AUTH", "DISCARD", "EXEC", "HELLO", "MONITOR", "MULTI", "PSUBSCRIBE", "PUNSUBSCRIBE"],
      ...["QUIT", "RESET", "SELECT 3", "SSUBSCRIBE c", "SUBSCRIBE c", "SUNSUBSCRIBE", "WATCH k"],
      ...["TXN ABORT", "TXN COMMIT", "TXN BEGIN", "UNSUBSCRIBE", "UNWATCH", "exec", "txn commit"],
      ...["CLIENT REQUEST a 1", "CLIENT REPLY OFF", "CLIENT SETNAME x", "FENCE l 1 MULTI"],
    ].map((text) => text.split(" "));
    const lock = await direct.lock("l").acquire();
    for (const words of commands) {
      const text = words.join(" ");
      for (const sent of [words, [new TextEncoder().encode(words[0]), ...words.slice(1)]]) {
        assert.throws(() => db.command(...sent), OrderError, text);
        assert.throws(() => db.fenced(lock).command(...sent), OrderError, text);
        const batch = db.batch((b) => void b.command(...sent));
        await assert.rejects(batch, OrderError, text);
        const run = (body) => assert.rejects(db.run(body), OrderError, text);
        await run((tx) => tx.ask(...sent));
        await run(async (tx) => void tx.write(...sent));
      }
    }
    await lock.release();
    assert.deepEqual(proxy.seen, []);
    assert.ok(Number(await db.command("CLIENT", "ID")) > 0);
    assert.equal(await db.command("TXN", "RESOLVE", `never-${driver.name}`, 1), 0);
    await db.command("TXN", "HOLDERS", "k");
  });

  test("commands behind a refused beginning do not count twice", async () => {
    for (const begin of ["TXN BEGIN", "CLIENT REQUEST"]) {
      await direct.command("FLUSHALL");
      await db.run(async (tx) => void tx.set("w", 1));
      proxy.next(begin, "-BUSY later");
      const running = db.run(async (tx) => {
        tx.incr("a");
        tx.incr("b");
      });
      await running.catch((error) => assert.ok(error instanceof OutcomeUnknownError));
      proxy.rule = () => undefined;
      for (const key of ["a", "b"]) assert.ok(Number(await direct.get(key)) <= 1, begin);
      assert.equal(await db.get("w"), "1");
    }
    for (const begin of ["MULTI", "CLIENT REQUEST"]) {
      await direct.command("FLUSHALL");
      await db.batch((batch) => void batch.set("w", 1));
      proxy.next(begin, "-BUSY later");
      const sent = db.batch((batch) => {
        batch.incr("a");
        batch.incr("b");
      });
      await sent.catch((error) => assert.ok(error instanceof OutcomeUnknownError));
      for (const key of ["a", "b"]) assert.ok(Number(await direct.get(key)) <= 1, begin);
    }
  });

  test("a beginning that is refused alone is tried again on another connection", async () => {
    for (const begin of ["CLIENT REQUEST", "TXN BEGIN", "MULTI"]) {
      const fresh = connect({ driver, addresses: [proxy.address] });
      proxy.next(begin, "-BUSY later");
      const add = (all) => void all.incr(`n-${begin}`);
      if (begin === "MULTI") await fresh.batch(add);
      else await fresh.run(async (tx) => add(tx));
      assert.equal(await direct.get(`n-${begin}`), "1");
      await fresh.close();
    }
  });

  test("a right that is taken away is noticed, and the connection left", async () => {
    await direct.command("ACL", "SETUSER", "eve", "on", ">pw", "~*", "+@all");
    const user = { username: "eve", password: "pw" };
    const eve = connect({ driver, addresses: [server.address], connectionsMax: 1, ...user });
    await eve.run(async (tx) => void tx.set("x", 1));
    await direct.command("ACL", "SETUSER", "eve", "-txn");
    const running = eve.run(async (tx) => void tx.incr("n"));
    await assert.rejects(
      running,
      (error) => error instanceof OutcomeUnknownError || error instanceof RejectedError,
    );
    await assert.rejects(
      eve.run(async (tx) => void tx.incr("m")),
      RejectedError,
    );
    assert.equal(await direct.get("m"), null);
    await eve.close();
  });
});
