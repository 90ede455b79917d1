/**
 * Commands of a transaction, sent and still to be sent, without input or output.
 *
 * @module
 */

import {
  type ClaretError,
  ClosedError,
  ReplyError,
  translate,
  UndoneError,
  WriteRefusedError,
} from "../errors.js";
import type { Reply, Words } from "../wire/connection.js";
import type { Request } from "../wire/requests.js";
import { Deferred, type Convert } from "./later.js";

/** A command whose reply comes with the commit. */
interface Entry {
  readonly words: Words;
  readonly deferred: Deferred<unknown>;
}

/** What is sent in one write: what begins the transaction, deferred commands, and a last one. */
export interface Flight {
  readonly opening: readonly Words[];
  readonly entries: readonly Entry[];
  readonly last: Words;
}

/** All commands of a flight. */
export function commandsOf(flight: Flight): Words[] {
  return [...flight.opening, ...flight.entries.map((entry) => entry.words), flight.last];
}

/** The commands of one attempt. */
export class Script {
  readonly #begin: Words;
  readonly #opening: readonly Words[];
  readonly #end: Words;
  #unsent: Entry[] = [];
  /** Sent commands, in their order. The commit answers those whose reply is `QUEUED`. */
  #sent: { entry: Entry; reply: Reply }[] = [];
  /** Reason why the commit must not be sent any more. */
  #fault: ClaretError | undefined;
  #started = false;
  #ended = false;

  /** `begin` opens the transaction, `end` makes it take effect. */
  constructor(begin: Words, end: Words, request?: Request) {
    this.#begin = begin;
    this.#opening = openingOf(begin, request);
    this.#end = end;
  }

  /** Whether anything was taken to be sent. */
  get started(): boolean {
    return this.#started;
  }

  /** Number of commands that were deferred. */
  get length(): number {
    return this.#unsent.length + this.#sent.length;
  }

  /** Adds a command whose reply arrives with the commit. */
  defer<T>(words: Words, convert: Convert<T>): Deferred<T> {
    if (this.#ended) throw new ClosedError("it has been carried out already");
    const deferred = new Deferred(convert);
    this.#unsent.push({ words, deferred });
    return deferred;
  }

  /** What to send now; the reply of the last command is awaited. Without one: the end. */
  take(last?: Words): Flight {
    if (last === undefined && this.#fault) throw this.#fault;
    if (last === undefined) this.#ended = true;
    const opening = this.#started ? [] : this.#opening;
    const entries = this.#unsent;
    this.#started = true;
    this.#unsent = [];
    return { opening, entries, last: last ?? this.#end };
  }

  /** All of a script that is sent in one flight, to be sent again: under this number. */
  repeat(flight: Flight, request: Request): Flight {
    this.#sent = [];
    this.#fault = undefined;
    return { ...flight, opening: openingOf(this.#begin, request) };
  }

  /**
   * Processes the replies to a flight, and returns the last one. Throws an error that prevents the
   * transaction, or else the error of the last command.
   */
  digest(flight: Flight, replies: readonly Reply[]): Reply {
    const earlier = replies.slice(0, -1);
    const last = replies.at(-1) ?? null;
    for (const [index, reply] of earlier.entries()) {
      const entry = flight.entries[index - flight.opening.length];
      if (reply instanceof ReplyError) this.#fault ??= translate(reply);
      if (entry) this.#sent.push({ entry, reply });
    }
    if (last instanceof ReplyError) {
      const error = translate(last);
      // The fault is the reason for undoing the transaction.
      throw this.#fault && isConsequence(last) ? this.#fault : error;
    }
    if (this.#fault) throw this.#fault;
    return last;
  }

  /**
   * Distributes the replies of a commit, and returns those of all commands, in their order. Throws
   * if there are errors among them.
   */
  settle(replies: Reply): Reply[] {
    const queue = Array.isArray(replies) ? [...replies] : [];
    const refused: { command: string; error: ClaretError }[] = [];
    const values = this.#sent.map(({ entry, reply }) => {
      const value = reply === "QUEUED" ? (queue.shift() ?? null) : reply;
      entry.deferred._settle(value);
      if (value instanceof ReplyError) {
        refused.push({ command: String(entry.words[0]), error: translate(value) });
      }
      return value;
    });
    if (refused.length > 0) throw new WriteRefusedError(refused);
    return values;
  }

  /** Records that the transaction took effect, but that its replies are lost. */
  lose(flight?: Flight): void {
    for (const { entry } of this.#sent) entry.deferred._lose();
    for (const entry of flight?.entries ?? []) entry.deferred._lose();
  }
}

function openingOf(begin: Words, request: Request | undefined): Words[] {
  return request ? [["CLIENT", "REQUEST", ...request], begin] : [begin];
}

/** Whether an error may be a mere consequence of an earlier one. */
function isConsequence(error: ReplyError): boolean {
  return translate(error) instanceof UndoneError || error.code === "ERR";
}
