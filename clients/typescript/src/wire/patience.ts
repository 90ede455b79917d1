/**
 * How long a connection may be silent while replies are due.
 *
 * @module
 */

import { argument, type Words } from "./connection.js";
import { TIMER_MS_MAX } from "./time.js";

/** Commands whose reply may come after any time. */
const WAITING = new Set(
  (
    "BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN WAIT WAITAOF XREAD XREADGROUP " +
    "LOCK.ACQUIRE LOCK.SECTION LOCK.WANTED ELECTION.CAMPAIGN ELECTION.OBSERVE BARRIER.WAIT"
  ).split(" "),
);

/** Whether one of some commands may wait at the server. */
export function mayWait(commands: readonly Words[]): boolean {
  return commands.some(([name = ""]) => WAITING.has(String(argument(name)).toUpperCase()));
}

/** What was sent and is not answered. */
interface Due {
  readonly waits: boolean;
  readonly reject: (error: Error) => void;
}

/**
 * Watches the replies of a connection, which come in the order of what was sent. If none comes for
 * too long, rejects all that are due; but a command that waits, and those behind it, have time.
 */
export class Patience {
  readonly #limitMs: number;
  readonly #late: () => void;
  #due: Due[] = [];
  /** Time of the last reply, or at which the first request after it was sent. */
  #last = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `late` is called when a reply took too long. */
  constructor(limitMs: number, late: () => void) {
    this.#limitMs = limitMs;
    this.#late = late;
  }

  /** Sends some commands by a function, and resolves to its replies if they come in time. */
  replies<T>(commands: readonly Words[], send: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#due.length === 0) this.#last = performance.now();
      this.#due.push({ waits: mayWait(commands), reject });
      this.#timer ??= this.#alarm(this.#limitMs);
      send().then((replies) => {
        this.#due.shift();
        this.#last = performance.now();
        resolve(replies);
      }, reject);
    });
  }

  /** Ends the watch. */
  end(): void {
    clearTimeout(this.#timer);
    this.#due = [];
  }

  /** A timer that stays while replies come, so that a request costs none of its own. */
  #alarm(ms: number): NodeJS.Timeout {
    // Replies that came while the program was busy are read before the check.
    return setTimeout(() => setImmediate(() => this.#check()), Math.min(ms, TIMER_MS_MAX)).unref();
  }

  #check(): void {
    this.#timer = undefined;
    const [first] = this.#due;
    if (first === undefined) return;
    const restMs = this.#limitMs - (performance.now() - this.#last);
    if (first.waits || restMs > 0) {
      this.#timer = this.#alarm(first.waits ? this.#limitMs : restMs);
      return;
    }
    const error = new Error(`no reply came for ${this.#limitMs} ms`);
    const due = this.#due;
    this.#late();
    for (const { reject } of due) reject(error);
  }
}
