import assert from "node:assert/strict";
import { after, test } from "node:test";
import { connect, LockLostError, OutcomeUnknownError } from "@claret/client";
import { sleep, withEachDriver } from "./fixture.js";

await withEachDriver(({ driver, server }) => {
  const db = connect({ driver, addresses: ["127.0.0.1:1", server.address] });
  after(() => db.close());

  test("each run and each batch counts once, whatever is killed", async () => {
    const [runs, batches] = [`runs-${driver.name}`, `batches-${driver.name}`];
    let done = false;
    let counted = 0;
    const work = async (step) => {
      for (; !done; counted++) await step();
    };
    const run = () => db.run(async (tx) => void tx.set(runs, Number(await tx.get(runs)) + 1));
    const batch = () => db.batch((all) => void all.incr(batches));
    const working = [work(run), work(run), work(batch), work(batch)];
    for (let n = 0; n < 3; n++) {
      await sleep(300);
      await server.kill();
      await server.start();
    }
    await sleep(300);
    done = true;
    await Promise.all(working);
    const sums = await db.mget(runs, batches);
    assert.equal(Number(sums[0]) + Number(sums[1]), counted);
  });

  test("a single write whose reply is lost is not repeated", async () => {
    const locked = await db.lock("{l}", { leaseMs: 60_000 }).acquire();
    const waiting = db.command("LOCK.ACQUIRE", "{l}", "TIMEOUT", 5000);
    await sleep(100);
    await server.kill();
    await assert.rejects(waiting, OutcomeUnknownError);
    await server.start();
    assert.equal(locked.held, true);
    await locked.release();
  });

  test("a lock is lost if no server answers for as long as its lease", async () => {
    const lock = await db.lock("short", { leaseMs: 400 }).acquire();
    await server.kill();
    await sleep(500);
    assert.equal(lock.held, false);
    assert.ok(lock.signal.reason instanceof LockLostError);
    await server.start();
    await lock.release();
  });
});
