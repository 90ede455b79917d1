/**
 * Commands under the fencing token of a lock.
 *
 * @module
 */

import type { TokenHolder } from "../calls/batch.js";
import { Commands, raw } from "../calls/commands.js";
import { allowed } from "../calls/forbidden.js";
import { Pending, type Convert } from "../calls/later.js";
import type { Reply, Word } from "../wire/connection.js";

/** Commands on keys of one hash slot that are refused if a later holder of the lock has written. */
export class Fenced extends Commands<"direct"> {
  readonly #lock: TokenHolder;
  readonly #send: (words: readonly Word[]) => Promise<Reply>;

  /** @internal */
  constructor(lock: TokenHolder, send: (words: readonly Word[]) => Promise<Reply>) {
    super();
    this.#lock = lock;
    this.#send = send;
  }

  /** Carries any command out. */
  command(...words: Word[]): Pending<Reply> {
    return this.reading(words, raw);
  }

  /** @internal */
  protected override reading<T>(words: readonly Word[], convert: Convert<T>): Pending<T> {
    const { name, token } = this.#lock;
    const sent = ["FENCE", name, token, ...allowed(words, "within")];
    return Pending.of(this.#send(sent).then(convert));
  }

  /** @internal */
  protected override writing<T>(words: readonly Word[], convert: Convert<T>): Pending<T> {
    return this.reading(words, convert);
  }
}
