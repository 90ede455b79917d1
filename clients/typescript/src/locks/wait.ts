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
import type { Requests } from "../wire/requests.js";
import { abortable, within } from "../wire/time.js";

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
}

/** Longest wait for one reply, in milliseconds. After that the request is repeated. */
const WAIT_MS_MAX = 86_400_000;
/** Longest delay of the answer to a wait after its time, in milliseconds. */
const GRACE_MS = 10_000;
/** Longest time to end a wait that its caller has given up, in milliseconds, for each step. */
const WITHDRAW_MS = 1_000;

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
   * answered, or with `null` what the server may grant all the same.
   */
  undo?: ((granted: Reply) => Promise<unknown>) | undefined;
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
  const { waitMs, graceMs = GRACE_MS, signal, undo } = patience;
  const longest = Math.min(WAIT_MS_MAX, (waitMs ?? WAIT_MS_MAX) + graceMs);
  const link = await pool.takeBeyond(signal);
  const id = signal && link.id();
  const answer = within(
    link.send(commands),
    longest,
    () => new ConnectionError("no answer to a wait"),
  );
  let replies: Reply[] = [];
  try {
    replies = await abortable(signal, () => answer);
  } catch (error) {
    if (id === undefined || !signal?.aborted || !(await withdraw(pool, id, answer, undo)))
      link.close();
    throw error;
  } finally {
    // What the server makes of the next command on the connection is not certain then.
    if (refusedEarly(replies)) link.close();
    pool.give(link);
  }
  const last = replies.at(-1) ?? null;
  for (const reply of replies) {
    if (!(reply instanceof ReplyError)) continue;
    // A refused request number does not keep the server from the command behind it.
    if (!(last instanceof ReplyError) && last !== null) await undo?.(last).catch(() => undefined);
    throw translate(reply);
  }
  return last;
}

/** Whether a command before the last one was refused. */
function refusedEarly(replies: readonly Reply[]): boolean {
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
    const other = await pool.takeBeyond();
    try {
      await within(other.send([["CLIENT", "UNBLOCK", number]]), WITHDRAW_MS, late);
    } finally {
      pool.give(other);
    }
    const last = (await within(answer, WITHDRAW_MS, late)).at(-1) ?? null;
    if (undo && !(last instanceof ReplyError)) await within(undo(last), WITHDRAW_MS, late);
    return true;
  } catch {
    // The answer may have been on its way.
    if (undo) await within(undo(null), WITHDRAW_MS, late).catch(() => undefined);
    return false;
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
