/**
 * Batches: commands that take effect together, over any keys, in one round trip.
 *
 * @module
 */

import {
  ClosedError,
  OrderError,
  OutcomeUnknownError,
  RepeatedError,
  VoidedError,
} from "../errors.js";
import type { Reply, Word, Words } from "../wire/connection.js";
import type { Numbers, Request } from "../wire/requests.js";
import { abortable, attempts, type RetryOptions } from "../wire/time.js";
import { isAboutAttempt, Lane } from "./attempt.js";
import { Commands, raw } from "./commands.js";
import { allowed } from "./forbidden.js";
import { checked, type Convert, type Deferred } from "./later.js";
import type { Runner } from "./run.js";
import { Script } from "./script.js";

/** What a key must be like when a batch takes effect. */
export type Guard =
  | { key: string; equals: Word | null }
  | { key: string; differs: Word }
  | { key: string; exists: boolean };

/** Options of a batch. */
export interface BatchOptions extends RetryOptions {
  /** Conditions that must hold at the instant at which the batch takes effect. */
  guards?: readonly Guard[] | undefined;
  /** Text by which the batch takes effect once, in whatever process; as that of `run`. */
  once?: string | undefined;
  signal?: AbortSignal | undefined;
}

/** A holder of a fencing token. */
export interface TokenHolder {
  readonly name: string;
  readonly token: number;
}

/** Commands of a batch. Each answers a {@link Deferred}. */
export class Batch extends Commands<"batch"> {
  readonly #script: Script;

  /** @internal */
  constructor(script: Script) {
    super();
    this.#script = script;
  }

  /** Adds any command. */
  command(...words: Word[]): Deferred<Reply> {
    return this.reading(words, raw);
  }

  /**
   * Puts all of the batch, on keys of one hash slot, under the fencing token of a lock: it rejects
   * with a `LockLostError`, and changes nothing, if a later holder has written there.
   */
  fence(lock: TokenHolder): void {
    this.#script.defer(["FENCE", lock.name, lock.token], raw);
  }

  /** @internal */
  protected override reading<T>(words: readonly Word[], convert: Convert<T>): Deferred<T> {
    return this.#script.defer(allowed(words, "within"), convert);
  }

  /** @internal */
  protected override writing<T>(words: readonly Word[], convert: Convert<T>): Deferred<T> {
    return this.reading(words, convert);
  }
}

/**
 * Carries a batch out: resolves to its replies, or to `null` if a guard did not hold. It has a
 * request number: if the connection breaks it is sent again, and takes effect once.
 */
export async function batch(
  runner: Runner,
  fill: (batch: Batch) => void,
  options: BatchOptions,
): Promise<Reply[] | null> {
  const guards = (options.guards ?? []).flatMap(guardWords);
  const execute = async (numbers: Numbers) => {
    const script = new Script(["MULTI"], ["EXEC", ...guards]);
    const filled: unknown = fill(new Batch(script));
    if (filled instanceof Promise) {
      filled.catch(() => undefined);
      throw new OrderError("a batch is filled at once: by a function that is not async");
    }
    if (script.length === 0 && guards.length === 0) return [];
    return carryOut(runner, script, options, numbers);
  };
  return runner.requests.borrow(execute, options.once);
}

async function carryOut(
  runner: Runner,
  script: Script,
  options: BatchOptions,
  numbers: Numbers,
): Promise<Reply[] | null> {
  const { signal } = options;
  let flight = script.take();
  const tries = new Tries(numbers);
  let last: unknown;
  for await (const _ of attempts(options, signal)) {
    const lane = tries.on(new Lane(runner.pool, signal));
    flight = script.repeat(flight, tries.request);
    try {
      const replies = await abortable(signal, () => lane.exchange(flight));
      const reply = script.digest(flight, replies);
      await lane.close();
      if (reply === null) return null;
      return script.settle(reply);
    } catch (error) {
      if (error instanceof RepeatedError) script.lose(flight);
      await tries.failed(lane, error, signal);
      last = error;
    }
  }
  throw tries.lastOf(last);
}

/** Tries of commands that take effect together, and once: under a request number. */
export class Tries {
  readonly #numbers: Numbers;
  #careful = false;
  /** The number of the next try. */
  request: Request;
  /** Whether an earlier try may have taken effect, or may do so yet. */
  sent = false;

  constructor(numbers: Numbers) {
    this.#numbers = numbers;
    this.request = numbers.next();
  }

  /** A lane for the next try. */
  on(lane: Lane): Lane {
    lane.careful = this.#careful;
    return lane;
  }

  /** Ends a try that has failed. Throws unless there may be another one. */
  async failed(lane: Lane, error: unknown, signal: AbortSignal | undefined): Promise<void> {
    const state = await lane.state();
    this.#careful = lane.careful;
    const gaveUp = signal?.aborted === true && error === signal.reason;
    this.sent ||=
      state === "broken" || (gaveUp && state === "open") || error instanceof OutcomeUnknownError;
    if (gaveUp) {
      lane.abandon();
      if (!this.sent) throw error;
      throw new OutcomeUnknownError("the caller gave up before the reply came", { cause: error });
    }
    await lane.close();
    if (error instanceof VoidedError) this.request = this.#numbers.next();
    // Under its number it may be repeated whatever became of earlier tries.
    else if (error instanceof ClosedError) throw this.lastOf(error);
    else if (!isWorthRepeating(error)) throw error;
  }

  /** The error when there is no further try. */
  lastOf(error: unknown): unknown {
    if (!this.sent) return error;
    return new OutcomeUnknownError("the connection broke before the reply came", { cause: error });
  }
}

function isWorthRepeating(error: unknown): boolean {
  return isAboutAttempt(error) || (error instanceof OutcomeUnknownError && !error._final);
}

function guardWords(guard: Guard): Words {
  const { key } = guard;
  if ("exists" in guard) return checked([guard.exists ? "XX" : "NX", key]);
  if ("differs" in guard) return ["IFNE", ...checked([key, guard.differs])];
  return guard.equals === null ? checked(["NX", key]) : ["IFEQ", ...checked([key, guard.equals])];
}
