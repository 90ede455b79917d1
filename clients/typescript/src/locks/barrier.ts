/**
 * Barriers: the parties wait until all have arrived.
 *
 * @module
 */

import { NotAcquiredError, OutcomeUnknownError } from "../errors.js";
import { Failures, timeLeft } from "../wire/time.js";
import type { WaitOptions } from "./lock.js";
import {
  askAndWait,
  defaultOwner,
  isWorthRepeating,
  numberOf,
  timeoutWords,
  type Store,
} from "./wait.js";

/** A barrier for a number of parties; see `barrier` of the client. */
export class Barrier {
  readonly name: string;
  readonly parties: number;
  readonly #store: Store;
  readonly #owner: string;

  /** @internal */
  constructor(store: Store, name: string, parties: number, owner: string | undefined) {
    this.#store = store;
    this.name = name;
    this.parties = parties;
    this.#owner = owner ?? defaultOwner();
  }

  /**
   * Waits until all parties have arrived; resolves to the number of their generation, the same to
   * all. Generations have growing numbers, and the barrier is usable again at once.
   *
   * Rejects with a `NotAcquiredError` if not all parties arrived in time, which takes the own
   * arrival back; with an `OutcomeUnknownError` if that is uncertain because the connection broke.
   */
  wait(options: WaitOptions = {}): Promise<number> {
    const { timeoutMs, signal } = options;
    return this.#store.requests.borrow(async (numbers) => {
      const begun = performance.now();
      const failures = new Failures();
      const request = numbers.next();
      let again = false;
      for (;;) {
        const asked = performance.now();
        const waitMs = timeLeft(timeoutMs, begun);
        const words = ["BARRIER.WAIT", this.name, this.parties, "OWNER", this.#owner];
        try {
          const commands = [
            ["CLIENT", "REQUEST", ...request],
            [...words, ...timeoutWords(waitMs)],
          ];
          const generation = numberOf(
            await askAndWait(this.#store.pool, commands, { waitMs, signal }),
          );
          if (generation !== null) return generation;
        } catch (error) {
          if (!isWorthRepeating(error)) throw error;
          again = true;
          await failures.pause(error, asked, signal);
          continue;
        }
        const text = `not all of ${this.parties} parties came to the barrier ${this.name} in time`;
        // The first request may still wait at the server, and count as an arrival.
        throw again ? new OutcomeUnknownError(text) : new NotAcquiredError(text);
      }
    });
  }
}
