/**
 * Requests whose reply may take long: each has a connection of its own.
 *
 * @module
 */

import { hostname } from "node:os";
import {
  BusyError,
  ConnectionError,
  OutcomeUnknownError,
  ReplyError,
  translate,
} from "../errors.js";
import type { Reply, Words } from "../wire/connection.js";
import type { Pool } from "../wire/pool.js";
import type { Request, Requests } from "../wire/requests.js";
import { abortable, remains, sleep, within } from "../wire/time.js";

/** What locks need of their client. */
export interface Store {
  readonly pool: Pool;
  readonly requests: Requests;
  /** Sends one command beyond the limit of the pool. Rejects with an error reply. */
  promptly(words: Words, haste?: Haste): Promise<Reply>;
}

/** How one command is sent that must not take long. */
export interface Haste {
  /** Longest time, in milliseconds: then the connection is closed. */
  limitMs?: number | undefined;
  /** Whether to open a connection, as those that are open may be dead. */
  fresh?: boolean | undefined;
  /** Number under which the command takes effect once. */
  request?: Request | undefined;
}

/** Longest wait for one reply, in milliseconds. After that the request is repeated. */
const WAIT_MS_MAX = 86_400_000;
/** Longest delay of the answer to a wait after its time, in milliseconds. */
const GRACE_MS = 10_000;
/** Longest time to end a wait that its caller has given up, in milliseconds, for each step. */
const WITHDRAW_MS = 1_000;
/** Time between requests to end a wait, in milliseconds. */
const UNBLOCK_PAUSE_MS = 10;

/** Whether a request may be repeated after an error: it had no effect, or has a request number. */
export function isWorthRepeating(error: unknown): boolean {
  return (
    error instanceof BusyError ||
    error instanceof OutcomeUnknownError ||
    error instanceof ConnectionError
  );
}

/** Default name of the client, for people that look at `LOCK.HOLDERS`. */
export function defaultOwner(): string {
  return `${hostname()}:${process.pid}`;
}

/** Options of a request whose reply may take long. */
export interface Patience {
  /** Time after which the server answers, in milliseconds; absent: it may take for ever. */
  waitMs?: number | undefined;
  /** Longest delay of the answer after that time, in milliseconds. */
  graceMs?: number | undefined;
  /** Gives up. */
  signal?: AbortSignal | undefined;
  /**
   * Takes back what was granted at the moment at which the caller gave up: what the wait was
   * answered, or with `null` what the server may grant all the same. `ended` says whether the
   * server has ended the wait.
   */
  undo?: ((granted: Reply, ended: boolean) => Promise<unknown>) | undefined;
  /** Is called when the request is about to be sent. */
  sends?: (() => void) | undefined;
  /** Is told what is left to do after the caller gave up, once the request was sent. */
  lingers?: ((work: Promise<unknown>) => void) | undefined;
}

/**
 * The reply to the last of some commands, which may take long. Rejects with the first error. If
 * there is no reply in time the connection is closed: the server then revokes a late grant.
 */
export async function askAndWait(
  pool: Pool,
  commands: readonly Words[],
  patience: Patience,
): Promise<Reply> {
  const { waitMs, graceMs = GRACE_MS, signal, undo, sends, lingers } = patience;
  const link = await pool.takeBeyond(signal);
  const id = signal && link.id();
  sends?.();
  const answer = within(
    link.send(commands),
    longestMs(waitMs, graceMs),
    () => new ConnectionError("no answer to a wait"),
  );
  let replies: Reply[];
  try {
    replies = await abortable(signal, () => answer);
  } catch (error) {
    if (id === undefined || !signal?.aborted) {
      link.close();
      pool.give(link);
      throw error;
    }
    const work = withdraw(pool, id, answer, undo).then((ended) => {
      if (!ended) link.close();
      pool.give(link);
    });
    lingers?.(work);
    await remains(work);
    throw error;
  }
  // What the server makes of the next command on the connection is not certain then.
  if (refusedEarly(replies)) link.close();
  pool.give(link);
  const last = replies.at(-1) ?? null;
  for (const reply of replies) {
    if (!(reply instanceof ReplyError)) continue;
    // A refused request number does not keep the server from the command behind it.
    if (!(last instanceof ReplyError) && last !== null) {
      await undo?.(last, true).catch(() => undefined);
    }
    throw translate(reply);
  }
  return last;
}

/** Longest time until the answer to a wait of this time. */
export function longestMs(waitMs: number | undefined, graceMs = GRACE_MS): number {
  return Math.min(WAIT_MS_MAX, (waitMs ?? WAIT_MS_MAX) + graceMs);
}

/** Whether a command before the last one was refused. */
export function refusedEarly(replies: readonly Reply[]): boolean {
  return replies.slice(0, -1).some((reply) => reply instanceof ReplyError);
}

/**
 * Ends a wait that its caller has given up; resolves to whether it has ended. A mere end of the
 * connection is noticed after a while, in which the server might grant a lock to it.
 */
async function withdraw(
  pool: Pool,
  id: Promise<number>,
  answer: Promise<Reply[]>,
  undo: Patience["undo"],
): Promise<boolean> {
  const late = () => new ConnectionError("no answer to the end of a wait");
  try {
    const number = await within(id, WITHDRAW_MS, late);
    const replies = await within(unblocked(pool, number, answer), WITHDRAW_MS, late);
    const last = replies.at(-1) ?? null;
    if (undo && !(last instanceof ReplyError)) await within(undo(last, true), WITHDRAW_MS, late);
    return true;
  } catch {
    // The answer may have been on its way.
    if (undo) await within(undo(null, false), WITHDRAW_MS, late).catch(() => undefined);
    return false;
  }
}

/** The answer to a wait, which the server is asked to end: again, as it may not have begun yet. */
async function unblocked(pool: Pool, id: number, answer: Promise<Reply[]>): Promise<Reply[]> {
  const other = await pool.takeBeyond();
  try {
    for (;;) {
      await other.send([["CLIENT", "UNBLOCK", id]]);
      const replies = await Promise.race([answer, sleep(UNBLOCK_PAUSE_MS)]);
      if (replies) return replies;
    }
  } catch (error) {
    other.close();
    throw error;
  } finally {
    pool.give(other);
  }
}

/** The option that limits a wait, to a millisecond at least. */
export function timeoutWords(waitMs: number | undefined): Words {
  return waitMs === undefined ? [] : ["TIMEOUT", Math.max(1, Math.round(waitMs))];
}

/** A number from a reply; `null` if the wait was in vain. */
export function numberOf(reply: Reply): number | null {
  return reply === null ? null : Number(reply);
}
