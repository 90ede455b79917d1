// BullMQ: so many jobs, while the server is killed again and again. Prints how many were done. The program
// ends when all are done, or when nothing was done for so many seconds as its third argument says. The fourth
// is the prefix of all keys, if it is another one than BullMQ's own.
import { Queue, Worker } from "bullmq";

const [port, wanted, patience] = process.argv.slice(2, 5).map(Number);
const prefix = process.argv[5] ?? "bull";
const connection = {
  host: "127.0.0.1",
  port,
  maxRetriesPerRequest: null,
  retryStrategy: () => 100,
};
const done = new Set();
const quiet = (part) => part.on("error", () => {});
const queue = quiet(new Queue("many", { connection, prefix }));
const worker = quiet(
  new Worker("many", async (job) => done.add(job.data.n), {
    connection,
    prefix,
    concurrency: 50,
    lockDuration: 5000,
    stalledInterval: 2000,
    maxStalledCount: 100,
  }),
);
const pieces = 100;
let added = 0;
while (added < wanted) {
  const some = [...Array(Math.min(pieces, wanted - added)).keys()].map((at) => added + at);
  const jobs = some.map((n) => ({ name: "job", data: { n }, opts: { jobId: `job-${n}`, attempts: 20 } }));
  try {
    await queue.addBulk(jobs);
    added += some.length;
  } catch {
    // Not known whether they were added. Their names are the same the next time.
    await new Promise((go) => setTimeout(go, 100));
  }
}
console.log("added", added);
let before = -1;
let since = Date.now();
while (done.size < wanted && Date.now() - since < patience * 1000) {
  if (done.size !== before) [before, since] = [done.size, Date.now()];
  await new Promise((go) => setTimeout(go, 100));
}
console.log("done", done.size);
process.exit(0);
