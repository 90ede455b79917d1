/**
 * Locks: leases that are renewed, fencing tokens, and the effects of a loss.
 *
 * @module
 */

import { ClosedError, LockLostError, NotAcquiredError, OrderError } from "../errors.js";
import type { Reply } from "../wire/connection.js";
import type { Numbers, Request } from "../wire/requests.js";
import { abortable, attempts, Failures, remains, sleep, timeLeft, within } from "../wire/time.js";
import { Hold, type LockOptions } from "./hold.js";
import { askAndWait, isWorthRepeating, numberOf, type Store } from "./wait.js";

/** Longest time to release a grant that is of no use, in milliseconds, for each step. */
const DISCARD_MS = 1_000;
/** The part of a lease that one try to renew it may take: so that there is time for others. */
export const TRIES = 6;
/** Shortest limit of one try, in milliseconds, whatever the lease: to connect takes time. */
const TRY_MS_MIN = 50;

/** Options of one wait for a lock. */
export interface WaitOptions {
  /** Longest wait in milliseconds; 0 does not wait. */
  timeoutMs?: number | undefined;
  /** Gives up waiting. */
  signal?: AbortSignal | undefined;
}

/**
 * A lock; see `lock` of the client. While it is held its lease is renewed in the background.
 *
 *     await using lock = await db.lock("report").acquire();
 */
export class Lock extends Hold implements AsyncDisposable {
  /** @internal */
  readonly _store: Store;
  readonly #options: LockOptions;
  #renewing: AbortController | undefined;
  #ended = new AbortController();
  /** Of the next loss: it stays the same until then, whatever is acquired meanwhile. */
  #loss = new AbortController();
  #waiting: { giveUp: AbortController; ended: Promise<void> } | undefined;

  /** @internal */
  constructor(store: Store, name: string, options: LockOptions) {
    super(name, options);
    this._store = store;
    this.#options = options;
  }

  /**
   * Aborted when the lock is lost, with a `LockLostError`: for the work under the lock. It may be
   * taken before the lock is acquired.
   */
  get signal(): AbortSignal {
    return this.#loss.signal;
  }

  /**
   * Waits in turn for the lock, and resolves to it. Rejects with a `NotAcquiredError` if it was not
   * free in time. The request has a number: if the connection breaks it is repeated, and granted
   * once.
   */
  async acquire(options: WaitOptions = {}): Promise<this> {
    if (this.#renewing) throw new OrderError("it is held already: a lock is held once");
    const stop = (this.#renewing = new AbortController());
    const giveUp = new AbortController();
    const { timeoutMs = this.#options.timeoutMs, signal = this.#options.signal } = options;
    const follow = () => giveUp.abort(signal?.reason);
    if (signal?.aborted) follow();
    signal?.addEventListener("abort", follow);
    let end: () => void = () => undefined;
    this.#waiting = { giveUp, ended: new Promise<void>((resolve) => (end = resolve)) };
    try {
      if (!(await this._ask(timeoutMs, giveUp.signal))) {
        throw new NotAcquiredError(`the lock ${this.name} was not free in time`);
      }
      if (giveUp.signal.aborted) {
        await remains(this.#discard(this._drop()));
        throw giveUp.signal.reason;
      }
    } catch (error) {
      this.#renewing = undefined;
      throw error;
    } finally {
      this.#waiting = undefined;
      end();
      signal?.removeEventListener("abort", follow);
    }
    this.#ended = new AbortController();
    void this.#keep(this.token, stop.signal, this.#ended.signal, this.#loss);
    return this;
  }

  /**
   * Releases the lock; resolves to whether it was still held. If it is being waited for, ends the
   * wait: `acquire` rejects with a `ClosedError`.
   */
  async release(): Promise<boolean> {
    if (this.#waiting) {
      const { giveUp, ended } = this.#waiting;
      giveUp.abort(new ClosedError(`the lock ${this.name} was released while it was waited for`));
      await ended;
      return false;
    }
    this.stopRenewing();
    this.#renewing = undefined;
    this.#ended.abort();
    if (this.#loss.signal.aborted) this.#loss = new AbortController();
    return this._giveBack();
  }

  /** Ends the renewals: the lock is lost when its lease ends, as if the process were stopped. */
  stopRenewing(): void {
    this.#renewing?.abort();
  }

  /**
   * Acquires the lock, calls a function, and releases the lock. Rejects with a `LockLostError` if
   * it was lost before the function was done.
   */
  async using<T>(work: (lock: this) => Promise<T> | T): Promise<T> {
    await this.acquire();
    let value: T;
    let lost: boolean;
    try {
      value = await work(this);
    } finally {
      lost = this.lost;
      await this.release();
    }
    if (lost) throw this._lossOf("before the work under it was done");
    return value;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** @internal Waits in turn for the lock; resolves to whether it was granted. */
  async _ask(timeoutMs: number | undefined, signal: AbortSignal | undefined): Promise<boolean> {
    let granted = false;
    try {
      granted = await this._store.requests.borrow((numbers) =>
        this.#askUnder(numbers, timeoutMs, signal),
      );
      return granted;
    } finally {
      // A grant that could not be confirmed is of no use.
      if (!granted) await remains(this.#discard(this._drop()));
    }
  }

  async #askUnder(
    numbers: Numbers,
    timeoutMs: number | undefined,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const begun = performance.now();
    const failures = new Failures();
    let request = numbers.next();
    let again = false;
    let undone = false;
    const lingers = (work: Promise<unknown>) => {
      undone = true;
      numbers.keepFor(work);
    };
    try {
      for (;;) {
        const asked = performance.now();
        const waitMs = timeLeft(timeoutMs, begun);
        try {
          const commands = [["CLIENT", "REQUEST", ...request], this._words(waitMs)];
          const undo = (answer: Reply) => this.#undo(request, answer);
          const patience = { waitMs, signal, undo, lingers };
          const answer = await askAndWait(this._store.pool, commands, patience);
          const token = numberOf(answer);
          if (token === null) return false;
          this._take(token, asked);
          if (!this._isOld(asked, again)) return true;
          if (await abortable(signal, () => this._renew(again))) return true;
        } catch (error) {
          if (!isWorthRepeating(error)) throw error;
          again = true;
          await failures.pause(error, asked, signal);
          continue;
        }
        request = numbers.next();
        again = false;
      }
    } catch (error) {
      // A request whose connection broke may have been granted without an answer.
      if (again && !undone) {
        const work = this.#undo(request, null);
        numbers.keepFor(work);
        await remains(work);
      }
      throw error;
    }
  }

  /**
   * Takes back what was granted to a request that was given up. It may have been granted although
   * its answer is nil or lost: then the same request again has the grant.
   */
  async #undo(request: Request, answer: Reply): Promise<void> {
    let token = numberOf(answer);
    if (token === null) {
      const commands = [["CLIENT", "REQUEST", ...request], this._words(1)];
      const patience = { waitMs: 1, graceMs: DISCARD_MS };
      token = numberOf(await askAndWait(this._store.pool, commands, patience));
    }
    await this.#discard(token ?? undefined);
  }

  /** Releases a token if a server can be reached soon; otherwise it ends with its lease. */
  async #discard(token: number | undefined): Promise<void> {
    if (token === undefined) return;
    const words = ["LOCK.RELEASE", this.name, token];
    for (const fresh of [false, true]) {
      try {
        await this._store.promptly(words, { limitMs: DISCARD_MS, fresh });
        return;
      } catch (error) {
        if (!isWorthRepeating(error)) return;
      }
    }
  }

  /**
   * @internal Restarts the lease; resolves to whether the lock was held. Rejects if there is no
   * answer in time for further tries, of which each is made on a `fresh` connection.
   */
  async _renew(fresh: boolean): Promise<boolean> {
    const asked = performance.now();
    const token = this.token;
    const held = await this._store.promptly(
      ["LOCK.RENEW", this.name, token, "LEASE", this._leaseMs],
      { limitMs: Math.max(TRY_MS_MIN, this._leaseMs / TRIES), fresh },
    );
    // It may have been released, and acquired anew, in the meantime.
    if (!this._has(token)) return false;
    if (Number(held) === 1) this._take(token, asked);
    else this._lose();
    return Number(held) === 1;
  }

  /** @internal Gives the grant back; if no server can be reached it ends with its lease. */
  async _giveBack(): Promise<boolean> {
    const token = this._drop();
    if (token === undefined) return false;
    return this._store.requests.borrow(async (numbers) => {
      // Under a number, a release whose reply was lost has the same reply when it is repeated.
      const request = numbers.next();
      for await (const _ of attempts({})) {
        try {
          const words = ["LOCK.RELEASE", this.name, token];
          return Number(await this._store.promptly(words, { request })) === 1;
        } catch (error) {
          if (error instanceof ClosedError) return false;
          if (!isWorthRepeating(error)) throw error;
        }
      }
      return false;
    });
  }

  /** @internal */
  _lossOf(when: string): LockLostError {
    return new LockLostError(`the lock ${this.name} was lost ${when}`);
  }

  async #keep(
    token: number,
    stop: AbortSignal,
    ended: AbortSignal,
    loss: AbortController,
  ): Promise<void> {
    const isMine = () => this._has(token) && this.held;
    try {
      for (let failed = false; isMine() && !stop.aborted;) {
        await sleep(this._pauseMs(failed), stop);
        failed = !(await this.#renewInTime(failed));
      }
    } catch {
      // The renewals were ended.
    }
    try {
      // Without renewals it is lost at the end of its lease.
      while (isMine()) await sleep(this.leftMs, ended);
      if (this._has(token)) loss.abort(this._lossOf("because its lease has ended"));
    } catch {
      // It was released.
    }
  }

  /** Renews, unless that takes longer than the lease. */
  async #renewInTime(fresh: boolean): Promise<boolean> {
    if (!this.held) return false;
    const late = () => this._lossOf("while it was renewed");
    return within(this._renew(fresh), this.leftMs, late).catch(() => false);
  }
}
