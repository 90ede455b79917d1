/**
 * A cache of replies that the server keeps up to date.
 *
 * @module
 */

import { nameOf } from "../calls/forbidden.js";
import { checked, Pending } from "../calls/later.js";
import { ClosedError, ConnectionError, OrderError, ReplyError, translate } from "../errors.js";
import { argument, type Reply, type Word, type Words } from "../wire/connection.js";
import type { Pool } from "../wire/pool.js";
import { copy, Kept, type CacheStats, type Question } from "./kept.js";
import { keyOf, Tracking } from "./tracking.js";

/** Limits of a cache. */
export interface CacheOptions {
  /** Most replies that are kept: the least recently used make room. The default is 10,000. */
  maxEntries?: number | undefined;
  /** Size of a reply above which it is not kept, in bytes. The default is 65,536. */
  maxReplyBytes?: number | undefined;
}

const ENTRIES_MAX = 10_000;
const REPLY_BYTES_MAX = 65_536;
/** How often a read is sent, each time over another connection. */
const TRIES = 2;

/**
 * Replies to reads, kept in memory until the server says that their key was written.
 *
 * `read` takes a command that reads one key, named first. It answers from memory if it has the
 * reply to exactly these words, and asks the server otherwise. Of two reads of the same words
 * through one cache the later never shows an older value. The value may be older than the newest
 * one: ordinarily by a message's way, and while machines do not hear each other by about five
 * seconds. A program that decides by what it reads, and then writes, needs a transaction: its reads
 * must come from the store, so do not use a cache in it. A command whose reply depends on time or
 * chance, such as `TTL` or `SRANDMEMBER`, is not for a cache either.
 *
 * The cache has a connection of its own, opened at the first read. If that is lost, everything is
 * dropped, and the next read opens another one. It ends with `close`, or with its client.
 */
export class Cache implements AsyncDisposable {
  readonly #pool: Pool;
  readonly #kept: Kept;
  /** For each command, whether its first argument is its only key. */
  readonly #facts = new Map<string, Promise<Fact>>();
  readonly #atEnd = () => this.#end();
  #opening: Promise<Tracking> | undefined;
  #tracking: Tracking | undefined;
  #closed = false;
  #hits = 0;
  #misses = 0;

  /** @internal */
  constructor(pool: Pool, options: CacheOptions) {
    const { maxEntries = ENTRIES_MAX, maxReplyBytes = REPLY_BYTES_MAX } = options;
    if (!(maxEntries >= 1)) throw new RangeError("maxEntries is 1 at least");
    this.#pool = pool;
    this.#kept = new Kept(maxEntries, maxReplyBytes);
    pool.atEnd.add(this.#atEnd);
  }

  /** What it has done so far. */
  get stats(): CacheStats {
    return { hits: this.#hits, misses: this.#misses, dropped: this.#kept.dropped };
  }

  /** The reply to a command that reads one key, which is its first argument. */
  read(command: string, ...args: Word[]): Pending<Reply> {
    return Pending.of(this.#read(checked([command, ...args])));
  }

  /** The string of a key. */
  get(key: Word): Pending<string | null> {
    return Pending.of(
      this.#read(checked(["GET", key])).then((reply) => (reply === null ? null : String(reply))),
    );
  }

  /** The fields of a hash. */
  hgetall(key: Word): Pending<Record<string, string>> {
    return Pending.of(this.#read(checked(["HGETALL", key])) as Promise<Record<string, string>>);
  }

  /** Ends the cache: later reads reject with a `ClosedError`. */
  async close(): Promise<void> {
    this.#end();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #read(words: Words): Promise<Reply> {
    this.#check();
    const name = nameOf(words);
    if (words[1] === undefined) throw new OrderError(`${name} needs its key here`);
    const fact = this.#facts.get(name) ?? this.#fact(name);
    if (!allows(await fact, words.length - 1)) throw refusal(name);
    this.#check();
    const [, key = "", ...others] = words.map((word) => keyOf(Buffer.from(argument(word))));
    const id = JSON.stringify([name, key, ...others]);
    const reply = this.#tracking?.fresh ? this.#kept.find(id) : undefined;
    if (reply !== undefined) {
      this.#hits += 1;
      return reply;
    }
    const other = this.#kept.underWay(id);
    if (other) {
      this.#hits += 1;
      return copy(await other.outcome);
    }
    this.#misses += 1;
    return this.#begin({ key, id }, words, TRIES);
  }

  /** Asks the server, and keeps its reply if nothing speaks against that. */
  #begin(place: Pick<Question, "key" | "id">, words: Words, tries: number): Promise<Reply> {
    const link = this.#link();
    const answer = link.then((tracking) => tracking.ask(words));
    const outcome = answer.then(
      (reply) => {
        const isError = reply instanceof ReplyError;
        this.#kept.end(question, isError ? undefined : reply);
        if (isError) throw translate(reply);
        return reply;
      },
      async (error: unknown) => {
        this.#kept.end(question);
        // Without a connection there is nothing that could have been lost.
        await link;
        this.#check();
        if (tries > 1) return this.#begin(place, words, tries - 1);
        throw new ConnectionError("the connection broke before the reply came", { cause: error });
      },
    );
    const question = { ...place, outcome };
    this.#kept.begin(question);
    return outcome;
  }

  #link(): Promise<Tracking> {
    if (this.#opening) return this.#opening;
    const forget = () => {
      if (this.#opening !== opening) return;
      this.#opening = this.#tracking = undefined;
      this.#kept.dropAll();
    };
    const listener = {
      written: (key?: string) => (key === undefined ? this.#kept.dropAll() : this.#kept.drop(key)),
      ended: () => forget(),
    };
    const opening = this.#pool.openBy((target) => Tracking.open(target, listener));
    this.#opening = opening;
    opening.then((tracking) => {
      if (this.#closed) tracking.close();
      else if (this.#opening === opening) this.#tracking = tracking;
    }, forget);
    return opening;
  }

  #fact(name: string): Promise<Fact> {
    const fact = this.#link()
      .then((tracking) => tracking.ask(["COMMAND", "INFO", name]))
      .then((reply) => factOf(name, reply));
    this.#facts.set(name, fact);
    fact.catch(() => this.#facts.delete(name));
    return fact;
  }

  #check(): void {
    if (this.#closed) throw new ClosedError("the cache is closed");
  }

  #end(): void {
    this.#closed = true;
    this.#pool.atEnd.delete(this.#atEnd);
    this.#tracking?.close();
  }
}

/** What the server's table says about a command: which keys it reads, if it only reads. */
type Fact = "none" | "one key" | "its keys";

function factOf(name: string, reply: Reply): Fact {
  if (reply instanceof ReplyError) throw translate(reply);
  const about = Array.isArray(reply) ? reply[0] : null;
  // Operations of types that clients define are in no table, and may write.
  if (!Array.isArray(about)) throw refusal(name);
  const [, , flags, first, last] = about;
  const known = new Set(Array.isArray(flags) ? flags : []);
  const isOther = known.has("movablekeys") || known.has("blocking");
  if (!known.has("readonly") || isOther || first !== 1) return "none";
  return last === 1 ? "one key" : "its keys";
}

function allows(fact: Fact, count: number): boolean {
  return fact === "one key" || (fact === "its keys" && count === 1);
}

function refusal(name: string): OrderError {
  return new OrderError(`${name} is not a command that reads one key, its first argument`);
}
