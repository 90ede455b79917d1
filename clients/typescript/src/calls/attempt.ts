/**
 * One attempt at a transaction: what it sends, and how it ends.
 *
 * @module
 */

import {
  BusyError,
  ClaretError,
  ClosedError,
  ConflictError,
  ConnectionError,
  LockLostError,
  OrderError,
  OutcomeUnknownError,
  RejectedError,
  ReplyError,
  translate,
} from "../errors.js";
import type { Reply, Words } from "../wire/connection.js";
import type { Link, Pool } from "../wire/pool.js";
import type { Request } from "../wire/requests.js";
import { allowed, nameOf } from "./forbidden.js";
import { Pending, type Convert, type Deferred } from "./later.js";
import { commandsOf, Script, type Flight } from "./script.js";

/** How a transaction behaves. */
export interface Manner {
  /** Whether nothing takes effect if a command is refused. The default is true. */
  strict?: boolean | undefined;
  /** Whether its reads announce that their keys are written afterwards. */
  update?: boolean | undefined;
  /** Whether it only reads, at one instant, and takes no locks. */
  readonly?: boolean | undefined;
  /** Whether `ask` may send writes, which other transactions may then have to wait for. */
  now?: boolean | undefined;
  /** Longest pause between commands while others wait, in milliseconds; 0 is no limit. */
  idleTimeoutMs?: number | undefined;
  /** Longest duration while others wait, in milliseconds; 0 is no limit. */
  transactionTimeoutMs?: number | undefined;
}

/** Longest time that the server accepts, in milliseconds. */
const TIMEOUT_MS_MAX = 86_400_000;

/**
 * Throws an `OrderError` if the server would refuse to begin such a transaction: it would carry the
 * commands behind that out one by one.
 */
export function checkManner(manner: Manner): void {
  for (const name of ["idleTimeoutMs", "transactionTimeoutMs"] as const) {
    const ms = manner[name];
    if (ms === undefined || (Number.isInteger(ms) && ms >= 0 && ms <= TIMEOUT_MS_MAX)) continue;
    const shape = `an integer from 0 to ${TIMEOUT_MS_MAX}`;
    throw new OrderError(`\`${name}\` is ${shape}, not ${String(ms)}`);
  }
}

/** The command that begins a transaction. */
function beginning(manner: Manner): Words {
  if (manner.readonly) {
    if (manner.update) throw new TypeError("a transaction that only reads announces no update");
    return ["TXN", "BEGIN", "READONLY"];
  }
  const words: (string | number)[] = ["TXN", "BEGIN"];
  if (!manner.now) words.push("BLIND");
  if (manner.strict ?? true) words.push("STRICT");
  if (manner.update) words.push("FORUPDATE");
  if (manner.idleTimeoutMs !== undefined) words.push("IDLE", manner.idleTimeoutMs);
  if (manner.transactionTimeoutMs !== undefined)
    words.push("TIMEOUT", manner.transactionTimeoutMs);
  return words;
}

/**
 * A connection on loan from the pool, taken when it is first needed. A transaction that is run
 * again stays on its connection, because the server keeps its age there.
 */
export class Lane {
  readonly #pool: Pool;
  readonly #signal: AbortSignal | undefined;
  readonly #beyond: boolean;
  #link: Promise<Link> | undefined;
  /** The connection that was taken last, once it is open. */
  #taken: Link | undefined;
  /** The connection, once what begins the transaction is on its way. */
  #begun: Promise<Link> = Promise.reject(new ClosedError("no transaction has begun"));
  /** Whether the server may still treat the connection as in a transaction. */
  unended = false;
  /** The error with which the server refused what begins the transaction, if it did. */
  refusal: unknown;
  /** Whether what begins the transaction is sent alone, as it was refused before. */
  careful = false;

  /** `beyond` is for what may wait long, whatever the limit of the pool. */
  constructor(pool: Pool, signal?: AbortSignal, beyond = false) {
    this.#pool = pool;
    this.#signal = signal;
    this.#beyond = beyond;
    this.#begun.catch(() => undefined);
  }

  /** Sends a flight; resolves to the replies to its commands, errors as values. */
  async exchange(flight: Flight): Promise<Reply[]> {
    if (flight.opening.length > 0 && this.#taken?.avoided) this.abandon();
    const taken = (this.#link ??= this.#beyond
      ? this.#pool.takeBeyond(this.#signal)
      : this.#pool.take(this.#signal));
    if (flight.opening.length === 0) return (await this.#begun).send(commandsOf(flight));
    const reset: Words[] = this.unended ? [["TXN", "ABORT"]] : [];
    this.unended = false;
    const refused = (error: unknown) => {
      this.refusal = error;
      this.careful = true;
      if (this.#link === taken) this.abandon();
    };
    const first = taken.then((link) => {
      this.#taken = link;
      return begin(link, reset, flight, this.careful, refused);
    });
    // Flights that are asked for meanwhile must not overtake this one.
    this.#begun = first.then(({ link }) => link);
    this.#begun.catch(() => undefined);
    return (await first).replies;
  }

  /** Whether a connection was taken, and whether it has been closed since. */
  async state(): Promise<"none" | "open" | "broken"> {
    const link = await this.#link?.catch(() => undefined);
    return link === undefined ? "none" : link.open ? "open" : "broken";
  }

  /** Closes the connection, because outstanding replies may still arrive on it. */
  abandon(): void {
    const taken = this.#link;
    this.#link = undefined;
    this.unended = false;
    taken?.then(
      (link) => {
        link.close();
        this.#pool.give(link);
      },
      () => undefined,
    );
  }

  /** Returns the connection to the pool, out of its transaction. */
  async close(): Promise<void> {
    const taken = this.#link;
    this.#link = undefined;
    const link = await taken?.catch(() => undefined);
    if (link === undefined) return;
    try {
      if (this.unended) await link.send([["TXN", "ABORT"]]);
    } catch {
      // The end of the connection ends the transaction as well.
    }
    this.unended = false;
    this.#pool.give(link);
  }
}

/** Sends what begins a transaction with the commands behind it; does not wait for all replies. */
async function begin(
  link: Link,
  reset: readonly Words[],
  flight: Flight,
  careful: boolean,
  refused: (error: unknown) => void,
): Promise<{ link: Link; replies: Promise<Reply[]> }> {
  const examine = (replies: Reply[]): Reply[] => {
    const count = flight.opening.length;
    const refusal = replies.slice(0, count).find((reply) => reply instanceof ReplyError);
    if (!(refusal instanceof ReplyError)) return replies;
    const error = refusalOf(refusal, replies.slice(count));
    // What the server makes of the next command on this connection is not certain.
    link.close();
    refused(error);
    throw error;
  };
  const kind = kindOf(flight.opening);
  if (!careful && link.accepted.has(kind)) {
    const all = link.send([...reset, ...commandsOf(flight)]);
    return { link, replies: all.then((replies) => examine(replies.slice(reset.length))) };
  }
  // If the beginning is refused, for want of a right to it, the server carries out the commands
  // behind it one by one. Sent alone once, it is known to be allowed on this connection.
  const begun = examine((await link.send([...reset, ...flight.opening])).slice(reset.length));
  link.accepted.add(kind);
  const others = link.send(commandsOf({ ...flight, opening: [] }));
  return { link, replies: others.then((replies) => [...begun, ...replies]) };
}

/** What begins a transaction, without its numbers. */
function kindOf(opening: readonly Words[]): string {
  const texts = opening.map((words) =>
    words[0] === "CLIENT"
      ? "CLIENT REQUEST"
      : words.filter((word) => typeof word === "string").join(" "),
  );
  return texts.join(", ");
}

/** The error for a refused beginning, given the replies to the commands sent behind it. */
function refusalOf(refusal: ReplyError, replies: readonly Reply[]): ClaretError {
  const hadNone = (reply: Reply) =>
    reply instanceof ReplyError && !(translate(reply) instanceof OutcomeUnknownError);
  if (replies.every(hadNone)) return translate(refusal);
  const error = new OutcomeUnknownError(
    `the transaction was refused (${refusal.message}): ` +
      "its commands may have been carried out one by one",
  );
  error._final = true;
  return error;
}

/** Whether an error is about the attempt alone, so that another one may succeed. */
export function isAboutAttempt(error: unknown): boolean {
  return (
    error instanceof ConflictError || error instanceof BusyError || error instanceof ConnectionError
  );
}

/** One attempt at a transaction. */
export class Attempt {
  readonly #lane: Lane;
  readonly #script: Script;
  readonly #manner: Manner;
  readonly #isWrite: (command: string) => Promise<boolean>;
  readonly #flights = new Set<Promise<unknown>>();
  readonly #rejected: { pending: Pending<unknown>; error: unknown }[] = [];
  #open = true;
  #commit: Flight | undefined;
  /** The error that has ended the attempt, if one has. */
  failure: unknown;

  constructor(
    lane: Lane,
    manner: Manner,
    request: Request | undefined,
    isWrite: (command: string) => Promise<boolean>,
  ) {
    this.#lane = lane;
    this.#manner = manner;
    this.#script = new Script(beginning(manner), ["TXN", "COMMIT"], request);
    this.#isWrite = isWrite;
  }

  /** Adds a command whose reply arrives with the commit. */
  defer<T>(words: readonly unknown[], convert: Convert<T>): Deferred<T> {
    this.#check();
    return this.#script.defer(allowed(words, "within"), convert);
  }

  /** Sends a command with those that were deferred, and waits for its reply. */
  ask<T>(words: readonly unknown[], convert: Convert<T>, announced = false): Pending<T> {
    const pending = Pending.of(this.#ask(words, announced).then(convert));
    pending._peek(undefined, (error) => this.#rejected.push({ pending, error }));
    return pending;
  }

  async #ask(words: readonly unknown[], announced: boolean): Promise<Reply> {
    this.#check();
    const sent = allowed(words, "within");
    const reply = await this.#exchange(
      this.#script.take(announced ? ["TXN", "FORUPDATE", ...sent] : sent),
    );
    const blind = !this.#manner.now && !this.#manner.readonly;
    if (reply === "QUEUED" && blind && (await this.#isWrite(nameOf(sent)))) {
      const name = nameOf(sent);
      const advice = "read a write's reply after the commit, or begin with `now: true`";
      throw this.#fail(new OrderError(`${name} is not answered before the commit: ${advice}`));
    }
    return reply;
  }

  /** Lets nothing take effect unless a lock is held until the commit. */
  async require(name: string, grant: number): Promise<void> {
    const leftMs = await this.#ask(["LOCK.HELD", name, grant], false);
    if (Number(leftMs) <= 0)
      throw this.#fail(new LockLostError(`the lock ${name} is no longer held`));
  }

  /** Commits; rejects if that fails, or if the attempt has failed before. */
  async commit(): Promise<void> {
    await this.#land();
    for (const { pending, error } of this.#rejected) if (!pending._seen) this.#fail(error);
    if (this.failure !== undefined) throw this.failure;
    this.#check();
    this.#open = false;
    const flight = (this.#commit = this.#script.take());
    let replies: Reply;
    try {
      replies = this.#script.digest(flight, await this.#lane.exchange(flight));
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      const state = await this.#lane.state();
      this.#lane.abandon();
      if (state === "none") throw error;
      throw new OutcomeUnknownError(`during the commit: ${error.message}`, { cause: error });
    }
    this.#script.settle(replies);
  }

  /** Ends the attempt: nothing of it takes effect. */
  async rollback(): Promise<void> {
    // What was sent to be committed has ended.
    if (this.#commit !== undefined) return;
    this.#open = false;
    this.#lane.unended ||= this.#script.started;
    // An aborted transaction answers everything soon, any other one perhaps not.
    if (this.failure instanceof ConflictError) await this.#land();
    if (this.#flights.size > 0) this.#lane.abandon();
  }

  /** Whether the commit is, or was, on its way. */
  get committing(): boolean {
    return this.#commit !== undefined;
  }

  /** Records that the transaction took effect, as other evidence shows. */
  lose(): void {
    this.#script.lose(this.#commit);
  }

  async #exchange(flight: Flight): Promise<Reply> {
    const replies = this.#lane.exchange(flight);
    this.#flights.add(replies);
    try {
      return this.#script.digest(flight, await replies);
    } catch (error) {
      if (error instanceof ConnectionError) this.#lane.abandon();
      if (error === this.#lane.refusal || isAboutAttempt(error)) throw this.#fail(error);
      // The commands behind an opening that was refused were not sent.
      if (flight.opening.length > 0 && !(error instanceof RejectedError)) throw this.#fail(error);
      throw error;
    } finally {
      this.#flights.delete(replies);
    }
  }

  async #land(): Promise<void> {
    await Promise.allSettled(this.#flights);
  }

  #fail(error: unknown): unknown {
    this.failure ??= error;
    this.#open = false;
    return error;
  }

  #check(): void {
    if (!this.#open) {
      const cause = this.failure instanceof ClaretError ? `: ${this.failure.message}` : "";
      throw new ClosedError(`the transaction has ended${cause}`);
    }
  }
}
