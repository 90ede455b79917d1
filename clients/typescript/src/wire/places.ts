/**
 * Places for a number of users, in the order of their arrival.
 *
 * @module
 */

import { abortable } from "./time.js";

/** A number of places. Who finds none free waits in turn. */
export class Places {
  #free: number;
  readonly #line: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  /** Whether no place is free. */
  get taken(): boolean {
    return this.#free <= 0;
  }

  /** Number of users that wait. */
  get waiting(): number {
    return this.#line.length;
  }

  /** Takes a place, in turn. A wait ends with the signal, or as `limited` rejects. */
  async take(
    signal?: AbortSignal,
    limited = (turn: Promise<void>): Promise<void> => turn,
  ): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    let go: () => void = () => undefined;
    const turn = new Promise<void>((resolve) => (go = resolve));
    this.#line.push(go);
    try {
      await abortable(signal, () => limited(turn));
    } catch (error) {
      const place = this.#line.indexOf(go);
      // The turn may have come at the moment at which the caller gave up.
      if (place < 0) this.give();
      else this.#line.splice(place, 1);
      throw error;
    }
  }

  /** Gives a place to the next in line. */
  give(): void {
    const go = this.#line.shift();
    if (go) go();
    else this.#free += 1;
  }

  /** Ends all waits, as places for more users than there are: for a place that is closed. */
  admitAll(): void {
    this.#free -= this.#line.length;
    for (const go of this.#line.splice(0)) go();
  }
}
