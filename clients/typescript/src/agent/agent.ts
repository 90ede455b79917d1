/**
 * The agent of the conformance suite: carries out requests with the public interface.
 *
 * @module
 */

import { readFile } from "node:fs/promises";
import {
  connect,
  defineType,
  type Cache,
  type Claret,
  type Driver,
  type Election,
  type Lock,
  type Retained,
  type Stay,
  type TypeDefinition,
  type AnyOperations,
  type Word,
} from "../index.js";
import { carryOut, type Step } from "./body.js";
import { described, GivenUp } from "./failures.js";

/** A request of the runner. */
export interface Request {
  id: number;
  do: string;
  [field: string]: unknown;
}

/** Writes an answer or an event. */
export type Write = (line: Record<string, unknown>) => void;

/** A request that is under way: it may be given up, and a paused one may go on. */
interface Open {
  readonly giveUp: AbortController;
  goOn: () => void;
  readonly goesOn: Promise<void>;
}

/** Something that was made with a client. */
interface Of<T> {
  readonly it: T;
  readonly db: Claret;
}

type Handler = (request: any, open: Open) => Promise<unknown>;

/** Names of the requests and options that are offered. */
const OPTIONS = [
  "once",
  "guards",
  "addresses",
  "near",
  "next",
  "tls",
  "certificate",
  "password_file",
  "closed",
];

export class Agent {
  readonly #driver: () => Driver;
  readonly #write: Write;
  readonly #clients = new Map<string, Claret>();
  readonly #locks = new Map<string, Of<Lock | Stay>>();
  readonly #kept = new Map<string, Of<Retained>>();
  readonly #caches = new Map<string, Cache>();
  readonly #types = new Map<string, TypeDefinition<AnyOperations>>();
  readonly #open = new Map<number, Open>();

  constructor(driver: () => Driver, write: Write) {
    this.#driver = driver;
    this.#write = write;
  }

  /** Carries a request out, and writes its answer. */
  async answer(request: Request): Promise<void> {
    const { id } = request;
    let goOn: () => void = () => undefined;
    const goesOn = new Promise<void>((resolve) => (goOn = resolve));
    const open: Open = { giveUp: new AbortController(), goOn, goesOn };
    this.#open.set(id, open);
    try {
      const handler = this.#handlers[request.do];
      if (handler === undefined) throw new Error(`unknown request ${request.do}`);
      this.#write({ id, value: (await handler(request, open)) ?? null });
    } catch (error) {
      this.#write({ id, error: described(error) });
    } finally {
      this.#open.delete(id);
    }
  }

  readonly #handlers: Readonly<Record<string, Handler>> = {
    hello: async () => ({
      client: "typescript",
      offers: [...Object.keys(this.#handlers), ...OPTIONS],
    }),

    open: async ({ client, addresses, username, password_file: passwordFile, ...secrets }) => {
      const tls = await tlsOf(secrets);
      const options = { driver: this.#driver(), addresses, tls, username, passwordFile };
      this.#clients.set(client, connect(options));
    },

    close: async ({ client }) => this.#db(client).close(),

    command: async ({ client, words }) => this.#db(client).command(...words),

    run: async (request, open) => this.#run(request, open),

    resume: async ({ request }) => this.#open.get(request)?.goOn(),

    cancel: async ({ request }) => this.#open.get(request)?.giveUp.abort(new GivenUp("given up")),

    batch: async ({ client, commands, guards = [] }) =>
      this.#db(client).batch(
        (batch) => {
          for (const words of commands) batch.command(...words);
        },
        { guards: guards.map(([key, equals]: [string, string | null]) => ({ key, equals })) },
      ),

    dispatch: async ({ client, commands }) =>
      this.#db(client).dispatch(async (dispatch) => {
        const replies = commands.map((words: Word[]) => dispatch.command(...words));
        const outcomes = await Promise.allSettled(replies);
        return outcomes.map((outcome) =>
          outcome.status === "fulfilled" ? outcome.value : { error: described(outcome.reason) },
        );
      }),

    lock: async ({ client, name, as, lease, timeout, ...others }, open) => {
      const { shared, limit, owner, detect, near, next } = others;
      const place = { shared, limit, owner, detect };
      const options = { leaseMs: lease, timeoutMs: timeout, ...place, near, next };
      const db = this.#db(client);
      const lock = await db.lock(name, options).acquire({ signal: open.giveUp.signal });
      return this.#keep(as, lock, db);
    },

    section: async ({ client, name, words, timeout, shared, limit, owner, detect }, open) => {
      const place = { shared, limit, owner, detect };
      const options = { timeoutMs: timeout, ...place, signal: open.giveUp.signal };
      const section = this.#db(client).section(name, options);
      return { value: await section.command(...words), token: section.token };
    },

    unlock: async ({ lock }) => void (await this.#lock(lock).release()),

    held: async ({ lock }) => this.#lock(lock).held,

    fenced: async ({ lock, words }) => {
      const { it, db } = known(this.#locks, lock);
      return db.fenced(it).command(...words);
    },

    stop_renewing: async ({ lock }) => (this.#lock(lock) as Lock).stopRenewing(),

    campaign: async ({ client, name, value, as, lease, timeout, owner }, open) => {
      const db = this.#db(client);
      const election = db.election(name, { leaseMs: lease, timeoutMs: timeout, owner });
      return this.#keep(as, await election.campaign(value, { signal: open.giveUp.signal }), db);
    },

    proclaim: async ({ election, value }) => void (await this.#election(election).proclaim(value)),

    resign: async ({ election }) => void (await this.#election(election).resign()),

    leader: async ({ client, name }) => (await this.#db(client).election(name).leader())?.value,

    observe: async ({ client, name, count }) => {
      const values: (string | null)[] = [];
      for await (const leader of this.#db(client).election(name).observe()) {
        if (leader) values.push(leader.value);
        if (values.length === count) break;
      }
      return values;
    },

    barrier: async ({ client, name, parties, timeout, owner }, open) =>
      this.#db(client)
        .barrier(name, parties, { owner })
        .wait({ timeoutMs: timeout, signal: open.giveUp.signal }),

    retained: async ({ client, name, as, lease, timeout, owner, cohort, tokens }) => {
      const options = { leaseMs: lease, timeoutMs: timeout, owner, cohort, tokens };
      const db = this.#db(client);
      this.#kept.set(as, { it: db.retained(name, options), db });
    },

    enter: async ({ retained, as, timeout }, open) => {
      const wait = { timeoutMs: timeout, signal: open.giveUp.signal };
      const { it, db } = known(this.#kept, retained);
      return this.#keep(as, await it.enter(wait), db);
    },

    give_back: async ({ retained }) => known(this.#kept, retained).it.close(),

    cache: async ({ client, as, entries: maxEntries, reply_bytes: maxReplyBytes }) => {
      this.#caches.set(as, this.#db(client).cache({ maxEntries, maxReplyBytes }));
    },

    cached: async ({ cache, words: [name, ...args] }) =>
      known(this.#caches, cache).read(name, ...args),

    cache_stats: async ({ cache }) => known(this.#caches, cache).stats,

    close_cache: async ({ cache }) => known(this.#caches, cache).close(),

    define: async ({ client, definition }) => this.#type(definition).define(this.#db(client)),

    migrate: async ({ client, definition }) => this.#type(definition).migrate(this.#db(client)),

    operate: async ({ client, definition, key, operation, arguments: given }) => {
      const handle = this.#type(definition).on(this.#db(client), key);
      const call = handle[operation];
      if (call === undefined) throw new Error(`the type has no operation ${operation}`);
      return call(...given);
    },
  };

  async #run(request: any, open: Open): Promise<unknown> {
    const { client, body, options = {}, id } = request;
    const {
      strict,
      update,
      readonly,
      attempts_max: attemptsMax,
      deadline: deadlineMs,
      once,
    } = options;
    let attempts = 0;
    const stage = {
      pause: (at: string) => {
        this.#write({ id, event: "paused", at });
        return open.goesOn;
      },
      lock: (name: string) => this.#lock(name),
    };
    const result = await this.#db(client).run(
      (tx) => carryOut(tx, body as Step[], stage, ++attempts),
      { strict, update, readonly, attemptsMax, deadlineMs, once, signal: open.giveUp.signal },
    );
    return { value: result() ?? null, attempts };
  }

  #keep(as: string, lock: Lock | Stay, db: Claret): { token: number } {
    this.#locks.set(as, { it: lock, db });
    return { token: lock.token };
  }

  #db(name: string): Claret {
    return known(this.#clients, name);
  }

  #lock(name: string): Lock | Stay {
    return known(this.#locks, name).it;
  }

  #election(name: string): Election {
    return this.#lock(name) as Election;
  }

  #type(definition: string): TypeDefinition<AnyOperations> {
    const type = this.#types.get(definition) ?? defineType(definition);
    this.#types.set(definition, type);
    return type;
  }
}

/** Options of TLS, by the paths of the files; none without an authority. */
async function tlsOf({ tls, certificate, certificate_key: key }: { [name: string]: string }) {
  if (tls === undefined) return undefined;
  const ca = await readFile(tls);
  if (certificate === undefined || key === undefined) return { ca };
  return { ca, cert: await readFile(certificate), key: await readFile(key) };
}

function known<T>(values: ReadonlyMap<string, T>, name: string): T {
  const value = values.get(name);
  if (value === undefined) throw new Error(`there is no ${JSON.stringify(name)}`);
  return value;
}
