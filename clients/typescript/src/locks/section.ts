/**
 * Sections: a lock, one command under it and its release, in one request.
 *
 * The lock has no holder when a section is over, so that there is no lease, and nothing to lose.
 *
 * @module
 */

import { Lane } from "../calls/attempt.js";
import { Tries } from "../calls/batch.js";
import { Commands, raw } from "../calls/commands.js";
import { allowed } from "../calls/forbidden.js";
import { Pending, type Convert } from "../calls/later.js";
import { Script } from "../calls/script.js";
import { NotAcquiredError, OutcomeUnknownError, ReplyError, translate } from "../errors.js";
import type { Reply, Word, Words } from "../wire/connection.js";
import type { Numbers } from "../wire/requests.js";
import { abortable, Failures, timeLeft, within } from "../wire/time.js";
import { placeWords, type PlaceOptions } from "./hold.js";
import { longestMs, timeoutWords, type Store } from "./wait.js";

/** Options of sections; those of the lock are as in `LockOptions`. Times are milliseconds. */
export interface SectionOptions extends PlaceOptions {
  /** Longest wait for the lock. Absent: for ever. */
  timeoutMs?: number | undefined;
  /** Gives up waiting. */
  signal?: AbortSignal | undefined;
}

/**
 * Commands on keys of the hash slot of a lock; see `section` of the client. Each waits in turn for
 * the lock, and rejects with a `NotAcquiredError` if that was not free in time. It has a request
 * number: if the connection breaks it is sent again, and takes effect once.
 */
export class Section extends Commands<"direct"> {
  readonly name: string;
  readonly #store: Store;
  readonly #options: SectionOptions;
  readonly #place: Words;
  #token: number | undefined;

  /** @internal */
  constructor(store: Store, name: string, options: SectionOptions) {
    super();
    this.#store = store;
    this.name = name;
    this.#options = options;
    this.#place = [...placeWords(options), ...(options.detect ? ["DETECT"] : [])];
  }

  /** The fencing token of the last section, for other systems that check it. */
  get token(): number | undefined {
    return this.#token;
  }

  /** Carries any command out. */
  command(...words: Word[]): Pending<Reply> {
    return this.reading(words, raw);
  }

  /** @internal */
  protected override reading<T>(words: readonly Word[], convert: Convert<T>): Pending<T> {
    const sent = allowed(words, "within");
    const reply = this.#store.requests.borrow((numbers) => this.#carryOut(sent, numbers));
    return Pending.of(reply.then(convert));
  }

  /** @internal */
  protected override writing<T>(words: readonly Word[], convert: Convert<T>): Pending<T> {
    return this.reading(words, convert);
  }

  async #carryOut(words: Words, numbers: Numbers): Promise<Reply> {
    const { timeoutMs, signal } = this.#options;
    const begun = performance.now();
    const failures = new Failures();
    const tries = new Tries(numbers);
    for (;;) {
      const asked = performance.now();
      const waitMs = timeLeft(timeoutMs, begun);
      const lane = tries.on(new Lane(this.#store.pool, signal, true));
      // In a transaction, an absent value differs from a wait in vain.
      const script = new Script(["MULTI"], ["EXEC"], tries.request);
      script.defer(["LOCK.SECTION", this.name, ...this.#place, ...timeoutWords(waitMs)], raw);
      script.defer(words, raw);
      const flight = script.take();
      const late = () => {
        lane.abandon();
        return new OutcomeUnknownError("no answer to a wait");
      };
      let row: Reply;
      try {
        const replies = await abortable(signal, () =>
          within(lane.exchange(flight), longestMs(waitMs), late),
        );
        row = script.digest(flight, replies);
        await lane.close();
      } catch (error) {
        await tries.failed(lane, error, signal);
        await failures.pause(error, asked, signal).catch((last: unknown) => {
          throw tries.lastOf(last);
        });
        continue;
      }
      return this.#replyOf(row, tries.sent);
    }
  }

  #replyOf(row: Reply, again: boolean): Reply {
    if (!Array.isArray(row)) {
      const text = `the lock ${this.name} was not free in time`;
      // The first request may still wait at the server.
      throw again ? new OutcomeUnknownError(text) : new NotAcquiredError(text);
    }
    const [token, reply = null] = row;
    this.#token = Number(token);
    if (reply instanceof ReplyError) throw translate(reply);
    return reply;
  }
}
