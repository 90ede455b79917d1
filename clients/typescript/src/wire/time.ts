/**
 * Pauses, retries, and waiting that its caller may give up.
 *
 * @module
 */

import { BusyError, ConnectionError } from "../errors.js";

/** Number and duration of the retries of a request. */
export interface RetryOptions {
  /** Time after which no further attempt begins, in milliseconds. The default is 10,000. */
  deadlineMs?: number | undefined;
  /** Most attempts. The default is no limit. */
  attemptsMax?: number | undefined;
}

/** Longest time of a timer. */
export const TIMER_MS_MAX = 2_147_483_647;
const DEADLINE_MS = 10_000;
/** Longest time that a caller who gives up waits for what is left, in milliseconds. */
const REMAINS_MS = 400;
const PAUSE_MS_MIN = 0.5;
const PAUSE_MS_MAX = 50;

/** Milliseconds to wait before a retry: drawn at random, so that rivals do not collide again. */
export function pauseMs(retry: number): number {
  return Math.random() * Math.min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2 ** Math.min(retry, 30));
}

/** Yields the number of each attempt that may be made, from 0, after the pause before it. */
export async function* attempts(
  options: RetryOptions,
  signal?: AbortSignal,
): AsyncGenerator<number> {
  const { deadlineMs = DEADLINE_MS, attemptsMax = Infinity } = options;
  const begun = performance.now();
  for (let attempt = 0; ; attempt++) {
    if (attempt > 0) {
      if (attempt >= attemptsMax || performance.now() - begun >= deadlineMs) return;
      await sleep(pauseMs(attempt), signal);
    }
    yield attempt;
  }
}

/** Duration of an uninterrupted series of failures, after which the last error is thrown. */
export class Failures {
  #count = 0;
  #since: number | undefined;

  /** Waits after a failed try that began at `asked`; throws its error after too many. */
  async pause(error: unknown, asked: number, signal?: AbortSignal): Promise<void> {
    const now = performance.now();
    // A request that was sent, and has waited for long, has had a server for long.
    const sought = error instanceof ConnectionError && error._unreached;
    const served = !sought && !(error instanceof BusyError);
    if (this.#since === undefined || (served && now - asked > 1000)) {
      this.#since = now;
      this.#count = 0;
    }
    this.#count += 1;
    if (now - this.#since > DEADLINE_MS) throw error;
    await sleep(pauseMs(this.#count), signal);
  }
}

/** Milliseconds left of a time-out that began at `begun`; 0 only if none was wanted. */
export function timeLeft(timeoutMs: number | undefined, begun: number): number | undefined {
  if (timeoutMs === undefined || timeoutMs === 0) return timeoutMs;
  return Math.max(1, timeoutMs - (performance.now() - begun));
}

/** Waits; rejects with the signal's reason once it is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return abortable(
    signal,
    (settled) =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, ms);
        settled(() => clearTimeout(timer));
      }),
  );
}

/** The outcome of a promise; a rejection if it takes longer than this many milliseconds. */
export async function within<T>(promise: Promise<T>, ms: number, late: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const end = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(late()), ms)));
  try {
    return await Promise.race([promise, end]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits for what is left of something that was given up; after a while it goes on by itself. */
export async function remains(work: Promise<unknown>): Promise<void> {
  const late = () => new Error("it goes on by itself");
  await within(work, REMAINS_MS, late).catch(() => undefined);
}

/**
 * The outcome of what `start` begins, or a rejection with the signal's reason as soon as that is
 * aborted. `start` may hand over what is to be cleaned up in either case.
 */
export async function abortable<T>(
  signal: AbortSignal | undefined,
  start: (settled: (cleanup: () => void) => void) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const cleanups: (() => void)[] = [];
  const work = start((cleanup) => cleanups.push(cleanup));
  try {
    if (signal === undefined) return await work;
    return await new Promise<T>((resolve, reject) => {
      const abort = () => reject(signal.reason);
      signal.addEventListener("abort", abort, { once: true });
      cleanups.push(() => signal.removeEventListener("abort", abort));
      work.then(resolve, reject);
    });
  } finally {
    for (const cleanup of cleanups) cleanup();
  }
}
