import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { start, type Server } from "@claret/client/testing";
import { Redis } from "ioredis";
import { Web } from "./processes.js";
import { bid, close, Viewer } from "./viewer.js";

/** How often a bid is repeated while the store is away; a request waits some seconds by itself. */
const AGAIN_MAX = 3;

// Node 18 runs hooks outside a suite only when the process is about to end.
describe("over HTTP", () => {
  let store: Server;
  let first: Web;
  let second: Web;
  let here: Viewer;
  let there: Viewer;

  before(async () => {
    store = await start();
    first = await Web.start(store);
    second = await Web.start(store);
    here = new Viewer(first.url);
    there = new Viewer(second.url);
  });

  after(async () => {
    here.leave();
    there.leave();
    await Promise.all([first.stop(), second.stop()]);
    await store.close();
  });

  test("bids at either web server are shown by both", async () => {
    assert.equal((await bid(first.url, "clock", 40, "ann")).status, 200);
    assert.equal((await bid(second.url, "clock", 42.5, "ben")).status, 200);
    assert.equal((await bid(first.url, "clock", 41, "cem")).status, 200);
    const states = await Promise.all(
      [here, there].map((viewer) => viewer.until("clock", ({ bids }) => bids === 3)),
    );
    assert.deepEqual(states[0], states[1]);
    assert.deepEqual(states[0]?.best, { bidder: "ben", amount: 42.5 });
    assert.deepEqual(states[0]?.last.map(({ bidder }) => bidder), ["cem", "ben", "ann"]);
  });

  test("a bid that is sent twice under one text counts once", async () => {
    const text = randomUUID();
    const [one, two] = await Promise.all([
      bid(first.url, "chart", 10, "ann", text),
      bid(second.url, "chart", 10, "ann", text),
    ]);
    const later = await bid(second.url, "chart", 10, "ann", text);
    assert.deepEqual([one.status, two.status, later.status], [200, 200, 200]);
    await bid(first.url, "chart", 11, "ben");
    const { bids, last } = await there.until("chart", ({ best }) => best?.amount === 11);
    assert.equal(bids, 2);
    assert.equal(last.length, 2);
  });

  test("an auction that is closed refuses bids", async () => {
    const text = randomUUID();
    await bid(first.url, "clock", 50, "cem", text);
    assert.equal((await close(second.url, "clock")).status, 200);
    const refused = await bid(first.url, "clock", 99, "ann");
    assert.deepEqual(refused, { status: 409, error: "the auction is over" });
    assert.equal((await close(first.url, "clock")).status, 409);
    // The bid was in time, so its repetition is told the same as the bid.
    assert.equal((await bid(second.url, "clock", 50, "cem", text)).status, 200);
    const { best, bids } = await here.until("clock", ({ closed }) => closed);
    assert.deepEqual(best, { bidder: "cem", amount: 50 });
    assert.equal(bids, 4);
  });

  test("a bid that makes no sense is refused", async () => {
    assert.equal((await bid(first.url, "lamp", -1, "ann")).status, 400);
    assert.equal((await bid(first.url, "lamp", 1, "")).status, 400);
    assert.equal((await bid(first.url, "lamp", 1, "ann", "short")).status, 400);
    assert.equal((await bid(first.url, "other", 1, "ann")).status, 404);
  });

  test("a killed store loses no accepted bid, and streams go on", async () => {
    const accepted: string[] = [];
    const bidders = Array.from({ length: 4 }, async (_, bidder) => {
      const { url } = bidder % 2 ? first : second;
      for (let n = 1; n <= 15; n++) {
        const text = randomUUID();
        let answer = await bid(url, "lamp", n, `bidder ${bidder}`, text);
        for (let again = 0; answer.status === 503 && again < AGAIN_MAX; again++) {
          answer = await bid(url, "lamp", n, `bidder ${bidder}`, text);
        }
        assert.deepEqual(answer, { status: 200 });
        accepted.push(`bidder ${bidder}: ${n}`);
      }
    });
    await here.until("lamp", ({ bids }) => bids >= 10);
    await store.kill();
    assert.ok(accepted.length < 60, "bids are under way");
    await store.start();
    await Promise.all(bidders);
    const states = await Promise.all(
      [here, there].map((viewer) => viewer.until("lamp", ({ bids }) => bids >= 60)),
    );
    assert.deepEqual(states.map(({ bids }) => bids), [60, 60]);
    assert.deepEqual((await logged(store.url, "lamp")).sort(), accepted.sort());
    assert.equal(states[0]?.best?.amount, 15);

    await bid(second.url, "lamp", 100, "dora");
    await here.until("lamp", ({ best }) => best?.bidder === "dora");
  });
});

/** All bids in the log of a lot. */
async function logged(url: string, lot: string): Promise<string[]> {
  const redis = new Redis(url);
  const entries = (await redis.call("LOG.TAIL", `auction:{${lot}}:log`, 1000)) as string[][];
  redis.disconnect();
  return entries.map(([, text = ""]) => {
    const { bidder, amount } = JSON.parse(text) as { bidder: string; amount: number };
    return `${bidder}: ${amount}`;
  });
}
