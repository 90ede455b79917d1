import assert from "node:assert/strict";
import { access } from "node:fs/promises";
import { describe, test } from "node:test";
import { connect } from "@claret/client";
import { ioredis } from "@claret/client/ioredis";
import { binary, start } from "@claret/client/testing";

describe("the kit for tests", () => {
  test("a server keeps its address and its data when it is killed", async () => {
    const server = await start("--shards", "1");
    const { address, pid } = server;
    const db = connect({ driver: ioredis(), addresses: [address] });
    await db.mset({ kept: 1 });
    await assert.rejects(server.start(), /runs already/);
    await server.kill();
    assert.equal(server.pid, undefined);
    await server.start();
    assert.equal(server.address, address);
    assert.notEqual(server.pid, pid);
    assert.deepEqual(await db.mget("kept"), ["1"]);
    assert.equal((await server.log()).match(/is ready/g).length, 2);
    await db.close();
    await server.close();
    assert.equal(await server.log(), "");
  });

  test("a server that does not start says why", async () => {
    await assert.rejects(start("--shard-count", "1"), /unexpected argument '--shard-count'/);
  });

  test("a program that is not there is named", async () => {
    const { CLARET_BIN, PATH } = process.env;
    try {
      process.env["CLARET_BIN"] = "/nowhere/claret";
      assert.throws(binary, /CLARET_BIN is \/nowhere\/claret/);
      await assert.rejects(start(), /CLARET_BIN is \/nowhere\/claret/);
      delete process.env["CLARET_BIN"];
      process.env["PATH"] = "/nowhere";
      assert.throws(binary, /install @claret\/server/);
    } finally {
      Object.assign(process.env, { CLARET_BIN, PATH });
    }
    await access(binary());
  });
});
