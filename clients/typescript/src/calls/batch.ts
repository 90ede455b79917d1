/**
 * Batches: commands that take effect together, over any keys, in one round trip.
 *
 * @module
 */

import { OrderError, OutcomeUnknownError, RepeatedError, VoidedError } from "../errors.js";
import type { Reply, Word, Words } from "../wire/connection.js";
import type { Numbers } from "../wire/requests.js";
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
  let request = numbers.next();
  let last: unknown;
  let sent: boolean | undefined = false;
  let careful = false;
  for await (const _ of attempts(options, signal)) {
    const lane = new Lane(runner.pool, signal);
    lane.careful = careful;
    flight = script.repeat(flight, request);
    try {
      const replies = await abortable(signal, () => lane.exchange(flight));
      const reply = script.digest(flight, replies);
      await lane.close();
      if (reply === null) return null;
      return script.settle(reply);
    } catch (error) {
      const state = await lane.state();
      careful = lane.careful;
      const gaveUp = signal?.aborted && error === signal.reason;
      sent ||=
        state === "broken" || (gaveUp && state === "open") || error instanceof OutcomeUnknownError;
      if (error instanceof RepeatedError) script.lose(flight);
      if (gaveUp) {
        lane.abandon();
        if (!sent) throw error;
        throw new OutcomeUnknownError("the caller gave up before the reply came", { cause: error });
      }
      await lane.close();
      if (error instanceof VoidedError) request = numbers.next();
      // Under its number it may be repeated whatever became of earlier tries.
      else if (!isWorthRepeating(error)) throw error;
      last = error;
    }
  }
  if (!sent) throw last;
  throw new OutcomeUnknownError("the connection broke before the reply came", { cause: last });
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
