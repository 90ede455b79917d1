/**
 * Commands that are sent without waiting for replies, and take effect in the order in which they
 * are sent.
 *
 * The server keeps that order over all keys, whatever shards hold them: the replies are those of a
 * program that waits for each before it sends the next.
 *
 * @module
 */

import {
  ClosedError,
  ConnectionError,
  OutcomeUnknownError,
  ReplyError,
  translate,
} from "../errors.js";
import type { Reply, Word } from "../wire/connection.js";
import type { Link, Pool } from "../wire/pool.js";
import { Commands, raw } from "./commands.js";
import { allowed } from "./forbidden.js";
import { Pending, type Convert } from "./later.js";

/**
 * A connection whose commands are sent at once, each with a promise of its reply.
 *
 * If the connection breaks, commands without a reply reject with an `OutcomeUnknownError`.
 */
export class Dispatch extends Commands<"direct"> implements AsyncDisposable {
  readonly #pool: Pool;
  #link: Promise<Link> | undefined;
  /** Ends of the commands without a reply. */
  readonly #waiting = new Set<Promise<void>>();
  #failed: { pending: Pending<unknown>; error: unknown }[] = [];
  #ended = false;

  /** @internal */
  constructor(pool: Pool) {
    super();
    this.#pool = pool;
  }

  /** Sends any command. */
  command(...words: Word[]): Pending<Reply> {
    return this.reading(words, raw);
  }

  /**
   * Waits for all replies; rejects with the first error that the program has not waited for. To be
   * called before any action outside of the database that others can see.
   */
  async wait(): Promise<void> {
    while (this.#waiting.size > 0) await Promise.all(this.#waiting);
    const failed = this.#failed;
    this.#failed = [];
    for (const { pending, error } of failed) if (!pending._seen) throw error;
  }

  /** Waits as {@link Dispatch.wait} does, and returns the connection. */
  async close(): Promise<void> {
    this.#ended = true;
    try {
      await this.wait();
    } finally {
      const link = await this.#link?.catch(() => undefined);
      this.#link = undefined;
      if (link) this.#pool.give(link);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal */
  protected override writing<T>(words: readonly Word[], convert: Convert<T>): Pending<T> {
    return this.reading(words, convert);
  }

  /** @internal */
  protected override reading<T>(words: readonly Word[], convert: Convert<T>): Pending<T> {
    if (this.#ended) throw new ClosedError("the dispatch has ended");
    const sent = allowed(words, "within");
    this.#link ??= this.#pool.takeBeyond();
    const pending = Pending.of(this.#reply(this.#link, sent).then(convert));
    const end = new Promise<void>((resolve) => {
      const failed = (error: unknown) => {
        this.#failed.push({ pending, error });
        resolve();
      };
      pending._peek(() => resolve(), failed);
    });
    this.#waiting.add(end);
    void end.then(() => this.#waiting.delete(end));
    return pending;
  }

  async #reply(taken: Promise<Link>, words: readonly Word[]): Promise<Reply> {
    const link = await taken;
    // It is not opened again: commands that were sent over it may still take effect.
    if (!link.open) throw new ConnectionError("the connection of the dispatch broke earlier");
    let reply: Reply | undefined;
    try {
      [reply] = await link.send([words]);
    } catch (error) {
      throw new OutcomeUnknownError("the connection broke before the reply came", { cause: error });
    }
    if (reply instanceof ReplyError) throw translate(reply);
    return reply ?? null;
  }
}
