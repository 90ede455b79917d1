// What does not answer, and what answers that it knows no leader: who is asked next.

import assert from "node:assert/strict";
import { createServer } from "node:net";
import { once } from "node:events";
import { after, test } from "node:test";
import { BusyError, connect, ConnectionError, OutcomeUnknownError } from "@claret/client";
import { mayWait } from "../dist/wire/patience.js";
import { sleep, withEachDriver } from "./fixture.js";

const REPLY_MS = 1_000;
const LIMITED = { timeout: 40_000 };
const NO_LEADER = "-CLUSTERDOWN shard 1 has no leader";

/** A listener that accepts and never answers. */
const sockets = new Set();
const silent = createServer((socket) => {
  sockets.add(socket);
  socket.on("error", () => undefined);
});
silent.listen(0, "127.0.0.1");
await once(silent, "listening");
const silentAddress = `127.0.0.1:${silent.address().port}`;
after(() => {
  silent.close();
  for (const socket of sockets) socket.destroy();
});

await withEachDriver(({ driver, server, proxy, db: direct }) => {
  /** A client that waits for a reply for a short time. */
  const open = (addresses, options) => {
    const db = connect({ driver, addresses, replyTimeoutMs: REPLY_MS, ...options });
    after(() => db.close());
    return db;
  };

  test("a write without a reply in time may have happened", LIMITED, async () => {
    const db = open([proxy.address]);
    proxy.next("INCR", "hang", Infinity);
    const unknown = (error) => error instanceof OutcomeUnknownError && error.mayHaveHappened;
    await assert.rejects(db.incr("n"), unknown);
    await assert.rejects(db.dispatch().command("INCR", "n"), unknown);
    assert.equal(await db.get("n"), null);
  });

  test("reads, batches and transactions are repeated", LIMITED, async () => {
    const db = open([proxy.address]);
    for (const command of ["GET", "EXEC", "TXN COMMIT", "LOCK.TRY", "LOCK.RELEASE"]) {
      proxy.next(command, "hang");
      await db.batch((batch) => void batch.incr("n"));
      await db.run(async (tx) => void tx.incr("n"));
      await db.get("n");
      const lock = await db.lock("l", { timeoutMs: 0 }).acquire();
      assert.equal(await lock.release(), true, command);
    }
    assert.equal(await direct.get("n"), "10");
  });

  test("commands that wait may last longer, and those behind them", LIMITED, async () => {
    const db = open([server.address]);
    const item = db.command("BLPOP", "list", 0);
    const dispatch = db.dispatch();
    const waits = dispatch.command("BLPOP", "other", 0);
    const behind = dispatch.command("ECHO", "x");
    const held = await direct.lock("{l}").acquire();
    const next = db.lock("{l}").acquire();
    const section = db.section("{l}").incr("{l}:n");
    await sleep(2.5 * REPLY_MS);
    await held.release();
    await direct.batch((batch) => {
      batch.command("RPUSH", "list", "a");
      batch.command("RPUSH", "other", "b");
    });
    assert.deepEqual(await item, ["list", "a"]);
    assert.deepEqual([await waits, await behind], [["other", "b"], "x"]);
    await (await next).release();
    assert.equal(await section, 1);
    await dispatch.close();
  });

  test("the server's commands that wait are known", async () => {
    for (const [name, , flags] of await direct.command("COMMAND")) {
      if (flags.map(String).includes("blocking")) assert.ok(mayWait([[name]]), name);
    }
    assert.ok(!mayWait([["GET", "BLPOP"]]));
  });

  test("a machine that accepts and never answers is passed over", LIMITED, async () => {
    const db = open([silentAddress, server.address], { connectTimeoutMs: 1_000 });
    assert.equal(await db.command("INCR", "n"), 1);
    const alone = open([silentAddress], { connectTimeoutMs: 1_000 });
    await assert.rejects(alone.get("n"), ConnectionError);
  });

  test("a machine that falls silent is left", LIMITED, async () => {
    const db = open([proxy.address, server.address], { connectTimeoutMs: 1_000 });
    await Promise.all([db.get("n"), db.get("n"), db.get("n")]);
    proxy.rule = () => "hang";
    assert.equal(await db.get("n"), null);
    await Promise.all([1, 2, 3].map(() => db.command("INCR", "n")));
    assert.equal(await direct.get("n"), "3");
  });

  test("a program that was busy has the replies that came meanwhile", async () => {
    const db = open([server.address]);
    await db.get("n");
    const reply = db.command("INCR", "n");
    await sleep(0);
    for (const begun = performance.now(); performance.now() - begun < 1.5 * REPLY_MS; );
    assert.equal(await reply, 1);
  });

  test("a machine without a leader is left", LIMITED, async () => {
    const both = [proxy.address, server.address];
    for (const command of ["GET", "EXEC", "TXN COMMIT", "MULTI", "TXN BEGIN"]) {
      const works = [
        (db) => db.run(async (tx) => void tx.set("n", Number(await tx.get("n")) + 1)),
        (db) => db.batch((batch) => void batch.incr("n")),
      ];
      proxy.rule = (text) => (text.startsWith(command) ? NO_LEADER : undefined);
      for (const work of works) await work(open(both, { connectionsMax: 1 }));
      assert.equal(await direct.get("n"), "2", command);
      await direct.command("FLUSHALL");
    }
  });

  test("a single command without a leader is for another machine to repeat", async () => {
    const db = open([proxy.address, server.address]);
    await Promise.all([db.get("n"), db.get("n")]);
    proxy.rule = (text) => (text.startsWith("INCR") ? NO_LEADER : undefined);
    await assert.rejects(
      db.incr("n"),
      (error) => error instanceof BusyError && error.retryable && !error.mayHaveHappened,
    );
    proxy.seen.length = 0;
    assert.equal(await db.incr("n"), 1);
    assert.deepEqual(proxy.seen, []);
    const lock = open([proxy.address, server.address]).lock("l", { timeoutMs: 1000 });
    proxy.rule = (text) => (text.startsWith("LOCK.ACQUIRE") ? NO_LEADER : undefined);
    await lock.acquire();
    assert.equal(await lock.release(), true);
  });
});
