/**
 * Request numbers, by which a repeated request takes effect once.
 *
 * @module
 */

import { randomUUID } from "node:crypto";

/** Name and number of a request. */
export type Request = readonly [name: string, number: number];

/** A name with a count, for one open request at a time. */
export class Numbers {
  readonly #name: string;
  #number = 0;

  constructor(name: string) {
    this.#name = name;
  }

  /** The next number of the name. */
  next(): Request {
    this.#number += 1;
    return [this.#name, this.#number];
  }
}

/** The numbers of a transaction with a text of its own: the same in every process. */
export function onceNumbers(text: string): Numbers {
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

  /** Calls a function with numbers that are its own until it settles. */
  async borrow<T>(use: (numbers: Numbers) => Promise<T>): Promise<T> {
    const numbers = this.#free.pop() ?? new Numbers(`${this.#prefix}-${++this.#made}`);
    try {
      return await use(numbers);
    } finally {
      this.#free.push(numbers);
    }
  }
}
