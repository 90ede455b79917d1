// Bull 4: jobs, retries, delays, counts, cleaning.
const Queue = require("bull");

const say = (name, value) => console.log(name, JSON.stringify(value));

async function main() {
  const queue = new Queue("work", { redis: { host: "127.0.0.1", port: Number(process.argv[2]) } });
  queue.process(4, async (job) => {
    if (job.data.fails > job.attemptsMade) throw new Error("again");
    return job.data.n * 2;
  });
  const jobs = await Promise.all([...Array(20).keys()].map((n) => queue.add({ n })));
  say("results", await Promise.all(jobs.map((job) => job.finished())));
  say("flaky", await (await queue.add({ n: 4, fails: 2 }, { attempts: 3, backoff: 50 })).finished());
  say("late", await (await queue.add({ n: 5 }, { delay: 400 })).finished());
  const counts = await queue.getJobCounts();
  say("counts", [counts.completed, counts.failed, counts.waiting]);
  await queue.clean(0, "completed");
  await queue.empty();
  say("empty", (await queue.getJobCounts()).waiting);
  await queue.close();
}

main();
