// What the tests share: a server, a proxy in front of it, and clients of both.

import { after, beforeEach, describe } from "node:test";
import { connect } from "@claret/client";
import { ioredis } from "@claret/client/ioredis";
import { nodeRedis } from "@claret/client/node-redis";
import { start } from "@claret/client/testing";
import { startProxy } from "./proxy.js";

/** Waits. */
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Describes what holds with each driver, on a server without data. `db` is a client of the server,
 * `proxied` one behind the proxy.
 */
export async function withEachDriver(define) {
  const server = await start();
  const proxy = await startProxy(server.port);
  // Node 18 runs hooks outside a suite only when the process is about to end.
  describe("a client", () => {
    after(async () => {
      proxy.close();
      await server.close();
    });
    for (const driver of [ioredis(), nodeRedis()]) {
      describe(driver.name, () => {
        const db = connect({ driver, addresses: [server.address] });
        const proxied = connect({ driver, addresses: [proxy.address] });
        after(() => Promise.all([db.close(), proxied.close()]));
        beforeEach(async () => {
          proxy.rule = () => undefined;
          await db.command("FLUSHALL");
        });
        define({ driver, server, proxy, db, proxied });
      });
    }
  });
}
