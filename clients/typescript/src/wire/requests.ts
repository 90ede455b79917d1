/**
 * Request numbers, by which a repeated request takes effect once.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import { OrderError } from "../errors.js";

/** Name and number of a request. */
export type Request = readonly [name: string, number: number];

/** A name with a count, for one open request at a time. */
export class Numbers {
  readonly #name: string;
  readonly #left: Promise<unknown>[] = [];
  #number = 0;

  constructor(name: string) {
    this.#name = name;
  }

  /** The next number of the name. */
  next(): Request {
    this.#number += 1;
    return [this.#name, this.#number];
  }

  /** Keeps the name from others until some work is done, although its request may end before. */
  keepFor(work: Promise<unknown>): void {
    this.#left.push(work);
  }

  /** @internal Ends the request. Calls a function as soon as no other work needs the name. */
  _end(free: () => void): void {
    const left = this.#left.splice(0);
    if (left.length === 0) free();
    else void Promise.allSettled(left).then(free);
  }
}

const ONCE_BYTES_MAX = 59;

/**
 * The numbers of a transaction with a text of its own: the same in every process. Throws an
 * `OrderError` unless the text can be the name of a request: the server would refuse it, and carry
 * the commands behind it out one by one.
 */
function onceNumbers(text: unknown): Numbers {
  if (typeof text !== "string") throw new OrderError("`once` is a text");
  const bytes = Buffer.byteLength(text);
  if (bytes < 1 || bytes > ONCE_BYTES_MAX || /[\s\u0000-\u001f\u007f-\u009f]/u.test(text)) {
    const shape = `1 to ${ONCE_BYTES_MAX} bytes without spaces and control characters`;
    throw new OrderError(`\`once\` is a text of ${shape}, not ${JSON.stringify(text)}`);
  }
  return new Numbers(`once:${text}`);
}

/**
 * Names that are unique for ever. Each open request has one of its own: the server remembers the
 * outcomes of the last numbers of a name, and requests that shared one could make it forget an
 * outcome that another of them still has to ask for.
 */
export class Requests {
  readonly #prefix = `js-${randomUUID()}`;
  readonly #free: Numbers[] = [];
  #made = 0;

  /** Calls a function with numbers that are its own until it settles, or with those of `once`. */
  async borrow<T>(use: (numbers: Numbers) => Promise<T>, once?: string): Promise<T> {
    if (once !== undefined) return use(onceNumbers(once));
    const numbers = this.#free.pop() ?? new Numbers(`${this.#prefix}-${++this.#made}`);
    try {
      return await use(numbers);
    } finally {
      numbers._end(() => this.#free.push(numbers));
    }
  }
}
