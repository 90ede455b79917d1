/**
 * Types of one's own: handles made from the definition of a composed type.
 *
 * @module
 */

import type { Reply, Word } from "../wire/connection.js";
import type { Batch } from "./batch.js";
import type { Deferred, Pending } from "./later.js";
import type { Transaction } from "./transaction.js";

/** Where definitions are put, and where handles work. */
export interface Database {
  command(...words: Word[]): Pending<Reply>;
  isWrite(command: string): Promise<boolean>;
}

/** A handle whose operations all answer at once, or all with the commit. */
export type Handle<O, M extends "direct" | "batch"> = {
  readonly [K in keyof O]: O[K] extends (...args: infer A) => infer R
    ? (...args: A) => M extends "direct" ? Pending<R> : Deferred<R>
    : never;
};

/** A handle in a transaction: an operation that only reads answers at once, a write does not. */
export type TransactionHandle<O> = {
  readonly [K in keyof O]: O[K] extends (...args: infer A) => infer R
    ? (...args: A) => Pending<R> | Deferred<R>
    : never;
};

/** Any operations: without types of their own. */
export type AnyOperations = { [operation: string]: (...args: Word[]) => Reply };

/**
 * A composed type, by its definition: the text of `TYPE.DEFINE`. The type parameter names its
 * operations for the compiler:
 *
 *     const auctions = defineType<{ bid(amount: number, bidder: string): number }>(text);
 *     await auctions.define(db);
 *     await auctions.on(db, "lot:1").bid(5, "ann");
 */
export function defineType<O = AnyOperations>(definition: string): TypeDefinition<O> {
  return new TypeDefinition<O>(definition);
}

/** A composed type; see {@link defineType}. */
export class TypeDefinition<O> {
  readonly definition: string;
  readonly name: string;
  /** Names of the parameters of each operation. */
  readonly operations: ReadonlyMap<string, readonly string[]>;
  /** Names of the commands in the steps of each operation. */
  readonly #commands = new Map<string, Set<string>>();
  /** Operations that only read: queries, and once the type was defined the others. */
  readonly #reads = new Set<string>();

  /** @internal */
  constructor(definition: string) {
    this.definition = definition;
    const operations = new Map<string, string[]>();
    let name: string | undefined;
    let steps: Set<string> | undefined;
    for (const line of definition.split("\n")) {
      const words = line.trim().split(/\s+/);
      const [first = "", second = ""] = words;
      if (first === "" || first.startsWith("#")) continue;
      if (first === "type" && name === undefined) name = second;
      else if (first === "op" || first === "query") {
        operations.set(
          second,
          words.slice(2).map((word) => word.split(":")[0] ?? word),
        );
        steps = new Set();
        this.#commands.set(second, steps);
        if (first === "query") steps = undefined; // Whatever they are, they only read.
      } else if (["part", "map", "without", "expired"].includes(first)) steps = undefined;
      else if (first.startsWith("|")) steps?.add("SET"); // A program may write.
      else steps?.add((first === "return" || first === "require" ? second : first).toUpperCase());
    }
    if (name === undefined) throw new TypeError("a definition begins with 'type' and a name");
    this.name = name;
    this.operations = operations;
    for (const [operation, commands] of this.#commands) {
      if (commands.size === 0) this.#reads.add(operation);
    }
  }

  /**
   * Defines the type, unless it is there already; resolves to its version. A program can do this
   * whenever it starts. Another definition of the name is an error: see {@link migrate}.
   */
  define(db: Database): Promise<number> {
    return this.#put(db, "TYPE.DEFINE");
  }

  /** Gives the type this definition, which takes the values over; resolves to the version. */
  migrate(db: Database): Promise<number> {
    return this.#put(db, "TYPE.MIGRATE");
  }

  /**
   * The value under a key: a handle with a method for each operation, for a client, in a
   * transaction or in a batch. In a transaction an operation answers at once if it only reads:
   * that of a query is known, that of others after {@link define}.
   */
  on(place: Transaction, key: string): TransactionHandle<O>;
  on(place: Batch, key: string): Handle<O, "batch">;
  on(place: Database, key: string): Handle<O, "direct">;
  on(place: Transaction | Batch | Database, key: string): unknown {
    const handle: Record<string, (...args: Word[]) => unknown> = {};
    for (const operation of this.operations.keys()) {
      handle[operation] = (...args) => this.#call(place, this.#words(operation, key, args));
    }
    return handle;
  }

  #call(place: Transaction | Batch | Database, words: Word[]): unknown {
    if ("command" in place) return place.command(...words);
    return words[0] === "TYPE.CALL_RO" ? place.ask(...words) : place.write(...words);
  }

  #words(operation: string, key: string, args: Word[]): Word[] {
    const parameters = this.operations.get(operation) ?? [];
    if (args.length !== parameters.length) {
      throw new TypeError(`${this.name}.${operation}(${parameters.join(", ")})`);
    }
    const command = this.#reads.has(operation) ? "TYPE.CALL_RO" : "TYPE.CALL";
    return [command, key, `${this.name}.${operation}`, ...args];
  }

  async #put(db: Database, command: string): Promise<number> {
    const version = Number(await db.command(command, this.name, this.definition));
    for (const [operation, commands] of this.#commands) {
      const writes = await Promise.all([...commands].map((name) => db.isWrite(name)));
      if (!writes.includes(true)) this.#reads.add(operation);
    }
    return version;
  }
}
