/**
 * Replies in memory.
 *
 * A reply is kept only if no message about its key came since its command was sent.
 *
 * @module
 */

import { ReplyError } from "../errors.js";
import type { Reply } from "../wire/connection.js";

/** Counts of a cache. */
export interface CacheStats {
  /** Reads that sent no request of their own: their reply was there, or under way. */
  readonly hits: number;
  /** Reads that sent a request. */
  readonly misses: number;
  /** Replies that were removed because their key was written, or the connection lost. */
  readonly dropped: number;
}

/** A read that is under way, for one reader or several. */
export interface Question {
  readonly key: string;
  /** The words as one text. */
  readonly id: string;
  readonly outcome: Promise<Reply>;
}

/** Size of a part of a reply that is no text, in bytes. */
const PART_BYTES = 8;

/** Replies by the words of their commands. */
export class Kept {
  readonly #entriesMax: number;
  readonly #replyBytesMax: number;
  /** Replies with their keys, beginning with the least recently used. */
  readonly #replies = new Map<string, { key: string; reply: Reply }>();
  /** For each key, the words that have a reply. */
  readonly #ids = new Map<string, Set<string>>();
  readonly #underWay = new Map<string, Question>();
  #dropped = 0;

  constructor(entriesMax: number, replyBytesMax: number) {
    this.#entriesMax = entriesMax;
    this.#replyBytesMax = replyBytesMax;
  }

  /** Number of replies that were dropped. */
  get dropped(): number {
    return this.#dropped;
  }

  /** A copy of the reply to these words, if there is one. */
  find(id: string): Reply | undefined {
    const entry = this.#replies.get(id);
    if (entry === undefined) return undefined;
    this.#replies.delete(id);
    this.#replies.set(id, entry);
    return copy(entry.reply);
  }

  /** The question with these words that was asked already, if its reply may be kept. */
  underWay(id: string): Question | undefined {
    return this.#underWay.get(id);
  }

  /** Records that a question is under way. */
  begin(question: Question): void {
    this.#underWay.set(question.id, question);
  }

  /** Records that a question is no longer under way, and keeps its reply if that is right. */
  end(question: Question, reply?: Reply): void {
    const { id, key } = question;
    if (this.#underWay.get(id) !== question) return;
    this.#underWay.delete(id);
    this.#remove(id);
    if (reply === undefined || size(reply) > this.#replyBytesMax) return;
    this.#replies.set(id, { key, reply: copy(reply) });
    const ids = this.#ids.get(key) ?? new Set();
    this.#ids.set(key, ids.add(id));
    if (this.#replies.size > this.#entriesMax) this.#remove(this.#replies.keys().next().value!);
  }

  /** Drops the replies of a key, and those that are under way. */
  drop(key: string): void {
    for (const id of this.#ids.get(key) ?? []) {
      this.#remove(id);
      this.#dropped += 1;
    }
    for (const [id, question] of this.#underWay) {
      if (question.key === key) this.#underWay.delete(id);
    }
  }

  /** Drops all replies, and those that are under way. */
  dropAll(): void {
    this.#dropped += this.#replies.size;
    this.#replies.clear();
    this.#ids.clear();
    this.#underWay.clear();
  }

  #remove(id: string): void {
    const entry = this.#replies.get(id);
    if (entry === undefined) return;
    this.#replies.delete(id);
    const ids = this.#ids.get(entry.key);
    ids?.delete(id);
    if (ids?.size === 0) this.#ids.delete(entry.key);
  }
}

/** A copy of a reply: its reader may change it. */
export function copy(reply: Reply): Reply {
  if (Array.isArray(reply)) return reply.map(copy);
  if (reply === null || typeof reply !== "object" || reply instanceof ReplyError) return reply;
  return Object.fromEntries(Object.entries(reply).map(([name, part]) => [name, copy(part)]));
}

/** The size of a reply in bytes, about. */
function size(reply: Reply): number {
  if (typeof reply === "string") return Buffer.byteLength(reply);
  if (Array.isArray(reply)) {
    return reply.reduce<number>((sum, part) => sum + size(part), PART_BYTES);
  }
  if (reply === null || typeof reply !== "object" || reply instanceof ReplyError) return PART_BYTES;
  return Object.entries(reply).reduce(
    (sum, [name, part]) => sum + Buffer.byteLength(name) + size(part),
    PART_BYTES,
  );
}
