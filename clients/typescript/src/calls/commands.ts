/**
 * The ordinary commands as methods. Each is carried out in the way of its object: at once, in a
 * transaction, or in a batch.
 *
 * @module
 */

import type { Reply, Word } from "../wire/connection.js";
import type { Convert, Deferred, Pending } from "./later.js";

/** `direct`: every method answers at once. `transaction`: reads do. `batch`: none does. */
export type Mode = "direct" | "transaction" | "batch";

/** What a method that reads returns. */
export type Read<M extends Mode, T> = M extends "batch" ? Deferred<T> : Pending<T>;

/** What a method that writes returns. */
export type Written<M extends Mode, T> = M extends "direct" ? Pending<T> : Deferred<T>;

/** Options of {@link Commands.set}. */
export interface SetOptions {
  /** Time after which the key expires, in milliseconds. */
  expireMs?: number | undefined;
  /** Write only if the key does not exist, or only if it does. */
  only?: "absent" | "present" | undefined;
  /** Keep the time at which the key expires. */
  keepTtl?: boolean | undefined;
}

/** The reply as it came. */
export const raw = (reply: Reply): Reply => reply;
const integer = (reply: Reply): number => Number(reply);
const float = (reply: Reply): number | null => (reply === null ? null : Number(reply));
const flag = (reply: Reply): boolean => Number(reply) === 1;
const nothing = (): void => undefined;
const done = (reply: Reply): boolean => reply === "OK";
const text = (reply: Reply): string | null => (reply === null ? null : String(reply));
const textList = (reply: Reply): string[] => (Array.isArray(reply) ? reply.map(String) : []);
const texts = (reply: Reply): (string | null)[] => (Array.isArray(reply) ? reply.map(text) : []);
const textSet = (reply: Reply): Set<string> => new Set(textList(reply));

function fields(reply: Reply): Record<string, string> {
  // ioredis 5 speaks RESP2, in which a map is a list of fields and values.
  const pairs = Array.isArray(reply) ? inPairs(reply) : Object.entries(reply ?? {});
  return Object.fromEntries(pairs.map(([field, value]) => [String(field), String(value)]));
}

function scored(reply: Reply): { member: string; score: number }[] {
  const rows = Array.isArray(reply) ? reply : [];
  const pairs = Array.isArray(rows[0]) ? (rows as Reply[][]) : inPairs(rows);
  return pairs.map(([member, score]) => ({ member: String(member), score: Number(score) }));
}

function inPairs(list: readonly Reply[]): Reply[][] {
  return Array.from({ length: list.length / 2 }, (_, n) => list.slice(2 * n, 2 * n + 2));
}

/** Commands that only read. */
export abstract class ReadCommands<M extends Mode> {
  /** @internal */
  protected abstract reading<T>(words: readonly Word[], convert: Convert<T>): Read<M, T>;

  /** The text under a key; `null` if there is none. */
  get(key: string): Read<M, string | null> {
    return this.reading(["GET", key], text);
  }

  /** The texts under several keys. */
  mget(...keys: string[]): Read<M, (string | null)[]> {
    return this.reading(["MGET", ...keys], texts);
  }

  /** Number of these keys that exist. */
  exists(...keys: string[]): Read<M, number> {
    return this.reading(["EXISTS", ...keys], integer);
  }

  /** Type of the value under a key; `none` if there is none. */
  type(key: string): Read<M, string> {
    return this.reading(["TYPE", key], String);
  }

  /** Milliseconds until a key expires; -1 if it does not, -2 if it does not exist. */
  pttl(key: string): Read<M, number> {
    return this.reading(["PTTL", key], integer);
  }

  /** Length of the text under a key, in bytes. */
  strlen(key: string): Read<M, number> {
    return this.reading(["STRLEN", key], integer);
  }

  /** A field of a hash. */
  hget(key: string, field: string): Read<M, string | null> {
    return this.reading(["HGET", key, field], text);
  }

  /** Several fields of a hash. */
  hmget(key: string, ...names: string[]): Read<M, (string | null)[]> {
    return this.reading(["HMGET", key, ...names], texts);
  }

  /** All fields of a hash. */
  hgetAll(key: string): Read<M, Record<string, string>> {
    return this.reading(["HGETALL", key], fields);
  }

  /** Whether a hash has a field. */
  hexists(key: string, field: string): Read<M, boolean> {
    return this.reading(["HEXISTS", key, field], flag);
  }

  /** Number of fields of a hash. */
  hlen(key: string): Read<M, number> {
    return this.reading(["HLEN", key], integer);
  }

  /** Members of a set. */
  smembers(key: string): Read<M, Set<string>> {
    return this.reading(["SMEMBERS", key], textSet);
  }

  /** Whether a set has a member. */
  sismember(key: string, member: Word): Read<M, boolean> {
    return this.reading(["SISMEMBER", key, member], flag);
  }

  /** Number of members of a set. */
  scard(key: string): Read<M, number> {
    return this.reading(["SCARD", key], integer);
  }

  /** Elements of a list, from one place to another; negative places count from the end. */
  lrange(key: string, start: number, stop: number): Read<M, string[]> {
    return this.reading(["LRANGE", key, start, stop], textList);
  }

  /** The element at a place of a list. */
  lindex(key: string, index: number): Read<M, string | null> {
    return this.reading(["LINDEX", key, index], text);
  }

  /** Length of a list. */
  llen(key: string): Read<M, number> {
    return this.reading(["LLEN", key], integer);
  }

  /** Score of a member of a sorted set. */
  zscore(key: string, member: Word): Read<M, number | null> {
    return this.reading(["ZSCORE", key, member], float);
  }

  /** Number of members of a sorted set. */
  zcard(key: string): Read<M, number> {
    return this.reading(["ZCARD", key], integer);
  }

  /** Members of a sorted set by rank, the lowest score first. */
  zrange(key: string, start: number, stop: number): Read<M, string[]> {
    return this.reading(["ZRANGE", key, start, stop], textList);
  }

  /** The same with the scores. */
  zrangeWithScores(
    key: string,
    start: number,
    stop: number,
  ): Read<M, { member: string; score: number }[]> {
    return this.reading(["ZRANGE", key, start, stop, "WITHSCORES"], scored);
  }

  /** Value of a counter that is made for contention. */
  counterGet(key: string): Read<M, number> {
    return this.reading(["COUNTER.GET", key], integer);
  }

  /** Whether a counter has this value at least: excludes only what would change the answer. */
  counterAtLeast(key: string, value: number): Read<M, boolean> {
    return this.reading(["COUNTER.ATLEAST", key, value], flag);
  }
}

/** Commands that read, and commands that write. */
export abstract class Commands<M extends Mode> extends ReadCommands<M> {
  /** @internal */
  protected abstract writing<T>(words: readonly Word[], convert: Convert<T>): Written<M, T>;

  /** Writes a text; answers whether that was done, which only `only` can prevent. */
  set(key: string, value: Word, options: SetOptions = {}): Written<M, boolean> {
    const words: Word[] = ["SET", key, value];
    if (options.only) words.push(options.only === "absent" ? "NX" : "XX");
    if (options.expireMs !== undefined) words.push("PX", Math.round(options.expireMs));
    if (options.keepTtl) words.push("KEEPTTL");
    return this.writing(words, done);
  }

  /** Writes several texts. */
  mset(values: Readonly<Record<string, Word>>): Written<M, void> {
    return this.writing(["MSET", ...Object.entries(values).flat()], nothing);
  }

  /** Removes keys; answers the number of those that existed. */
  del(...keys: string[]): Written<M, number> {
    return this.writing(["DEL", ...keys], integer);
  }

  /** Lets a key expire after a time in milliseconds; answers whether the key exists. */
  pexpire(key: string, ms: number): Written<M, boolean> {
    return this.writing(["PEXPIRE", key, Math.round(ms)], flag);
  }

  /** Lets a key expire no more; answers whether it would have. */
  persist(key: string): Written<M, boolean> {
    return this.writing(["PERSIST", key], flag);
  }

  /** Adds 1 to an integer; answers the sum. */
  incr(key: string): Written<M, number> {
    return this.writing(["INCR", key], integer);
  }

  /** Subtracts 1 from an integer; answers the difference. */
  decr(key: string): Written<M, number> {
    return this.writing(["DECR", key], integer);
  }

  /** Adds to an integer; answers the sum. */
  incrBy(key: string, amount: number | bigint): Written<M, number> {
    return this.writing(["INCRBY", key, amount], integer);
  }

  /** Subtracts from an integer; answers the difference. */
  decrBy(key: string, amount: number | bigint): Written<M, number> {
    return this.writing(["DECRBY", key, amount], integer);
  }

  /** Adds to a number; answers the sum. */
  incrByFloat(key: string, amount: number): Written<M, number> {
    return this.writing(["INCRBYFLOAT", key, amount], integer);
  }

  /** Appends to a text; answers its length in bytes. */
  append(key: string, value: Word): Written<M, number> {
    return this.writing(["APPEND", key, value], integer);
  }

  /** Writes fields of a hash; answers the number of new ones. */
  hset(key: string, values: Readonly<Record<string, Word>>): Written<M, number> {
    return this.writing(["HSET", key, ...Object.entries(values).flat()], integer);
  }

  /** Removes fields of a hash; answers the number of those that existed. */
  hdel(key: string, ...names: string[]): Written<M, number> {
    return this.writing(["HDEL", key, ...names], integer);
  }

  /** Adds to a field of a hash; answers the sum. */
  hincrBy(key: string, field: string, amount: number | bigint): Written<M, number> {
    return this.writing(["HINCRBY", key, field, amount], integer);
  }

  /** Adds members to a set; answers the number of new ones. */
  sadd(key: string, ...members: Word[]): Written<M, number> {
    return this.writing(["SADD", key, ...members], integer);
  }

  /** Removes members of a set; answers the number of those that existed. */
  srem(key: string, ...members: Word[]): Written<M, number> {
    return this.writing(["SREM", key, ...members], integer);
  }

  /** Prepends to a list; answers its length. */
  lpush(key: string, ...elements: Word[]): Written<M, number> {
    return this.writing(["LPUSH", key, ...elements], integer);
  }

  /** Appends to a list; answers its length. */
  rpush(key: string, ...elements: Word[]): Written<M, number> {
    return this.writing(["RPUSH", key, ...elements], integer);
  }

  /** Takes the first element of a list. */
  lpop(key: string): Written<M, string | null> {
    return this.writing(["LPOP", key], text);
  }

  /** Takes the last element of a list. */
  rpop(key: string): Written<M, string | null> {
    return this.writing(["RPOP", key], text);
  }

  /** Sets scores of members of a sorted set; answers the number of new ones. */
  zadd(key: string, scores: Readonly<Record<string, number>>): Written<M, number> {
    const pairs = Object.entries(scores).flatMap(([member, score]) => [score, member]);
    return this.writing(["ZADD", key, ...pairs], integer);
  }

  /** Removes members of a sorted set; answers the number of those that existed. */
  zrem(key: string, ...members: Word[]): Written<M, number> {
    return this.writing(["ZREM", key, ...members], integer);
  }

  /** Adds to the score of a member of a sorted set; answers the sum. */
  zincrBy(key: string, amount: number, member: Word): Written<M, number> {
    return this.writing(["ZINCRBY", key, amount, member], integer);
  }

  /** Adds to a counter that is made for contention: such writes never wait for each other. */
  counterAdd(key: string, amount: number): Written<M, void> {
    return this.writing(["COUNTER.ADD", key, amount], nothing);
  }

  /** Adds to a counter unless it would leave its bounds; answers whether it did. */
  counterTry(key: string, amount: number): Written<M, boolean> {
    return this.writing(["COUNTER.TRY", key, amount], flag);
  }
}
