/**
 * Elections: a lock whose holder has a value that every client can read and follow.
 *
 * @module
 */

import { LockLostError } from "../errors.js";
import type { Reply, Word, Words } from "../wire/connection.js";
import { Failures, timeLeft } from "../wire/time.js";
import { Lock, type WaitOptions } from "./lock.js";
import { askAndWait, isWorthRepeating, timeoutWords, type Store } from "./wait.js";

/** Options of an election. Times are milliseconds. */
export interface ElectionOptions {
  /** Time for which the leader leads if it is lost. The default is 30,000. */
  leaseMs?: number | undefined;
  /** Longest wait to be elected. */
  timeoutMs?: number | undefined;
  /** Name of the client. The default is one for each process. */
  owner?: string | undefined;
  /** Gives up waiting. */
  signal?: AbortSignal | undefined;
}

/** A leader. */
export interface Leader {
  /** Fencing token. */
  readonly token: number;
  readonly owner: string;
  readonly value: string;
  /** Milliseconds left of its lease. */
  readonly leftMs: number;
  /** Number that grows with every leader and every value. */
  readonly version: number;
}

/** Longest wait of one request for a new version, after which a lost server is noticed. */
const OBSERVE_MS = 60_000;

/**
 * An election; see `election` of the client. While it leads it is a lock: its lease is renewed, it
 * has `token`, `held`, `require` and `signal`, and `tx.require` and `db.fenced` accept it.
 */
export class Election extends Lock {
  #value: Word | undefined;

  /** @internal */
  constructor(store: Store, name: string, options: ElectionOptions) {
    super(store, name, options);
  }

  /** Waits in turn until elected, with a value to proclaim; resolves to the election. */
  async campaign(value: Word, options: WaitOptions = {}): Promise<this> {
    this.#value = value;
    return this.acquire(options);
  }

  /** Ends the leadership; resolves to whether there was one. */
  resign(): Promise<boolean> {
    return this.release();
  }

  /** Replaces the leader's value; resolves to its version. Rejects with a `LockLostError`. */
  async proclaim(value: Word): Promise<number> {
    const words: Words = ["ELECTION.PROCLAIM", this.name, this.token, value];
    const version = Number(await this._store.promptly(words));
    if (version === 0) {
      this._lose();
      throw new LockLostError(`this client does not lead the election ${this.name}`);
    }
    this.#value = value;
    return version;
  }

  /** The leader; `null` if there is none. Needs no candidacy. */
  async leader(): Promise<Leader | null> {
    return leaderOf(await this._store.promptly(["ELECTION.LEADER", this.name]));
  }

  /**
   * Yields the leader whenever it, or its value, changes; `null` when there is none any more.
   * Begins with the leader, if there is one. Needs no candidacy. Short-lived versions may be
   * skipped, the newest is not. Ends when there was no change for `timeoutMs`; rejects with the
   * signal's reason.
   */
  async *observe(options: WaitOptions = {}): AsyncGenerator<Leader | null, void, void> {
    let seen = 0;
    for (;;) {
      const row = await this.#next(seen, options);
      if (row === null) return;
      seen = Number(row.at(-1));
      yield leaderOf(row);
    }
  }

  /** @internal */
  override _words(waitMs: number | undefined): Words {
    if (this.#value === undefined) throw new TypeError("a candidate has a value: use `campaign`");
    const words = ["ELECTION.CAMPAIGN", this.name, this.#value, "LEASE", this._leaseMs];
    return [...words, ...timeoutWords(waitMs), ...this._place];
  }

  async #next(seen: number, { timeoutMs, signal }: WaitOptions): Promise<Reply[] | null> {
    const begun = performance.now();
    const failures = new Failures();
    for (;;) {
      const asked = performance.now();
      const waitMs = Math.max(1, Math.min(timeLeft(timeoutMs, begun) ?? OBSERVE_MS, OBSERVE_MS));
      const words = ["ELECTION.OBSERVE", this.name, "AFTER", seen, ...timeoutWords(waitMs)];
      let row: Reply;
      try {
        row = await askAndWait(this._store.pool, [words], { waitMs, signal });
      } catch (error) {
        if (!isWorthRepeating(error)) throw error;
        await failures.pause(error, asked, signal);
        continue;
      }
      if (Array.isArray(row)) return row;
      if (timeoutMs !== undefined && performance.now() - begun >= timeoutMs) return null;
    }
  }
}

function leaderOf(row: Reply): Leader | null {
  if (!Array.isArray(row) || row[0] === null) return null;
  const [token, owner, value, leftMs, version] = row;
  return {
    token: Number(token),
    owner: String(owner),
    value: String(value),
    leftMs: Number(leftMs),
    version: Number(version),
  };
}
