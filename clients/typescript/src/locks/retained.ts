/**
 * Locks that stay with the process after they are left.
 *
 * The process has a *grant* of the lock, with a block of fencing tokens. What enters the lock has a
 * *stay*, and a token of its own out of the block. Stays follow each other in the order of their
 * arrival, without any message to the server. The grant is given back when another client wants the
 * lock and the process has no further waiter, or after a limited number of further stays; when its
 * tokens are used up; and when it is lost.
 *
 * @module
 */

import { ClosedError, LockLostError, NotAcquiredError } from "../errors.js";
import type { Words } from "../wire/connection.js";
import { Places } from "../wire/places.js";
import { sleep, timeLeft, within } from "../wire/time.js";
import type { LockOptions } from "./hold.js";
import { Lock, TRIES, type WaitOptions } from "./lock.js";
import { askAndWait, numberOf, timeoutWords, type Store } from "./wait.js";

/** Options of a retained lock. Times are milliseconds. */
export interface RetainedOptions {
  /** Time for which it stays held if the process is lost. The default is 30,000. */
  leaseMs?: number | undefined;
  /** Longest wait for a stay. */
  timeoutMs?: number | undefined;
  /** Name in `LOCK.HOLDERS`. */
  owner?: string | undefined;
  /** Most stays after another client wants the lock. The default is 16. */
  cohort?: number | undefined;
  /** Number of stays in one grant. The default is 1,024, the most are 4,096. */
  tokens?: number | undefined;
}

const COHORT = 16;
const TOKENS = 1_024;

/** A grant of the lock to the process, with a block of tokens of which its own is the first. */
class Grant extends Lock {
  readonly #tokens: number;
  /** Number of stays so far, and of those since another client wants the lock. */
  stays = 0;
  staysWanted = 0;
  wanted = false;

  constructor(store: Store, name: string, options: LockOptions, tokens: number) {
    super(store, name, options);
    this.#tokens = tokens;
  }

  get used(): boolean {
    return this.stays >= this.#tokens;
  }

  /** Also asks for tokens; a block of them needs a wait, however short. */
  override _words(waitMs: number | undefined): Words {
    return [...super._words(waitMs === 0 ? 1 : waitMs), "TOKENS", this.#tokens];
  }

  /**
   * Number of other waiters, once there are some; 0 if the lock is not held, `null` after a time.
   */
  async waiters(waitMs: number, signal: AbortSignal): Promise<number | null> {
    const words = ["LOCK.WANTED", this.name, this.grant, ...timeoutWords(waitMs)];
    const patience = { waitMs, signal, graceMs: this._leaseMs / TRIES };
    return numberOf(await askAndWait(this._store.pool, [words], patience));
  }
}

/** One stay in a lock that the process keeps. */
export class Stay implements AsyncDisposable {
  readonly name: string;
  readonly #retained: Retained;
  readonly #grant: Grant;
  /** The fencing token of this stay alone. */
  readonly token: number;
  #left = false;

  /** @internal */
  constructor(retained: Retained, grant: Grant, token: number) {
    this.name = retained.name;
    this.#retained = retained;
    this.#grant = grant;
    this.token = token;
  }

  /** The token by which the server knows that the process holds the lock. */
  get grant(): number {
    return this.#grant.grant;
  }

  /** Whether the stay lasts and the lock may be relied on. */
  get held(): boolean {
    return !this.#left && this.#grant.held;
  }

  /** Throws a `LockLostError` unless the lock may be relied on. */
  require(): void {
    if (!this.held) throw new LockLostError(`the lock ${this.name} is no longer held`);
  }

  /** Leaves the lock, which stays with the process unless another client wants it. */
  async release(): Promise<boolean> {
    if (this.#left) return false;
    const held = this.held;
    this.#left = true;
    await this.#retained._leave(this);
    return held;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release().then(() => undefined);
  }
}

/** A lock that stays with the process; see `retained` of the client. */
export class Retained implements AsyncDisposable {
  readonly name: string;
  readonly #store: Store;
  readonly #options: RetainedOptions;
  readonly #cohort: number;
  readonly #tokens: number;
  /** The turn, which a stay has, or one that is about to be. */
  readonly #turn = new Places(1);
  #grant: Grant | undefined;
  #inside: Stay | undefined;
  #watch = new AbortController();
  #closed = false;

  /** @internal */
  constructor(store: Store, name: string, options: RetainedOptions) {
    this.#store = store;
    this.name = name;
    this.#options = options;
    this.#cohort = options.cohort ?? COHORT;
    this.#tokens = options.tokens ?? TOKENS;
    if (!(this.#cohort >= 1)) throw new RangeError("a cohort has one member at least");
    // Sends nothing: checks the options early.
    this.#makeGrant();
  }

  /** Waits in turn for a stay. Rejects with a `NotAcquiredError` if that takes too long. */
  async enter(options: WaitOptions = {}): Promise<Stay> {
    const { timeoutMs = this.#options.timeoutMs, signal } = options;
    const begun = performance.now();
    await this.#turn.take(signal, (turn) =>
      timeoutMs === undefined ? turn : within(turn, timeoutMs, () => this.#notFree()),
    );
    try {
      if (this.#closed) throw new ClosedError(`the retained lock ${this.name} is closed`);
      await this.#giveBackIfDue(false);
      const grant = this.#grant ?? (await this.#acquire(timeLeft(timeoutMs, begun), signal));
      const stay = new Stay(this, grant, grant.token + grant.stays);
      grant.stays += 1;
      if (grant.wanted) grant.staysWanted += 1;
      this.#inside = stay;
      return stay;
    } catch (error) {
      this.#turn.give();
      await this.#giveBackIfDue(this.#closed);
      throw error;
    }
  }

  /** Calls a function in a stay. Rejects with a `LockLostError` if the lock was lost meanwhile. */
  async using<T>(work: (stay: Stay) => Promise<T> | T): Promise<T> {
    const stay = await this.enter();
    let value: T;
    let held: boolean;
    try {
      value = await work(stay);
    } finally {
      held = await stay.release();
    }
    if (!held) throw new LockLostError(`the lock ${this.name} was lost before the work was done`);
    return value;
  }

  /** Gives the lock back when its last stay ends; there are no further stays. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#turn.admitAll();
    await this.#giveBackIfDue(true);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal */
  async _leave(stay: Stay): Promise<void> {
    if (this.#inside !== stay) return;
    this.#inside = undefined;
    try {
      await this.#takeDue(this.#closed, this.#turn.waiting > 0)?._giveBack();
    } finally {
      this.#turn.give();
    }
  }

  #makeGrant(): Grant {
    const { leaseMs, owner } = this.#options;
    return new Grant(this.#store, this.name, { leaseMs, owner }, this.#tokens);
  }

  async #acquire(timeoutMs: number | undefined, signal: AbortSignal | undefined): Promise<Grant> {
    const grant = this.#makeGrant();
    if (!(await grant._ask(timeoutMs, signal))) throw this.#notFree();
    this.#grant = grant;
    this.#watch = new AbortController();
    void this.#lookAfter(grant, this.#watch.signal);
    return grant;
  }

  #notFree(): NotAcquiredError {
    return new NotAcquiredError(`the lock ${this.name} was not free in time`);
  }

  /** Takes the grant out of use if it is to be given back now. */
  #takeDue(wanted: boolean, others: boolean): Grant | undefined {
    const grant = this.#grant;
    if (grant === undefined || this.#inside !== undefined) return undefined;
    const recalled = grant.wanted && (!others || grant.staysWanted >= this.#cohort);
    if (!(wanted || recalled || grant.lost || grant.used)) return undefined;
    this.#grant = undefined;
    this.#watch.abort();
    return grant;
  }

  async #giveBackIfDue(wanted: boolean): Promise<void> {
    await this.#takeDue(wanted, this.#turn.taken)?._giveBack();
  }

  /** Renews a grant and listens for other clients, until the process gives it back. */
  async #lookAfter(grant: Grant, stop: AbortSignal): Promise<void> {
    let failed = false;
    while (!stop.aborted && grant.held) {
      try {
        if (failed || !(await this.#isTold(grant, stop))) failed = !(await grant._renew(failed));
      } catch {
        if (stop.aborted) return;
        failed = true;
        await sleep(grant._pauseMs(true), stop).catch(() => undefined);
      }
    }
    if (!stop.aborted) await this.#giveBackIfDue(false).catch(() => undefined);
  }

  /** Waits for an event of a grant; resolves to whether there was one, or it is time to renew. */
  async #isTold(grant: Grant, stop: AbortSignal): Promise<boolean> {
    const pauseMs = grant._pauseMs(false);
    if (grant.wanted) {
      await sleep(pauseMs, stop);
      return false;
    }
    const waiters = await grant.waiters(pauseMs, stop);
    if (waiters === null) return false;
    if (waiters === 0) grant._lose();
    else grant.wanted = true;
    await this.#giveBackIfDue(false);
    return true;
  }
}
