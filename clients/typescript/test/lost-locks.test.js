// Locks over connections that break, hang, or are given up.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ClosedError, LockLostError } from "@claret/client";
import { sleep, withEachDriver } from "./fixture.js";

await withEachDriver(({ proxy, proxied: db, db: direct }) => {
  const holders = (name) => direct.command("LOCK.HOLDERS", name);

  test("the renewal after a long wait is tried again", async () => {
    const other = await direct.lock("l").acquire();
    const waiting = db.lock("l", { leaseMs: 1000 }).acquire();
    await sleep(250);
    proxy.next("LOCK.RENEW", "drop");
    await other.release();
    const lock = await waiting;
    assert.equal(lock.held, true);
    assert.equal(await lock.release(), true);
  });

  test("an error after the grant leaves nothing held", async () => {
    const other = await direct.lock("l").acquire();
    const lock = db.lock("l", { leaseMs: 2000 });
    const stop = new AbortController();
    const waiting = lock.acquire({ signal: stop.signal });
    await sleep(300);
    proxy.rule = (text) => {
      if (!text.startsWith("LOCK.RENEW")) return undefined;
      setTimeout(() => stop.abort(new Error("enough")), 20);
      return "hang";
    };
    await other.release();
    await assert.rejects(waiting, /enough/);
    assert.deepEqual([lock.held, lock.lost], [false, false]);
    assert.deepEqual(await holders("l"), []);
    proxy.rule = () => undefined;
    const refused = await direct.lock("l").acquire();
    const second = lock.acquire();
    await sleep(300);
    proxy.next("LOCK.RENEW", "-ERR no");
    await refused.release();
    await assert.rejects(second, /no/);
    assert.equal(lock.held, false);
    assert.deepEqual(await holders("l"), []);
  });

  test("a renewal that hangs is tried again on another connection", async () => {
    const lock = await db.lock("l", { leaseMs: 1200 }).acquire();
    proxy.next("LOCK.RENEW", "hang", 2);
    await sleep(1500);
    assert.deepEqual([lock.held, lock.signal.aborted], [true, false]);
    assert.equal(await lock.release(), true);
  });

  test("who gives up at the moment of the grant leaves nothing held", async () => {
    for (let n = 0; n < 40; n++) {
      const other = await direct.lock(`l${n}`).acquire();
      const stop = new AbortController();
      const waiting = direct.lock(`l${n}`).acquire({ signal: stop.signal });
      const outcome = waiting.then(
        (lock) => lock,
        () => null,
      );
      await sleep(3);
      const released = other.release();
      setTimeout(() => stop.abort(), n % 3);
      const lock = await outcome;
      await released;
      if (lock) await lock.release();
      assert.deepEqual(await holders(`l${n}`), []);
    }
  });

  test("a grant whose answer is lost is released if the caller gives up", async () => {
    const stop = new AbortController();
    let asked = 0;
    proxy.rule = (text) => {
      if (!text.startsWith("LOCK.ACQUIRE")) return undefined;
      asked += 1;
      if (asked === 1) return "lose";
      if (asked > 2) return undefined;
      setTimeout(() => stop.abort(new Error("enough")), 20);
      return "hang";
    };
    const lock = db.lock("l", { leaseMs: 20_000 });
    await assert.rejects(lock.acquire({ signal: stop.signal }), /enough/);
    // The caller does not wait for all of what is left to do.
    const next = await direct.lock("l", { timeoutMs: 5000 }).acquire();
    await next.release();
  });

  test("a signal that was taken before the lock was acquired is aborted by a loss", async () => {
    const lock = db.lock("l", { leaseMs: 300 });
    const { signal } = lock;
    for (let n = 0; n < 2; n++) {
      await lock.acquire();
      await lock.release();
    }
    await lock.acquire();
    lock.stopRenewing();
    await sleep(400);
    assert.ok(signal.reason instanceof LockLostError);
    await lock.release();
    assert.equal(lock.signal.aborted, false);
  });

  test("a lock that cannot be given back does not keep others from their stay", async () => {
    const kept = db.retained("l", { leaseMs: 300, tokens: 1 });
    const stay = await kept.enter();
    const waiting = kept.enter({ timeoutMs: 5000 });
    proxy.next("LOCK.RELEASE", "-ERR no");
    await assert.rejects(stay.release(), /no/);
    assert.equal(await (await waiting).release(), true);
    await kept.close();
  });

  test("a release ends a wait for the lock", async () => {
    const other = await direct.lock("l").acquire();
    const lock = db.lock("l");
    const waiting = assert.rejects(lock.acquire(), ClosedError);
    await sleep(30);
    assert.equal(await lock.release(), false);
    await waiting;
    assert.deepEqual(await direct.command("LOCK.WAITERS", "l"), []);
    await other.release();
    const early = assert.rejects(lock.acquire(), ClosedError);
    await lock.release();
    await early;
    assert.equal(lock.held, false);
    assert.deepEqual(await holders("l"), []);
    await lock.acquire();
    assert.equal(await lock.release(), true);
  });
});
