// Callers that give up: each wait ends within a second, and leaves nothing at the server.

import assert from "node:assert/strict";
import { setMaxListeners } from "node:events";
import { test } from "node:test";
import { connect, NotAcquiredError, OrderError, OutcomeUnknownError } from "@claret/client";
import { sleep, withEachDriver } from "./fixture.js";

/** Calls that wait until their signal is aborted. */
const WAITS = {
  lock: (db, signal) => db.lock("{l}").acquire({ signal }),
  near: (db, signal) => db.lock("near", { near: true }).acquire({ signal }),
  next: (db, signal) => db.lock("{l}", { next: true }).acquire({ signal }),
  campaign: (db, signal) => db.election("{l}").campaign("here", { signal }),
  section: (db, signal) => db.section("{l}", { signal }).incr("{l}:n"),
  stay: (db, signal) => db.retained("{l}").enter({ signal }),
  barrier: (db, signal) => db.barrier("b", 2).wait({ signal }),
  observe: async (db, signal) => {
    for await (const leader of db.election("e").observe({ signal })) assert.fail(leader);
  },
  run: (db, signal) => db.run((tx) => tx.forUpdate.get("held"), { signal, deadlineMs: 60_000 }),
};

/** Gives all waits up at once. Resolves to the errors by their names, each within a second. */
async function giveUpAll(db, before) {
  const stop = new AbortController();
  setMaxListeners(50, stop.signal);
  const reason = new Error("enough");
  let since = Infinity;
  const ends = Object.entries(WAITS).map(async ([name, wait]) => {
    const error = await wait(db, stop.signal).then(
      () => assert.fail(`${name} came to an end`),
      (thrown) => thrown,
    );
    const late = performance.now() - since;
    assert.ok(error === reason || error.cause === reason, `${name}: ${error}`);
    assert.ok(late >= 0 && late < 1000, `${name} took ${late} ms`);
    return [name, error];
  });
  await before();
  since = performance.now();
  stop.abort(reason);
  return Object.fromEntries(await Promise.all(ends));
}

await withEachDriver(({ driver, server, proxy, proxied, db }) => {
  /** Keeps locks and a key from all waits until the function that it resolves to is called. */
  async function hold() {
    const locks = [await db.lock("{l}").acquire(), await db.lock("near", { near: true }).acquire()];
    let end;
    const ending = new Promise((resolve) => (end = resolve));
    const manner = { idleTimeoutMs: 0, transactionTimeoutMs: 0 };
    const running = await new Promise((resolve) => {
      const run = db.run(async (tx) => {
        await tx.forUpdate.get("held");
        resolve({ run });
        await ending;
      }, manner);
    });
    return async () => {
      end();
      await running.run;
      for (const lock of locks) assert.equal(await lock.release(), true);
    };
  }

  test("a caller that gives up stops waiting and leaves nothing", async () => {
    const release = await hold();
    const other = connect({ driver, addresses: [server.address] });
    const errors = await giveUpAll(other, () => sleep(300));
    assert.ok(errors.section instanceof OutcomeUnknownError);
    await sleep(700);
    assert.deepEqual(await db.command("LOCK.WAITERS", "{l}"), []);
    assert.deepEqual(await db.command("BARRIER.WAITING", "b"), []);
    await release();
    assert.equal(await db.exists("{l}", "{l}:n"), 0);
    await assert.rejects(db.barrier("b", 2).wait({ timeoutMs: 100 }), NotAcquiredError);
    const near = await db.lock("near", { near: true, timeoutMs: 5000 }).acquire();
    await near.release();
    await other.close();
  });

  test("a caller that gives up does not wait for a server that does not answer", async () => {
    proxy.rule = (text) =>
      /^(LOCK|BARRIER|ELECTION|EXEC|TXN FORUPDATE|CLIENT UNBLOCK|PING)/.test(text)
        ? "hang"
        : undefined;
    const errors = await giveUpAll(proxied, () => sleep(600));
    assert.ok(errors.barrier instanceof OutcomeUnknownError);
  });

  test("an arrival that is given up counts for all or none", async () => {
    let gone = 0;
    for (let n = 0; n < 40; n++) {
      const stop = new AbortController();
      const alone = db.barrier("b", 2).wait({ signal: stop.signal });
      const first = alone.catch((error) => error);
      await sleep(4);
      setTimeout(() => stop.abort(new Error("enough")), n % 4);
      await sleep(1);
      const second = await db
        .barrier("b", 2)
        .wait({ timeoutMs: 300 })
        .catch((error) => error);
      const [one, two] = [await first, second];
      if (typeof one !== "number") gone += 1;
      if (one instanceof OutcomeUnknownError) continue;
      assert.equal(typeof one, typeof two, `${one}, and the other ${two}`);
    }
    assert.ok(gone > 0);
  });

  test("a release whose answer is lost tells whether the lock was held", async () => {
    for (const options of [{}, { near: true }, { next: true }]) {
      const lock = await proxied.lock("l", options).acquire();
      proxy.next("LOCK.RELEASE", "lose");
      assert.equal(await lock.release(), true);
    }
    const lost = await proxied.lock("l").acquire();
    await db.command("DEL", "l");
    proxy.next("LOCK.RELEASE", "lose");
    assert.equal(await lost.release(), false);
  });

  test("a section is carried out once although its answer is lost", async () => {
    const section = proxied.section("{l}");
    assert.equal(section.token, undefined);
    proxy.next("EXEC", "lose");
    assert.equal(await section.incr("{l}:n"), 1);
    const first = section.token;
    assert.equal(await section.incr("{l}:n"), 2);
    assert.ok(section.token > first);
    const other = await db.lock("{l}").acquire();
    proxy.next("EXEC", "lose");
    const brief = proxied.section("{l}", { timeoutMs: 200 });
    await assert.rejects(brief.incr("{l}:n"), OutcomeUnknownError);
    await other.release();
    assert.throws(() => db.section("{l}", { shared: true, limit: 2 }), TypeError);
    assert.throws(() => section.command("SELECT", 1), OrderError);
  });

  test("locks with `near` and `next` are guarded by fences", async () => {
    for (const options of [{ near: true }, { next: true }]) {
      const lock = await db.lock("l", options).acquire();
      await db.fenced(lock).incr("n");
      const required = db.run(async (tx) => {
        tx.incr("n");
        await tx.require(lock);
      });
      await assert.rejects(required, OrderError);
      await lock.release();
      assert.throws(() => db.lock("l", { ...options, shared: true }), TypeError);
    }
    assert.throws(() => db.lock("l", { near: true, next: true }), TypeError);
    assert.equal(await db.get("n"), "2");
  });
});
