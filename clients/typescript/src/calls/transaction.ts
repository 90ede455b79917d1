/**
 * Transactions, as the function of a program sees them.
 *
 * @module
 */

import type { Reply, Word } from "../wire/connection.js";
import type { Attempt } from "./attempt.js";
import { Commands, raw, ReadCommands } from "./commands.js";
import type { Convert, Deferred, Pending } from "./later.js";

/** A lock that a transaction may require. */
export interface Requirable {
  readonly name: string;
  /** The token by which the server knows that the lock is held. */
  readonly grant: number;
}

/** Reads of an attempt, each sent at once. */
abstract class Reads extends ReadCommands<"direct"> {
  readonly #attempt: Attempt;
  readonly #announced: boolean;

  /** @internal */
  constructor(attempt: Attempt, announced: boolean) {
    super();
    this.#attempt = attempt;
    this.#announced = announced;
  }

  /** Sends any command that reads, and answers its reply. */
  ask(...words: Word[]): Pending<Reply> {
    return this.reading(words, raw);
  }

  /** @internal */
  protected override reading<T>(words: readonly Word[], convert: Convert<T>): Pending<T> {
    return this.#attempt.ask(words, convert, this.#announced);
  }
}

/** Reads at one instant; see `snapshot` of the client. */
export class Snapshot extends Reads {
  /** @internal */
  constructor(attempt: Attempt) {
    super(attempt, false);
  }
}

/** Reads of a transaction that announce a write; see {@link Transaction.forUpdate}. */
export class Announced extends Reads {
  /** @internal */
  constructor(attempt: Attempt) {
    super(attempt, true);
  }
}

/**
 * A transaction. Reads answer at once and see its own writes. Writes answer a {@link Deferred}, and
 * travel with the next read or with the commit.
 */
export class Transaction extends Commands<"transaction"> {
  readonly #attempt: Attempt;

  /** @internal */
  constructor(attempt: Attempt) {
    super();
    this.#attempt = attempt;
  }

  /**
   * Sends any command now, and answers its reply. A command that writes has none before the commit,
   * unless the transaction has the option `now`: see {@link Transaction.write}.
   */
  ask(...words: Word[]): Pending<Reply> {
    return this.#attempt.ask(words, raw);
  }

  /** Adds any command; its reply is known after the commit. */
  write(...words: Word[]): Deferred<Reply> {
    return this.#attempt.defer(words, raw);
  }

  /**
   * Reads that announce a write of what they read: `tx.forUpdate.get("n")` waits for other
   * transactions that have announced a write of the key, so that none of them is run again.
   */
  get forUpdate(): Announced {
    return new Announced(this.#attempt);
  }

  /** Sends the writes so far, so that the server can already work on them. */
  async flush(): Promise<void> {
    await this.#attempt.ask(["PING"], raw);
  }

  /**
   * Lets nothing take effect unless a lock is held, and stays held until the commit. Rejects with a
   * `LockLostError` if it is not.
   */
  async require(lock: Requirable): Promise<void> {
    await this.#attempt.require(lock.name, lock.grant);
  }

  /** @internal */
  protected override reading<T>(words: readonly Word[], convert: Convert<T>): Pending<T> {
    return this.#attempt.ask(words, convert);
  }

  /** @internal */
  protected override writing<T>(words: readonly Word[], convert: Convert<T>): Deferred<T> {
    return this.#attempt.defer(words, convert);
  }
}
