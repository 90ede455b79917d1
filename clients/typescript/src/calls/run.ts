/**
 * Transactions that are run until they commit.
 *
 * @module
 */

import { ConnectionError, OutcomeUnknownError, ReplyError, VoidedError } from "../errors.js";
import type { Reply, Words } from "../wire/connection.js";
import type { Pool } from "../wire/pool.js";
import type { Numbers, Request, Requests } from "../wire/requests.js";
import { abortable, attempts, type RetryOptions } from "../wire/time.js";
import { Attempt, checkManner, isAboutAttempt, Lane, type Manner } from "./attempt.js";

/** Options of a transaction. */
export interface RunOptions extends Manner, RetryOptions {
  /** Gives up: rejects with the signal's reason, and nothing takes effect. */
  signal?: AbortSignal | undefined;
  /**
   * Text of 1 to 59 bytes without spaces and control characters, such as `order-8f3a`. Of all runs
   * under it, in whatever process, one takes effect; each later one rejects with a `RepeatedError`
   * or, if nothing was read, has the replies of the first. The server remembers the last 100,000
   * names.
   */
  once?: string | undefined;
}

/** What running needs of its client. */
export interface Runner {
  readonly pool: Pool;
  readonly requests: Requests;
  readonly isWrite: (command: string) => Promise<boolean>;
  readonly single: (words: Words, signal?: AbortSignal) => Promise<Reply>;
}

/** Calls `body` with attempts until one commits, and resolves to the value of that call. */
export async function run<T>(
  runner: Runner,
  body: (attempt: Attempt) => Promise<T>,
  options: RunOptions,
): Promise<T> {
  checkManner(options);
  const numbered = (numbers: Numbers) => runNumbered(runner, body, options, numbers);
  return runner.requests.borrow(numbered, options.once);
}

async function runNumbered<T>(
  runner: Runner,
  body: (attempt: Attempt) => Promise<T>,
  options: RunOptions,
  numbers: Numbers,
): Promise<T> {
  const { signal } = options;
  const lane = new Lane(runner.pool, signal);
  const next = () => (options.readonly ? undefined : numbers.next());
  let request = next();
  let last: unknown;
  try {
    for await (const _ of attempts(options, signal)) {
      const attempt = new Attempt(lane, options, request, runner.isWrite);
      const outcome = await carryOut(attempt, lane, body, options);
      if (!("error" in outcome)) return outcome.value;
      last = outcome.error;
      if (last instanceof OutcomeUnknownError && last._final) throw last;
      if (last instanceof OutcomeUnknownError && "value" in outcome) {
        if (request === undefined) return outcome.value;
        if (await tookEffect(runner, request, options, last)) {
          attempt.lose();
          return outcome.value;
        }
        // The number is used up: it will never take effect.
        request = next();
      } else if (last instanceof VoidedError) {
        request = next();
      } else if (!isAboutAttempt(last)) {
        throw last;
      }
    }
  } finally {
    await lane.close();
  }
  throw last;
}

type Outcome<T> = { value: T } | { value: T; error: unknown } | { error: unknown };

/** Carries one attempt out; the value is there as soon as the body was done. */
async function carryOut<T>(
  attempt: Attempt,
  lane: Lane,
  body: (attempt: Attempt) => Promise<T>,
  { signal, readonly }: RunOptions,
): Promise<Outcome<T>> {
  let value: T;
  try {
    value = await abortable(signal, () => body(attempt));
  } catch (error) {
    await attempt.rollback();
    if (signal?.aborted || attempt.failure === undefined) throw error;
    return { error: attempt.failure };
  }
  try {
    await abortable(signal, () => attempt.commit());
    return { value };
  } catch (error) {
    await attempt.rollback();
    if (!signal?.aborted || error !== signal.reason) return { value, error };
    lane.abandon();
    if (readonly || !attempt.committing) throw error;
    throw new OutcomeUnknownError("the caller gave up during the commit", { cause: error });
  }
}

/**
 * Asks the server whether a commit whose answer was lost took effect. The question makes the answer
 * certain: if the server does not know the number, that commit can never take effect any more.
 */
async function tookEffect(
  runner: Runner,
  request: Request,
  options: RunOptions,
  lost: OutcomeUnknownError,
): Promise<boolean> {
  const { signal } = options;
  let last: unknown;
  try {
    for await (const _ of attempts({ deadlineMs: options.deadlineMs }, signal)) {
      try {
        const reply = await runner.single(["TXN", "RESOLVE", ...request], signal);
        if (reply instanceof ReplyError) {
          throw new OutcomeUnknownError(`${lost.message}; asking was refused: ${reply.message}`);
        }
        return Number(reply) === 1;
      } catch (error) {
        if (!(error instanceof ConnectionError)) throw error;
        last = error;
      }
    }
  } catch (error) {
    if (error instanceof OutcomeUnknownError) throw error;
    throw new OutcomeUnknownError(lost.message, { cause: error });
  }
  throw new OutcomeUnknownError(`${lost.message}; the server could not be asked either`, {
    cause: last,
  });
}
