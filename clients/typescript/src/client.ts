/**
 * The client.
 *
 * @module
 */

import { Cache, type CacheOptions } from "./cache/cache.js";
import { batch, Batch, type BatchOptions, type TokenHolder } from "./calls/batch.js";
import { Commands, raw } from "./calls/commands.js";
import { Dispatch } from "./calls/dispatch.js";
import { allowed } from "./calls/forbidden.js";
import { Pending, type Convert } from "./calls/later.js";
import { run, type Runner, type RunOptions } from "./calls/run.js";
import { Snapshot, Transaction } from "./calls/transaction.js";
import { ConnectionError, OutcomeUnknownError, ReplyError, translate } from "./errors.js";
import { Barrier } from "./locks/barrier.js";
import { Election, type ElectionOptions } from "./locks/election.js";
import { Fenced } from "./locks/fenced.js";
import type { LockOptions } from "./locks/hold.js";
import { Lock } from "./locks/lock.js";
import { Retained, type RetainedOptions } from "./locks/retained.js";
import { Section, type SectionOptions } from "./locks/section.js";
import { refusedEarly, type Haste, type Store } from "./locks/wait.js";
import type { Reply, Word, Words } from "./wire/connection.js";
import { Pool, type ConnectOptions } from "./wire/pool.js";
import { Requests } from "./wire/requests.js";
import { abortable, attempts, TIMER_MS_MAX } from "./wire/time.js";

/** A client of the servers at some addresses. Connects when it is first used. */
export function connect(options: ConnectOptions): Claret {
  return new Claret(options);
}

/** A client; see {@link connect}. Its own commands are carried out one by one. */
export class Claret extends Commands<"direct"> implements AsyncDisposable {
  readonly #pool: Pool;
  readonly #runner: Runner;
  readonly #store: Store;
  /** Flags of commands, by their names in capitals. */
  readonly #flags = new Map<string, Promise<ReadonlySet<string>>>();

  /** @internal */
  constructor(options: ConnectOptions) {
    super();
    const pool = (this.#pool = new Pool(options));
    const requests = new Requests();
    this.#runner = {
      pool,
      requests,
      isWrite: (command) => this.isWrite(command),
      single: (words, signal) => this.#single(words, signal),
    };
    this.#store = { pool, requests, promptly: (words, haste) => this.#promptly(words, haste) };
  }

  /**
   * Carries any command out. If the connection breaks, a command that only reads is sent again; any
   * other rejects with an `OutcomeUnknownError`: use a batch for what must take effect once.
   */
  command(...words: Word[]): Pending<Reply> {
    return this.reading(words, raw);
  }

  /**
   * Calls a function with a transaction until it commits, and resolves to the function's value.
   *
   * The function may be called many times: it must not do anything but use the transaction. After a
   * broken connection the server is asked whether the commit took effect, so that it does so once.
   * If a command is refused nothing takes effect (`UndoneError`), unless `strict` is false: then
   * the others do, and it rejects with a `WriteRefusedError`.
   */
  run<T>(body: (tx: Transaction) => Promise<T> | T, options: RunOptions = {}): Promise<T> {
    return run(this.#runner, async (attempt) => body(new Transaction(attempt)), options);
  }

  /** Calls a function with reads that all show one instant, and that take no locks. */
  snapshot<T>(
    body: (reads: Snapshot) => Promise<T> | T,
    options: Pick<RunOptions, "attemptsMax" | "deadlineMs" | "signal"> = {},
  ): Promise<T> {
    const manner = { ...options, readonly: true };
    return run(this.#runner, async (attempt) => body(new Snapshot(attempt)), manner);
  }

  /**
   * Carries out what a function adds to a batch: together, over any keys, in one round trip.
   * Resolves to the replies, or to `null` if a guard did not hold: then nothing took effect.
   *
   * If the connection breaks it is sent again, and takes effect once. Rejects with an `UndoneError`
   * if a command cannot be carried out at all, and with a `WriteRefusedError` if values did not
   * allow some of them: the others took effect.
   */
  batch(fill: (batch: Batch) => void, options: BatchOptions = {}): Promise<Reply[] | null> {
    return batch(this.#runner, fill, options);
  }

  /** A connection on which commands are sent without waiting for replies; see {@link Dispatch}. */
  dispatch(): Dispatch;
  /** The same for one function: waits for all replies when that is done. */
  dispatch<T>(work: (dispatch: Dispatch) => Promise<T> | T): Promise<T>;
  dispatch<T>(work?: (dispatch: Dispatch) => Promise<T> | T): Dispatch | Promise<T> {
    const dispatch = new Dispatch(this.#pool);
    return work ? this.#dispatched(dispatch, work) : dispatch;
  }

  /** Replies to reads, kept in memory until their key is written; see {@link Cache}. */
  cache(options: CacheOptions = {}): Cache {
    return new Cache(this.#pool, options);
  }

  /** A lock, which is not acquired yet; see {@link Lock}. */
  lock(name: string, options: LockOptions = {}): Lock {
    return new Lock(this.#store, name, options);
  }

  /**
   * A lock that stays with this process until another client wants it; see {@link Retained}. One
   * object serves all of the process. Entering it again costs nothing meanwhile.
   */
  retained(name: string, options: RetainedOptions = {}): Retained {
    return new Retained(this.#store, name, options);
  }

  /** An election; see {@link Election}. */
  election(name: string, options: ElectionOptions = {}): Election {
    return new Election(this.#store, name, options);
  }

  /** A barrier for a number of parties; `owner` is the name in `BARRIER.WAITING`. */
  barrier(name: string, parties: number, options: { owner?: string | undefined } = {}): Barrier {
    return new Barrier(this.#store, name, parties, options.owner);
  }

  /**
   * Commands on keys of one hash slot that are refused, with a `LockLostError`, if a later holder
   * of the lock has written there.
   */
  fenced(lock: TokenHolder): Fenced {
    return new Fenced(lock, (words) => this.#carryOut(words));
  }

  /**
   * Commands on keys of the hash slot of a lock, each with the lock and its release in one request;
   * see {@link Section}.
   */
  section(name: string, options: SectionOptions = {}): Section {
    return new Section(this.#store, name, options);
  }

  /** Whether a command may change data, by the server's own table. */
  async isWrite(command: string): Promise<boolean> {
    return (await this.#flagsOf(command)).has("write");
  }

  /** Closes all connections. Locks that are held end with their leases. */
  async close(): Promise<void> {
    this.#pool.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal */
  protected override reading<T>(words: readonly Word[], convert: Convert<T>): Pending<T> {
    return Pending.of(this.#carryOut(allowed(words, "alone")).then(convert));
  }

  /** @internal */
  protected override writing<T>(words: readonly Word[], convert: Convert<T>): Pending<T> {
    return this.reading(words, convert);
  }

  async #carryOut(words: Words): Promise<Reply> {
    let last: unknown;
    for await (const _ of attempts({})) {
      const link = await this.#pool.take();
      try {
        const [reply = null] = await link.send([words]);
        if (reply instanceof ReplyError) throw translate(reply);
        return reply;
      } catch (error) {
        if (link.open) throw error;
        last = error;
        if (!(await this.#isRead(words).catch(() => false))) break;
      } finally {
        this.#pool.give(link);
      }
    }
    throw new OutcomeUnknownError("the connection broke before the reply came", { cause: last });
  }

  /** The reply to one command, an error as a value. */
  async #single(words: Words, signal?: AbortSignal): Promise<Reply> {
    const link = await this.#pool.takeBeyond(signal);
    try {
      const [reply = null] = await abortable(signal, () => link.send([words]));
      return reply;
    } catch (error) {
      link.close();
      throw error;
    } finally {
      this.#pool.give(link);
    }
  }

  async #promptly(words: Words, { limitMs, fresh, request }: Haste = {}): Promise<Reply> {
    const signal =
      limitMs === undefined
        ? undefined
        : AbortSignal.timeout(Math.min(Math.ceil(limitMs), TIMER_MS_MAX));
    const link = await this.#pool.takeBeyond(signal, fresh).catch((error: unknown) => {
      if (!signal?.aborted) throw error;
      throw new ConnectionError("no connection in time", { cause: error });
    });
    const numbered = request === undefined ? [] : [["CLIENT", "REQUEST", ...request]];
    let reply: Reply;
    try {
      const replies = await abortable(signal, () => link.send([...numbered, words]));
      if (refusedEarly(replies)) link.close();
      reply = replies.at(-1) ?? null;
    } catch (error) {
      // The reply may still arrive on it.
      link.close();
      const what = signal?.aborted ? "no reply came in time" : "the connection broke";
      throw new OutcomeUnknownError(`${what}: it is unknown if it took effect`, { cause: error });
    } finally {
      this.#pool.give(link);
    }
    if (reply instanceof ReplyError) throw translate(reply);
    return reply;
  }

  async #dispatched<T>(
    dispatch: Dispatch,
    work: (dispatch: Dispatch) => Promise<T> | T,
  ): Promise<T> {
    let value: T;
    try {
      value = await work(dispatch);
    } catch (error) {
      await dispatch.close().catch(() => undefined);
      throw error;
    }
    await dispatch.close();
    return value;
  }

  async #isRead(words: Words): Promise<boolean> {
    return (await this.#flagsOf(String(words[0]))).has("readonly");
  }

  #flagsOf(command: string): Promise<ReadonlySet<string>> {
    const name = command.toUpperCase();
    let flags = this.#flags.get(name);
    if (flags === undefined) {
      flags = this.#promptly(["COMMAND", "INFO", name]).then(flagsIn);
      this.#flags.set(name, flags);
      flags.catch(() => this.#flags.delete(name));
    }
    return flags;
  }
}

/** Flags of a command, from the reply of `COMMAND INFO`; none if there is no such command. */
function flagsIn(reply: Reply): ReadonlySet<string> {
  const about = Array.isArray(reply) ? reply[0] : null;
  const flags = Array.isArray(about) ? about[2] : null;
  return new Set(Array.isArray(flags) ? flags.map(String) : []);
}
