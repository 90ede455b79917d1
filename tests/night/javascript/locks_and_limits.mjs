// Bee-Queue, rate-limiter-flexible and redlock.
import Bee from "bee-queue";
import Redis from "ioredis";
import limits from "rate-limiter-flexible";
import Redlock from "redlock";

const port = Number(process.argv[2]);
const client = new Redis(port);
const say = (name, value) => console.log(name, JSON.stringify(value));

const limiter = new limits.RateLimiterRedis({ storeClient: client, points: 5, duration: 60 });
const tries = await Promise.all(
  [...Array(20).keys()].map(() => limiter.consume("user").then(() => 1, () => 0)),
);
say("allowed", tries.reduce((sum, one) => sum + one, 0));

const redlock = new Redlock([client], { retryCount: 0 });
let held = await redlock.lock(["a", "b"], 5000);
say("second", await redlock.lock(["b"], 5000).then(() => "taken", () => "refused"));
held = await held.extend(5000);
await held.unlock();
say("third", await redlock.lock(["b"], 5000).then(() => "taken", () => "refused"));

const bees = new Bee("bees", { redis: { port }, activateDelayedJobs: true });
bees.process(async (job) => job.data.n + 1);
const ended = (job) => new Promise((go, no) => job.on("succeeded", go).on("failed", no));
const now = await bees.createJob({ n: 1 }).save();
say("bee", await ended(now));
const later = await bees.createJob({ n: 5 }).delayUntil(Date.now() + 300).save();
say("late bee", await ended(later));
await bees.close();
client.disconnect();
