/**
 * The driver over the package `redis`.
 *
 * @module
 */

import { createClient, ErrorReply, type RedisClientOptions } from "redis";
import { ReplyError } from "../errors.js";
import {
  argument,
  withErrors,
  type Connection,
  type Driver,
  type Reply,
  type Target,
  type Words,
} from "./connection.js";
import { within } from "./time.js";

/** What is used of a client of the package `redis`, whatever modules it was made with. */
type Client = Pick<
  ReturnType<typeof createClient>,
  "connect" | "destroy" | "sendCommand" | "isReady" | "on"
>;

/**
 * Connections of node-redis, version 5 or later. `options` are more options of `createClient`, such
 * as `clientInfoTag`; what this package relies on cannot be changed by them.
 */
export function nodeRedis(options: RedisClientOptions = {}): Driver {
  return { name: "node-redis", open: (target) => open(target, options) };
}

async function open(target: Target, options: RedisClientOptions): Promise<Connection> {
  const socket = {
    ...options.socket,
    host: target.host,
    port: target.port,
    ...(target.tls && { ...target.tls, tls: true }),
    connectTimeout: target.connectTimeoutMs,
    // A connection that opened again by itself would lose the transaction on it.
    reconnectStrategy: false,
  };
  const client = createClient({
    ...options,
    socket: socket as NonNullable<RedisClientOptions["socket"]>,
    ...(target.username !== undefined && { username: target.username }),
    ...(target.password !== undefined && { password: target.password }),
    ...(target.database !== undefined && { database: target.database }),
    RESP: 3,
    disableOfflineQueue: true,
    maintNotifications: "disabled",
  }) as unknown as Client;
  const connection = new NodeRedisConnection(client);
  try {
    const late = () => new Error("no reply in time");
    await within(client.connect(), target.connectTimeoutMs, late);
  } catch (error) {
    connection.close();
    throw error instanceof ErrorReply ? new ReplyError(error.message) : error;
  }
  return connection;
}

class NodeRedisConnection implements Connection {
  readonly #client: Client;
  #closed = false;

  constructor(client: Client) {
    this.#client = client;
    // An event without a listener would end the process; the commands under way are rejected too.
    client.on("error", () => (this.#closed = true));
    client.on("end", () => (this.#closed = true));
  }

  get open(): boolean {
    return !this.#closed && this.#client.isReady;
  }

  send(commands: readonly Words[]): Promise<Reply[]> {
    // The driver writes what is asked for in one turn of the event loop in one piece.
    return Promise.all(commands.map((words) => this.#reply(words)));
  }

  async #reply(words: Words): Promise<Reply> {
    try {
      return withErrors(await this.#client.sendCommand(words.map(argument)), ErrorReply);
    } catch (error) {
      if (error instanceof ErrorReply) return new ReplyError(error.message);
      throw error;
    }
  }

  close(): void {
    this.#closed = true;
    try {
      this.#client.destroy();
    } catch {
      // It is closed already.
    }
  }
}
