import assert from "node:assert/strict";
import { test } from "node:test";
import { defineType, OrderError, RejectedError, WriteRefusedError } from "@claret/client";
import { withEachDriver } from "./fixture.js";

const VISITS = `
type visits
part n counter
op add by:int
  counter.add n $by
op count
  return counter.get n
`;

await withEachDriver(({ driver, db }) => {
  test("the methods give what their types say", async () => {
    assert.equal(await db.set("x", "1"), true);
    assert.equal(await db.set("x", "2", { only: "absent" }), false);
    assert.equal(await db.set("x", "2", { only: "present", expireMs: 60_000 }), true);
    assert.ok((await db.pttl("x")) > 0);
    assert.equal(await db.persist("x"), true);
    assert.equal(await db.incrBy("x", 5n), 7);
    assert.equal(await db.incrByFloat("f", 1.5), 1.5);
    assert.equal(await db.hset("h", { a: 1, b: "ü" }), 2);
    assert.deepEqual(await db.hgetAll("h"), { a: "1", b: "ü" });
    assert.deepEqual(await db.hmget("h", "a", "c"), ["1", null]);
    assert.equal(await db.hexists("h", "a"), true);
    assert.equal(await db.sadd("s", "a", "b"), 2);
    assert.deepEqual(await db.smembers("s"), new Set(["a", "b"]));
    assert.equal(await db.rpush("l", "a", "b"), 2);
    assert.deepEqual(await db.lrange("l", 0, -1), ["a", "b"]);
    assert.equal(await db.lpop("l"), "a");
    assert.equal(await db.zadd("z", { a: 1.5, b: 1 }), 2);
    assert.equal(await db.zscore("z", "a"), 1.5);
    assert.deepEqual(await db.zrangeWithScores("z", 0, -1), [
      { member: "b", score: 1 },
      { member: "a", score: 1.5 },
    ]);
    await db.counterAdd("c", 3);
    assert.equal(await db.counterAtLeast("c", 3), true);
    assert.equal(await db.counterTry("c", -1), true);
    assert.equal(await db.counterGet("c"), 2);
    assert.equal(await db.del("x", "f", "none"), 2);
    await assert.rejects(db.incr("h"), (error) => {
      assert.ok(error instanceof RejectedError);
      assert.equal(error.code, "WRONGTYPE");
      return true;
    });
  });

  test("bytes are written as they are", async () => {
    await db.set("b", new Uint8Array([0x41, 0x00, 0x42]));
    assert.equal(await db.strlen("b"), 3);
    assert.equal(await db.get("b"), "A\0B");
    assert.equal(await db.command(new TextEncoder().encode("STRLEN"), "b"), 3);
  });

  test("a batch takes effect together, if its guards hold", async () => {
    let count;
    const fill = (batch) => {
      count = batch.incr("n");
      batch.rpush("l", "a", "b");
    };
    assert.deepEqual(await db.batch(fill, { guards: [{ key: "n", exists: false }] }), [1, 2]);
    assert.equal(count.value, 1);
    assert.equal(await db.batch(fill, { guards: [{ key: "n", equals: "2" }] }), null);
    assert.equal(await db.batch(fill, { guards: [{ key: "n", differs: "1" }] }), null);
    assert.equal(await db.get("n"), "1");
    await assert.rejects(
      db.batch((batch) => {
        batch.incr("l");
        batch.incr("n");
      }),
      WriteRefusedError,
    );
    assert.equal(await db.get("n"), "2");
    assert.deepEqual(await db.batch(() => undefined), []);
  });

  test("a batch under a text of its own takes effect once", async () => {
    const once = `batch-${driver.name}`;
    assert.equal(await db.command("TXN", "RESOLVE", `once:${once}`, 1), 0);
    const add = () => db.batch((batch) => void batch.incr("n"), { once });
    assert.deepEqual([await add(), await add()], [[1], [1]]);
    assert.equal(await db.get("n"), "1");
  });

  test("a batch is filled at once", async () => {
    await assert.rejects(
      db.batch(async (batch) => {
        await db.get("x");
        batch.incr("n");
      }),
      OrderError,
    );
    assert.equal(await db.get("n"), null);
  });

  test("a dispatch answers each command, and says what was overlooked", async () => {
    const last = await db.dispatch(async (dispatch) => {
      const first = dispatch.incr("n");
      const second = dispatch.incr("n");
      assert.throws(() => `${second}`, OrderError);
      assert.throws(() => dispatch.set("x", second), OrderError);
      assert.throws(() => dispatch.command("MULTI"), OrderError);
      assert.equal((await second) - (await first), 1);
      return dispatch.get("n");
    });
    assert.equal(last, "2");
    await assert.rejects(
      db.dispatch((dispatch) => {
        dispatch.rpush("l", "a");
        void dispatch.incr("l");
        dispatch.incr("n");
      }),
      RejectedError,
    );
    const dispatch = db.dispatch();
    await assert.rejects(dispatch.incr("l"), RejectedError);
    await dispatch.close();
    assert.equal(await db.get("n"), "3");
  });

  test("a type of one's own has its operations as methods", async () => {
    const visits = defineType(VISITS);
    assert.deepEqual(
      [...visits.operations],
      [
        ["add", ["by"]],
        ["count", []],
      ],
    );
    assert.equal(await visits.define(db), await visits.define(db));
    assert.equal(await visits.on(db, "v").add(5), "OK");
    const count = await db.run(async (tx) => {
      const handle = visits.on(tx, "v");
      handle.add(2);
      return handle.count();
    });
    assert.equal(count, 7);
    assert.deepEqual(await db.batch((batch) => void visits.on(batch, "v").add(1)), ["OK"]);
    assert.equal(await visits.on(db, "v").count(), 8);
    assert.throws(() => visits.on(db, "v").add(), TypeError);
  });
});
