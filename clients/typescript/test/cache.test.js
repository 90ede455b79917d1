// Caches: what the stories of all clients do not show.

import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { ClosedError, connect, OrderError } from "@claret/client";
import { ioredis } from "@claret/client/ioredis";
import { start } from "@claret/client/testing";
import { Reader } from "../dist/cache/resp.js";
import { sleep, withEachDriver } from "./fixture.js";

async function until(holds) {
  for (const end = Date.now() + 5000; !(await holds()); await sleep(10)) {
    assert.ok(Date.now() < end, "it did not come true in 5 s");
  }
}

withEachDriver(({ db }) => {
  it("a reader may change what it gets", async (t) => {
    const cache = db.cache();
    t.after(() => cache.close());
    await db.command("HSET", "h", "f", "1");
    const readers = [cache.hgetall("h"), cache.hgetall("h"), cache.hgetall("h")];
    for (const fields of await Promise.all(readers)) fields.f = "2";
    (await cache.hgetall("h")).f = "3";
    assert.deepEqual(await cache.hgetall("h"), { f: "1" });
    assert.deepEqual(cache.stats, { hits: 4, misses: 1, dropped: 0 });
  });

  it("keys may be any bytes", async (t) => {
    const cache = db.cache();
    t.after(() => cache.close());
    const key = Buffer.from([0x6b, 0xff, 0x0d, 0x0a]);
    await db.command("SET", key, "1");
    assert.equal(await cache.get(key), "1");
    await db.command("SET", key, "2");
    await until(async () => (await cache.get(key)) === "2");
    assert.equal(cache.stats.dropped, 1);
  });

  it("a cut connection is opened by the next read", async (t) => {
    const cache = db.cache();
    t.after(() => cache.close());
    await db.command("SET", "x", "1");
    assert.equal(await cache.get("x"), "1");
    const clients = (await db.command("CLIENT", "LIST")).split("\n");
    const [tracking] = clients.filter((line) => / cmd=get( |$)/.test(line));
    await db.command("CLIENT", "KILL", "ID", /id=(\d+)/.exec(tracking)[1]);
    await until(() => cache.stats.dropped === 1);
    assert.equal(await cache.get("x"), "1");
    assert.equal(await cache.get("x"), "1");
    assert.deepEqual(cache.stats, { hits: 1, misses: 2, dropped: 1 });
  });

  it("limits and words are checked", async () => {
    assert.throws(() => db.cache({ maxEntries: 0 }), RangeError);
    const cache = db.cache();
    await assert.rejects(cache.read("INCR", "x"), OrderError);
    await assert.rejects(cache.read("NOTHING", "x"), OrderError);
    await assert.rejects(cache.read("GET"), OrderError);
    assert.equal(await db.command("EXISTS", "x"), 0);
    await cache.close();
    await assert.rejects(cache.read("GET", "x"), ClosedError);
  });
});

describe("a cache", () => {
  it("answers nothing from memory while the server is silent", async () => {
    const server = await start();
    after(() => server.close());
    const db = connect({ driver: ioredis(), addresses: [server.address] });
    after(() => db.close());
    const cache = db.cache();
    await db.command("SET", "x", "1");
    assert.equal(await cache.get("x"), "1");
    assert.equal(await cache.get("x"), "1");
    process.kill(server.pid, "SIGSTOP");
    try {
      await sleep(2500);
      const late = cache.get("x");
      const first = await Promise.race([late, sleep(300).then(() => "nothing")]);
      assert.equal(first, "nothing");
      process.kill(server.pid, "SIGCONT");
      assert.equal(await late, "1");
    } finally {
      process.kill(server.pid, "SIGCONT");
    }
  });

  it("reads messages that arrive in pieces of any size", () => {
    const bytes = Buffer.from(
      "+OK\r\n:7\r\n,1.5\r\n,-inf\r\n#t\r\n_\r\n$3\r\na\r\n\r\n" +
        "=5\r\ntxt:x\r\n(12345678901234567890\r\n" +
        "%2\r\n+__proto__\r\n*1\r\n:1\r\n$1\r\nb\r\n~2\r\n:1\r\n:2\r\n" +
        ">2\r\n$10\r\ninvalidate\r\n*1\r\n$2\r\n\u00ff\r\n>2\r\n+invalidate\r\n_\r\n*0\r\n",
    );
    const expected = [
      "OK",
      7,
      1.5,
      -Infinity,
      true,
      null,
      "a\r\n",
      "x",
      12345678901234567890n,
      Object.fromEntries([
        ["__proto__", [1]],
        ["b", [1, 2]],
      ]),
      { pushed: [Buffer.from("invalidate"), [Buffer.from("\u00ff")]] },
      { pushed: ["invalidate", null] },
      [],
    ];
    for (const size of [1, 2, 3, 7, bytes.length]) {
      const found = [];
      const reader = new Reader({
        reply: (reply) => found.push(reply),
        push: (pushed) => found.push({ pushed }),
      });
      for (let at = 0; at < bytes.length; at += size) reader.take(bytes.subarray(at, at + size));
      assert.deepEqual(found, expected, `pieces of ${size}`);
    }
    const strange = new Reader({ reply: () => undefined, push: () => undefined });
    assert.throws(() => strange.take(Buffer.from("hello\r\n")), /RESP3/);
  });
});
