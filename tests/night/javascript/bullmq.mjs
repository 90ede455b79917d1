// BullMQ: jobs, retries, delays, priorities, flows, repeated jobs, events, obliterate.
import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";

const connection = { host: "127.0.0.1", port: Number(process.argv[2]), maxRetriesPerRequest: null };
const queue = new Queue("work", { connection });
const events = new QueueEvents("work", { connection });
await events.waitUntilReady();
const done = [];
const work = async (job) => {
  if (job.name === "flaky" && job.attemptsMade < 2) throw new Error("again");
  done.push(job.name);
  return job.data.n * 2;
};
const worker = new Worker("work", work, { connection, concurrency: 4 });
const children = new Worker("child", async (job) => job.data.n, { connection });
const ended = (job) => job.waitUntilFinished(events, 30000);
const say = (name, value) => console.log(name, JSON.stringify(value));

const numbers = [...Array(20).keys()];
const jobs = await queue.addBulk(numbers.map((n) => ({ name: `job${n}`, data: { n } })));
say("results", await Promise.all(jobs.map(ended)));
say("flaky", await ended(await queue.add("flaky", { n: 21 }, { attempts: 3, backoff: 50 })));
say("late", await ended(await queue.add("late", { n: 1 }, { delay: 500 })));
say("urgent", await ended(await queue.add("urgent", { n: 2 }, { priority: 3 })));
const unique = { jobId: "only-one", removeOnComplete: false };
const same = await Promise.all([queue.add("one", { n: 1 }, unique), queue.add("one", { n: 2 }, unique)]);
say("unique", [await ended(same[0]), same[0].id === same[1].id]);
const flows = new FlowProducer({ connection });
const child = (n) => ({ name: `child${n}`, queueName: "child", data: { n } });
const flow = await flows.add({
  name: "parent",
  queueName: "work",
  data: { n: 5 },
  children: [child(1), child(2)],
});
say("flow", await ended(flow.job));
say("children", Object.values(await flow.job.getChildrenValues()).sort());
await queue.upsertJobScheduler("every", { every: 200 }, { name: "tick", data: { n: 1 } });
while (done.filter((name) => name === "tick").length < 3) await new Promise((go) => setTimeout(go, 50));
await queue.removeJobScheduler("every");
await worker.close();
await children.close();
const counts = await queue.getJobCounts();
say("failed", [counts.failed, counts.waiting, counts.active]);
await queue.obliterate({ force: true });
say("empty", await queue.getJobCounts());
await flows.close();
await events.close();
await queue.close();
