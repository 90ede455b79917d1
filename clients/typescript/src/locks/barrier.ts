/**
 * Barriers: the parties wait until all have arrived.
 *
 * @module
 */

import { BusyError, NotAcquiredError, OutcomeUnknownError, RejectedError } from "../errors.js";
import type { Request } from "../wire/requests.js";
import { Failures, timeLeft } from "../wire/time.js";
import type { WaitOptions } from "./lock.js";
import {
  askAndWait,
  defaultOwner,
  isWorthRepeating,
  numberOf,
  timeoutWords,
  type Patience,
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
   * The signal takes the arrival back as well: unless the server confirms that, it rejects with an
   * `OutcomeUnknownError`. If the arrival counts all the same it resolves.
   */
  wait(options: WaitOptions = {}): Promise<number> {
    const { timeoutMs, signal } = options;
    return this.#store.requests.borrow(async (numbers) => {
      const begun = performance.now();
      const failures = new Failures();
      const request = numbers.next();
      const text = `not all of ${this.parties} parties came to the barrier ${this.name} in time`;
      const words = ["BARRIER.WAIT", this.name, this.parties, "OWNER", this.#owner];
      const unknown = (cause?: unknown) =>
        new OutcomeUnknownError(`${text}, and the own arrival may count`, { cause });
      let again = false;
      for (;;) {
        const asked = performance.now();
        const waitMs = timeLeft(timeoutMs, begun);
        let sent = false;
        let settled: number | null | undefined;
        const patience: Patience = {
          waitMs,
          signal,
          undo: async (answer, ended) => {
            if (ended) settled = numberOf(answer) ?? (await this.#settle(request));
          },
          sends: () => (sent = true),
          lingers: (work) => numbers.keepFor(work),
        };
        const commands = [
          ["CLIENT", "REQUEST", ...request],
          [...words, ...timeoutWords(waitMs)],
        ];
        try {
          const generation = numberOf(await askAndWait(this.#store.pool, commands, patience));
          if (generation !== null) return generation;
        } catch (error) {
          if (typeof settled === "number") return settled;
          const gaveUp = signal?.aborted && error === signal.reason;
          if (gaveUp && ((sent && settled === undefined) || again)) throw unknown(error);
          if (gaveUp || !isWorthRepeating(error)) throw error;
          again ||= sent && !(error instanceof BusyError);
          await failures.pause(error, asked, signal).catch((reason: unknown) => {
            throw again ? unknown(reason) : reason;
          });
          continue;
        }
        // The first request may still wait at the server, and count as an arrival.
        if (again) throw unknown();
        const generation = await this.#settle(request).catch((cause: unknown) => {
          throw unknown(cause);
        });
        if (generation === null) throw new NotAcquiredError(text);
        return generation;
      }
    });
  }

  /**
   * The generation of an arrival whose wait has ended in vain, if it counts all the same because it
   * was on its way to the log: then that is the reply to any write under its number.
   */
  async #settle(request: Request): Promise<number | null> {
    const words = ["LOCK.RELEASE", this.name, 0];
    try {
      return Number(await this.#store.promptly(words, { request })) || null;
    } catch (error) {
      // A user without the right to ask goes by the first answer.
      if (error instanceof RejectedError) return null;
      throw error;
    }
  }
}
