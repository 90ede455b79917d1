import assert from "node:assert/strict";
import { test } from "node:test";
import { LockLostError, NotAcquiredError, OrderError } from "@claret/client";
import { sleep, withEachDriver } from "./fixture.js";

await withEachDriver(({ db }) => {
  test("a lock guards commands, batches and transactions", async () => {
    const value = await db.lock("{l}").using(async (lock) => {
      lock.require();
      assert.equal(await db.fenced(lock).incr("{l}:n"), 1);
      await db.batch((batch) => {
        batch.fence(lock);
        batch.incr("{l}:n");
      });
      await db.run(async (tx) => {
        await tx.require(lock);
        tx.incr("n");
      });
      await assert.rejects(lock.acquire(), OrderError);
      return "done";
    });
    assert.equal(value, "done");
    assert.equal(await db.exists("{l}"), 0);
  });

  test("a loss aborts the signal, and nothing is written under the lock", async () => {
    const lock = await db.lock("l", { leaseMs: 300 }).acquire();
    await sleep(500);
    assert.equal(lock.held, true);
    lock.stopRenewing();
    await sleep(400);
    assert.deepEqual([lock.held, lock.lost], [false, true]);
    assert.ok(lock.signal.reason instanceof LockLostError);
    assert.throws(() => lock.require(), LockLostError);
    const next = await db.lock("l").acquire();
    await db.fenced(next).set("x", 2);
    await assert.rejects(db.fenced(lock).set("x", 1), LockLostError);
    await assert.rejects(
      db.run(async (tx) => {
        await tx.require(lock).catch(() => undefined);
        tx.set("x", 1);
      }),
      LockLostError,
    );
    assert.equal(await db.get("x"), "2");
    assert.deepEqual([await lock.release(), await next.release()], [false, true]);
  });

  test("a released lock stays released, also during a renewal", async () => {
    for (let n = 0; n < 5; n++) {
      const lock = await db.lock("l", { leaseMs: 30 }).acquire();
      await sleep(9 + n);
      await lock.release();
      await sleep(5);
      assert.equal(lock.held, false);
      assert.throws(() => lock.token, NotAcquiredError);
    }
  });

  test("a caller that gives up leaves no waiter behind", async () => {
    const lock = await db.lock("l").acquire();
    const stop = new AbortController();
    const waiting = db.lock("l").acquire({ signal: stop.signal });
    setTimeout(() => stop.abort(new Error("enough")), 50);
    await assert.rejects(waiting, /enough/);
    assert.deepEqual(await db.command("LOCK.WAITERS", "l"), []);
    await lock[Symbol.asyncDispose]();
    assert.equal(await db.exists("l"), 0);
  });

  test("a retained lock passes from stay to stay, and to others", async () => {
    const kept = db.retained("l");
    const tokens = await Promise.all(
      Array.from({ length: 5 }, () =>
        kept.using(async (stay) => {
          await db.fenced(stay).incr("n");
          return stay.token;
        }),
      ),
    );
    assert.deepEqual(
      tokens,
      tokens.map((_, n) => tokens[0] + n),
    );
    assert.equal(await db.exists("l"), 1);
    const other = await db.lock("l", { timeoutMs: 2000 }).acquire();
    await assert.rejects(kept.enter({ timeoutMs: 50 }), NotAcquiredError);
    await other.release();
    await kept.using((stay) => db.run((tx) => tx.require(stay)));
    await kept.close();
    assert.equal(await db.exists("l"), 0);
    await assert.rejects(kept.enter());
  });

  test("an election is led, followed and resigned", async () => {
    const election = await db.election("e", { owner: "ann" }).campaign("here");
    const seen = [];
    for await (const leader of db.election("e").observe({ timeoutMs: 5000 })) {
      seen.push(leader?.value ?? null);
      if (seen.length === 1) await election.proclaim("there");
      if (seen.length === 2) await election.resign();
      if (leader === null) break;
    }
    assert.deepEqual(seen, ["here", "there", null]);
    assert.equal(await db.election("e").leader(), null);
    const nothing = [];
    for await (const leader of db.election("e").observe({ timeoutMs: 50 })) nothing.push(leader);
    assert.deepEqual(nothing, []);
  });

  test("a barrier releases all its parties, or none", async () => {
    const barrier = db.barrier("b", 3);
    await assert.rejects(barrier.wait({ timeoutMs: 50 }), NotAcquiredError);
    const numbers = await Promise.all([1, 2, 3].map(() => barrier.wait({ timeoutMs: 5000 })));
    assert.deepEqual(numbers, [numbers[0], numbers[0], numbers[0]]);
  });
});
