/**
 * Entry of the agent of the conformance suite. `CLARET_DRIVER` is `ioredis` or `node-redis`.
 *
 * @module
 */

import { createInterface } from "node:readline";
import { Agent, type Request } from "./agent/agent.js";
import { ioredis } from "./wire/ioredis.js";
import { nodeRedis } from "./wire/node-redis.js";

const drivers: Readonly<Record<string, () => ReturnType<typeof ioredis>>> = {
  ioredis: () => ioredis(),
  "node-redis": () => nodeRedis(),
};
const name = process.env["CLARET_DRIVER"] ?? "ioredis";
const driver = drivers[name];
if (driver === undefined) throw new Error(`CLARET_DRIVER is ioredis or node-redis, not ${name}`);

const agent = new Agent(driver, (line) => process.stdout.write(`${JSON.stringify(line)}\n`));
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() !== "") void agent.answer(JSON.parse(line) as Request);
}
process.exit(0);
