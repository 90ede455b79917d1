/**
 * Connections to the first server that answers, and a pool of them.
 *
 * @module
 */

import { readFile } from "node:fs/promises";
import type { ConnectionOptions as TlsOptions } from "node:tls";
import { ClosedError, ConnectionError, ReplyError, translate } from "../errors.js";
import type { Connection, Driver, Reply, Target, Words } from "./connection.js";
import { Patience } from "./patience.js";
import { Places } from "./places.js";
import { abortable } from "./time.js";

/** Where the servers are, and how to connect to them. */
export interface ConnectOptions {
  /** The package that carries the bytes: `ioredis()` or `nodeRedis()`. */
  driver: Driver;
  /** Addresses `host:port` of servers of one cluster: the first that answers is used. */
  addresses: readonly string[];
  /** Whether to use TLS, or its options as of `tls.connect`. */
  tls?: boolean | TlsOptions | undefined;
  username?: string | undefined;
  password?: string | undefined;
  /** File with the password, which is read for each connection. */
  passwordFile?: string | undefined;
  /** Number of the database. The default is 0. */
  database?: number | undefined;
  /** Most connections for transactions, batches and single commands. The default is 32. */
  connectionsMax?: number | undefined;
  /** Longest time to connect to one address, in milliseconds. The default is 5,000. */
  connectTimeoutMs?: number | undefined;
  /**
   * Longest time without a reply while one is due, in milliseconds. Then the connection counts as
   * broken, and what was sent may have taken effect. Waits for locks and the like end by their own
   * time, and commands that block, such as `BLPOP`, have no limit. The default is 60,000.
   */
  replyTimeoutMs?: number | undefined;
}

const CONNECTIONS_MAX = 32;
const CONNECT_TIMEOUT_MS = 5_000;
const REPLY_TIMEOUT_MS = 60_000;
const PORT = 6379;

/** A connection of the pool. */
export class Link {
  /** Beginnings of transactions that the server is known to accept on this connection. */
  readonly accepted = new Set<string>();
  /** Whether it counts towards the limit of the pool. */
  limited = false;
  /** Whether another machine is to be asked next, as this one knows no leader. */
  avoided = false;
  /** Index of its address. */
  readonly place: number;
  readonly #connection: Connection;
  readonly #leave: (link: Link, silent: boolean) => void;
  readonly #patience: Patience;
  #id: Promise<number> | undefined;

  /** `leave` is called when its machine is silent, or knows no leader of a shard. */
  constructor(
    connection: Connection,
    place: number,
    patienceMs: number,
    leave: (link: Link, silent: boolean) => void,
  ) {
    this.#connection = connection;
    this.place = place;
    this.#leave = leave;
    this.#patience = new Patience(patienceMs, () => {
      this.close();
      leave(this, true);
    });
  }

  /** Whether the connection is open, as far as is known. */
  get open(): boolean {
    return this.#connection.open;
  }

  /** As {@link Connection.send}; rejects with a {@link ConnectionError}. */
  async send(commands: readonly Words[]): Promise<Reply[]> {
    try {
      const replies = await this.#patience.replies(commands, () => this.#connection.send(commands));
      if (replies.some(knowsNoLeader)) this.#leave(this, false);
      return replies;
    } catch (error) {
      this.close();
      throw new ConnectionError(`the connection broke: ${reason(error)}`, { cause: error });
    }
  }

  /** The number by which the server knows the connection. Asked for once. */
  id(): Promise<number> {
    this.#id ??= this.send([["CLIENT", "ID"]]).then(([id]) => Number(id));
    this.#id.catch(() => undefined);
    return this.#id;
  }

  close(): void {
    this.#connection.close();
    this.#patience.end();
  }
}

function knowsNoLeader(reply: Reply): boolean {
  return reply instanceof ReplyError && reply.code === "CLUSTERDOWN";
}

/** Connections that are used one after another. */
export class Pool {
  readonly #options: ConnectOptions;
  readonly #addresses: readonly { host: string; port: number }[];
  readonly #limit: number;
  /** Index of the address that answered last. */
  #current = 0;
  #idle: Link[] = [];
  readonly #lent = new Set<Link>();
  /** Places within the limit, for connections that are open or about to be. */
  readonly #places: Places;
  /** What is to be done when the pool is closed. */
  readonly atEnd = new Set<() => void>();
  #closed = false;

  constructor(options: ConnectOptions) {
    if (options.addresses.length === 0) throw new TypeError("connect needs an address at least");
    this.#options = options;
    this.#addresses = options.addresses.map(parseAddress);
    this.#limit = options.connectionsMax ?? CONNECTIONS_MAX;
    if (!(this.#limit >= 1)) throw new RangeError("connectionsMax is 1 at least");
    if (!((options.replyTimeoutMs ?? 1) > 0)) throw new RangeError("replyTimeoutMs is above 0");
    this.#places = new Places(this.#limit);
  }

  /** A connection for one user, in turn if the limit is reached. */
  async take(signal?: AbortSignal): Promise<Link> {
    await this.#places.take(signal);
    try {
      const link = await this.takeBeyond(signal);
      link.limited = true;
      return link;
    } catch (error) {
      this.#places.give();
      throw error;
    }
  }

  /**
   * A connection for one user, whatever the limit: for waits that may be long, and for renewals
   * that must not wait for them. A `fresh` one has not been used before.
   */
  async takeBeyond(signal?: AbortSignal, fresh = false): Promise<Link> {
    this.#check();
    for (let link = fresh ? undefined : this.#idle.pop(); link; link = this.#idle.pop()) {
      if (link.open) return this.#lend(link);
      link.close();
    }
    let given = false;
    const opening = this.#open();
    try {
      const link = await abortable(signal, () => opening);
      given = true;
      this.#check();
      return this.#lend(link);
    } finally {
      if (!given || this.#closed)
        opening.then(
          (link) => link.close(),
          () => undefined,
        );
    }
  }

  /** Takes a connection back. */
  give(link: Link): void {
    if (!this.#lent.delete(link)) return;
    const useful = link.open && !link.avoided && !this.#closed;
    if (useful && this.#idle.length < this.#limit) this.#idle.push(link);
    else link.close();
    if (link.limited) {
      link.limited = false;
      this.#places.give();
    }
  }

  /** Closes all connections. */
  close(): void {
    this.#closed = true;
    for (const link of [...this.#idle, ...this.#lent]) link.close();
    this.#idle = [];
    this.#places.admitAll();
    for (const end of [...this.atEnd]) end();
  }

  #check(): void {
    if (this.#closed) throw new ClosedError("the client is closed");
  }

  #lend(link: Link): Link {
    this.#lent.add(link);
    return link;
  }

  /** Lets the next connections be to another machine, if there are several. */
  #leave(left: Link, silent: boolean): void {
    const count = this.#addresses.length;
    if (count === 1 && !silent) return;
    left.avoided = true;
    if (this.#current === left.place) this.#current = (left.place + 1) % count;
    for (const link of this.#idle) if (link.place === left.place) link.close();
  }

  #open(): Promise<Link> {
    const { driver, replyTimeoutMs = REPLY_TIMEOUT_MS } = this.#options;
    const leave = (link: Link, silent: boolean) => this.#leave(link, silent);
    return this.openBy(
      async (target, place) => new Link(await driver.open(target), place, replyTimeoutMs, leave),
    );
  }

  /**
   * What a function opens to the first address that answers, given the index of that address. It
   * does not belong to the pool.
   */
  async openBy<T>(open: (target: Target, place: number) => Promise<T>): Promise<T> {
    this.#check();
    const { tls, username, passwordFile, database, connectTimeoutMs } = this.#options;
    const count = this.#addresses.length;
    const failures: string[] = [];
    let cause: unknown;
    for (let step = 0, first = this.#current; step < count; step++) {
      const index = (first + step) % count;
      const address = this.#addresses[index]!;
      try {
        const password = passwordFile ? await readPassword(passwordFile) : this.#options.password;
        const target = {
          ...address,
          tls: tls === true ? {} : tls || undefined,
          username,
          password,
          database,
          connectTimeoutMs: connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
        };
        const opened = await open(target, index);
        this.#current = index;
        return opened;
      } catch (error) {
        if (error instanceof ReplyError) throw translate(error);
        cause = error;
        failures.push(`${address.host}:${address.port}: ${reason(error)}`);
      }
    }
    const text = `no server could be reached (${failures.join("; ")})`;
    throw Object.assign(new ConnectionError(text, { cause }), { _unreached: true });
  }
}

function parseAddress(text: string): { host: string; port: number } {
  const parts = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(text);
  const host = parts?.[1] ?? parts?.[2];
  if (host === undefined)
    throw new TypeError(`an address is host:port, not ${JSON.stringify(text)}`);
  return { host, port: parts?.[3] === undefined ? PORT : Number(parts[3]) };
}

async function readPassword(path: string): Promise<string> {
  return (await readFile(path, "utf8")).replace(/\r?\n$/, "");
}

function reason(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reason(error.errors[0]);
  return error instanceof Error ? error.message || error.name : String(error);
}
