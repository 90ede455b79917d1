/**
 * State of a lock at its holder, without input or output.
 *
 * A client cannot know for certain that it still holds a lock at the very moment at which it
 * writes. There are therefore two ways to write under a lock, and both let the store judge: a
 * command with the fencing token, which is refused if a later holder has written there; and
 * `tx.require(lock)` in a transaction.
 *
 * @module
 */

import { LockLostError, NotAcquiredError, OrderError } from "../errors.js";
import type { Word, Words } from "../wire/connection.js";
import { defaultOwner, timeoutWords } from "./wait.js";

/** Options of a lock. Times are milliseconds. */
export interface LockOptions {
  /** Time for which it stays held if the holder is lost. The default is 30,000. */
  leaseMs?: number | undefined;
  /** Longest wait for the lock. Absent: for ever; 0: no wait. */
  timeoutMs?: number | undefined;
  /** Whether it admits other holders that share it too. */
  shared?: boolean | undefined;
  /** Number of holders in all. */
  limit?: number | undefined;
  /** Name in `LOCK.HOLDERS`. The default is one for each process. */
  owner?: string | undefined;
  /** Whether to reject with a `DeadlockError` instead of waiting in a cycle. Needs an `owner`. */
  detect?: boolean | undefined;
  /**
   * Whether the server that the client is connected to keeps the lock, and passes it from client to
   * client without a write. It is held alone; guard what is written by `db.fenced`.
   */
  near?: boolean | undefined;
  /**
   * Whether a release passes the lock on before it is on disk, to a waiter with the same option. It
   * is held alone; guard what is written by `db.fenced`.
   */
  next?: boolean | undefined;
  /** Gives up waiting. */
  signal?: AbortSignal | undefined;
}

/** Options of a place in the queue of a lock. */
export type PlaceOptions = Pick<LockOptions, "shared" | "limit" | "owner" | "detect">;

/** The words of a place in the queue. Throws if they contradict each other. */
export function placeWords({ shared = false, limit, owner, detect = false }: PlaceOptions): Words {
  if (shared && limit !== undefined) throw new TypeError("a lock is shared or has a limit");
  if (detect && owner === undefined) {
    throw new TypeError("detect needs an owner: a name of its own for each that holds and waits");
  }
  const share = shared ? ["SHARED"] : limit !== undefined ? ["LIMIT", limit] : [];
  return ["OWNER", owner ?? defaultOwner(), ...share];
}

const LEASE_MS = 30_000;
/** The part of a lease that its holder relies on: clocks may differ in speed by a tenth. */
const TRUSTED = 0.9;

/** State of one lock at its holder. */
export class Hold {
  readonly name: string;
  /** @internal */
  readonly _leaseMs: number;
  /** @internal */
  readonly _place: Words;
  readonly #detect: boolean;
  /** Words for a lock of whose holders not all servers know. */
  readonly #manner: Words;
  #token: number | undefined;
  #until = 0;
  #lost = false;

  constructor(name: string, options: LockOptions) {
    const { leaseMs = LEASE_MS, shared, limit, detect = false, near, next } = options;
    if (!(leaseMs > 0)) throw new RangeError("a lease is longer than nothing");
    if (near && next) throw new TypeError("a lock has `near` or `next`, not both");
    if ((near || next) && (shared || limit !== undefined || (near && detect))) {
      throw new TypeError("with `near` or `next` a lock is held alone; `near` detects no cycles");
    }
    this.name = name;
    this._leaseMs = Math.max(1, Math.round(leaseMs));
    this._place = placeWords(options);
    this.#detect = detect;
    this.#manner = near ? ["NEAR"] : next ? ["NEXT"] : [];
  }

  /** The fencing token of the last grant. Throws a `NotAcquiredError` if there was none. */
  get token(): number {
    if (this.#token === undefined)
      throw new NotAcquiredError(`the lock ${this.name} was not acquired`);
    return this.#token;
  }

  /**
   * The token by which the server knows that the lock is held. Throws an `OrderError` for a lock
   * with `near` or `next`, whose holder the server does not tell.
   */
  get grant(): number {
    if (this.#manner.length > 0) {
      throw new OrderError("with `near` or `next` a lock is no condition: use `db.fenced`");
    }
    return this.token;
  }

  /** Milliseconds for which the holder may rely on the lock, by the monotonic clock. */
  get leftMs(): number {
    if (this.#token === undefined || this.#lost) return 0;
    return Math.max(0, this.#until - performance.now());
  }

  /** Whether the lock is held and may be relied on. */
  get held(): boolean {
    return this.leftMs > 0;
  }

  /** Whether the lock was held and must not be relied on any more. */
  get lost(): boolean {
    return this.#token !== undefined && !this.held;
  }

  /** Throws a `LockLostError` unless the lock may be relied on. */
  require(): void {
    if (!this.held) throw new LockLostError(`the lock ${this.name} is no longer held`);
  }

  /** @internal The command that acquires. */
  _words(waitMs: number | undefined): Words {
    if (waitMs === 0 && this.#manner.length === 0) {
      return ["LOCK.TRY", this.name, "LEASE", this._leaseMs, ...this._place];
    }
    const words: Word[] = ["LOCK.ACQUIRE", this.name, "LEASE", this._leaseMs, ...this.#manner];
    words.push(...timeoutWords(waitMs));
    if (this.#detect) words.push("DETECT");
    return [...words, ...this._place];
  }

  /**
   * @internal Whether a grant may be older than known, so that it must be renewed before use: it
   * began some time after the request; and that of a repeated request may have been revoked,
   * because the connection of the first one was gone.
   */
  _isOld(asked: number, again: boolean): boolean {
    return again || performance.now() - asked > this._leaseMs * (1 - TRUSTED);
  }

  /** @internal Records a grant, or a new beginning of the lease, by a request of that time. */
  _take(token: number, asked: number): void {
    this.#token = token;
    this.#lost = false;
    this.#until = asked + this._leaseMs * TRUSTED;
  }

  /** @internal */
  _lose(): void {
    this.#lost = true;
  }

  /** @internal Whether the current grant is the one with this token. */
  _has(token: number): boolean {
    return this.#token === token;
  }

  /** @internal Ends the hold; returns its token, if there was one. */
  _drop(): number | undefined {
    const token = this.#token;
    this.#token = undefined;
    return token;
  }

  /** @internal Milliseconds until the next renewal, given whether the last one has failed. */
  _pauseMs(failed: boolean): number {
    const third = this._leaseMs / 3;
    return Math.min(failed ? third / 10 : third, this.leftMs);
  }
}
