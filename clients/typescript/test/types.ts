// What the compiler has to accept and to refuse. Compiled by `npm test`, never run.

import { connect, defineType, type Batch } from "@claret/client";
import { ioredis } from "@claret/client/ioredis";

const db = connect({ driver: ioredis(), addresses: ["127.0.0.1:6379"] });
const visits = defineType<{ add(by: number): "OK"; count(): number }>("type visits");

export async function accepted(batch: Batch): Promise<number> {
  const { sum, name } = await db.run(async (tx) => {
    const read: string | null = await tx.get("name");
    return { sum: tx.incrBy("n", 1), name: read };
  });
  await using lock = await db.lock("l").acquire();
  const text: string | null = await db.fenced(lock).get("x");
  const count: number = await visits.on(db, "v").count();
  return sum.value + batch.incr("n").value + count + (name ?? text ?? "").length;
}

export async function refused(batch: Batch): Promise<void> {
  await db.run(async (tx) => {
    // @ts-expect-error: a deferred reply is not awaited.
    await tx.incr("n");
    // @ts-expect-error: nor is it a number.
    tx.set("x", tx.incr("n") + 1);
    // @ts-expect-error: nor a word.
    tx.set("x", tx.incr("n"));
    // @ts-expect-error: a promise is no word either.
    tx.set("x", tx.get("y"));
  });
  // @ts-expect-error: a snapshot has no writes.
  await db.snapshot((reads) => reads.set("x", 1));
  // @ts-expect-error: the parameters of an operation have types.
  visits.on(batch, "v").add("many");
}
