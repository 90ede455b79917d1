/**
 * Locks: leases that are renewed, fencing tokens, and the effects of a loss.
 *
 * @module
 */

import { LockLostError, NotAcquiredError, OrderError } from "../errors.js";
import type { Reply } from "../wire/connection.js";
import { attempts, Failures, sleep, timeLeft, within } from "../wire/time.js";
import { Hold, type LockOptions } from "./hold.js";
import { askAndWait, isWorthRepeating, numberOf, type Store } from "./wait.js";

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
  #loss = new AbortController();

  /** @internal */
  constructor(store: Store, name: string, options: LockOptions) {
    super(name, options);
    this._store = store;
    this.#options = options;
  }

  /** Aborted when the lock is lost, with a `LockLostError`: for the work under the lock. */
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
    const { timeoutMs = this.#options.timeoutMs, signal = this.#options.signal } = options;
    try {
      if (!(await this._ask(timeoutMs, signal))) {
        throw new NotAcquiredError(`the lock ${this.name} was not free in time`);
      }
    } catch (error) {
      this.#renewing = undefined;
      throw error;
    }
    this.#loss = new AbortController();
    this.#ended = new AbortController();
    void this.#keep(this.token, stop.signal, this.#ended.signal, this.#loss);
    return this;
  }

  /** Releases the lock; resolves to whether it was still held. */
  async release(): Promise<boolean> {
    this.stopRenewing();
    this.#renewing = undefined;
    this.#ended.abort();
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
    return this._store.requests.borrow(async (numbers) => {
      const begun = performance.now();
      const failures = new Failures();
      let request = numbers.next();
      let again = false;
      for (;;) {
        const asked = performance.now();
        const waitMs = timeLeft(timeoutMs, begun);
        let token: number | null;
        try {
          const commands = [["CLIENT", "REQUEST", ...request], this._words(waitMs)];
          const undo = (granted: Reply) =>
            this._store.promptly(["LOCK.RELEASE", this.name, Number(granted)]);
          token = numberOf(await askAndWait(this._store.pool, commands, { waitMs, signal, undo }));
        } catch (error) {
          if (!isWorthRepeating(error)) throw error;
          again = true;
          await failures.pause(error, asked, signal);
          continue;
        }
        if (token === null) return false;
        const old = this._isOld(asked, again);
        this._take(token, asked);
        if (!old || (await this._renew())) return true;
        request = numbers.next();
        again = false;
      }
    });
  }

  /** @internal Restarts the lease; resolves to whether the lock was held. */
  async _renew(): Promise<boolean> {
    const asked = performance.now();
    const token = this.grant;
    const held = await this._store.promptly([
      "LOCK.RENEW",
      this.name,
      token,
      "LEASE",
      this._leaseMs,
    ]);
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
    for await (const _ of attempts({})) {
      try {
        return Number(await this._store.promptly(["LOCK.RELEASE", this.name, token])) === 1;
      } catch (error) {
        if (!isWorthRepeating(error)) throw error;
      }
    }
    return false;
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
        failed = !(await this.#renewInTime());
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
  async #renewInTime(): Promise<boolean> {
    if (!this.held) return false;
    return within(this._renew(), this.leftMs, () => this._lossOf("while it was renewed")).catch(
      () => false,
    );
  }
}
