/**
 * Replies that arrive later, and must not be mistaken for the reply.
 *
 * JavaScript would write any object into the name of a key as `[object Object]`, and waits for any
 * object as if it were a promise. Those uses therefore throw an error that names the remedy.
 *
 * @module
 */

import { inspect } from "node:util";
import { ClosedError, OrderError, RepeatedError, translate, ReplyError } from "../errors.js";
import type { Reply, Word, Words } from "../wire/connection.js";

/** Converts a reply of the server to the value of a method. */
export type Convert<T> = (reply: Reply) => T;

function misused(advice: string): never {
  throw new OrderError(`this is not the reply, which comes later: ${advice}`);
}

const DEFERRED = "read `.value` after the commit; to return it, put it into an object or an array";

/**
 * The reply of a write in a transaction or of a command in a batch: known once that has taken
 * effect.
 *
 * It is not the reply itself. Every use except reading `value` throws an `OrderError`: in a text,
 * in arithmetic, as a word of a command, in JSON, and with `await`.
 */
export class Deferred<T> {
  readonly #convert: Convert<T>;
  #state: "open" | "known" | "lost" = "open";
  #reply: Reply = null;

  constructor(convert: Convert<T>) {
    this.#convert = convert;
  }

  /**
   * The reply. Throws it if it is an error; a `ClosedError` while the transaction is open, or if it
   * had no effect; a `RepeatedError` if it took effect, and its replies are lost.
   */
  get value(): T {
    if (this.#state === "lost") {
      throw new RepeatedError("it took effect, but the connection broke before its replies came");
    }
    if (this.#state === "open")
      throw new ClosedError("it is answered when its transaction commits");
    if (this.#reply instanceof ReplyError) throw translate(this.#reply);
    return this.#convert(this.#reply);
  }

  /** @internal */
  _settle(reply: Reply): void {
    this.#state = "known";
    this.#reply = reply;
  }

  /** @internal */
  _lose(): void {
    this.#state = "lost";
  }

  /** Throws: there is nothing to wait for before the commit. */
  then(): never {
    return misused(DEFERRED);
  }

  /** Throws. */
  toString(): never {
    return misused(DEFERRED);
  }

  /** Throws. */
  valueOf(): never {
    return misused(DEFERRED);
  }

  /** Throws. */
  toJSON(): never {
    return misused(DEFERRED);
  }

  /** Throws. */
  [Symbol.toPrimitive](): never {
    return misused(DEFERRED);
  }

  /** Throws. */
  [Symbol.iterator](): never {
    return misused(DEFERRED);
  }

  [inspect.custom](): string {
    return this.#state === "known"
      ? `Deferred(${inspect(this.#reply)})`
      : `Deferred(${this.#state})`;
  }
}

const PENDING = "`await` it first";

/**
 * A promise of a reply. Any use but waiting for it throws an `OrderError`.
 *
 * A rejection that the program does not look at does not end the process: a transaction that failed
 * says so at its commit, and a dispatch at its end.
 */
export class Pending<T> extends Promise<T> {
  #seen = false;

  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  /** A pending reply with the outcome of a promise. */
  static of<T>(promise: Promise<T>): Pending<T> {
    const pending = new Pending<T>((resolve, reject) => promise.then(resolve, reject));
    pending._peek(undefined, () => undefined);
    return pending;
  }

  /** @internal Waits for it in a way that does not count as the program's. */
  _peek(fulfilled: ((value: T) => void) | undefined, rejected: (error: unknown) => void): void {
    super.then(fulfilled, rejected);
  }

  /** @internal Whether the program waits, or has waited, for it. */
  get _seen(): boolean {
    return this.#seen;
  }

  override then<A = T, B = never>(
    fulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#seen = true;
    return super.then(fulfilled, rejected);
  }

  /** Throws. */
  override toString(): never {
    return misused(PENDING);
  }

  /** Throws. */
  override valueOf(): never {
    return misused(PENDING);
  }

  /** Throws. */
  toJSON(): never {
    return misused(PENDING);
  }

  /** Throws. */
  [Symbol.toPrimitive](): never {
    return misused(PENDING);
  }
}

/** The words of a command, checked: a reply that has not arrived is not a word. */
export function checked(words: readonly unknown[]): Words {
  if (words.length === 0) throw new TypeError("a command has a name at least");
  for (const word of words) {
    if (isWord(word)) continue;
    if (word instanceof Deferred) misused(DEFERRED);
    if (word instanceof Promise) misused(PENDING);
    throw new TypeError(`a word of a command is text, a number or bytes, not ${inspect(word)}`);
  }
  return words as Words;
}

function isWord(word: unknown): word is Word {
  const type = typeof word;
  return type === "string" || type === "number" || type === "bigint" || word instanceof Uint8Array;
}
