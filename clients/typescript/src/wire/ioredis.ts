/**
 * The driver over the package `ioredis`.
 *
 * @module
 */

import { Redis, ReplyError as DriverError, type RedisOptions } from "ioredis";
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

/** Time without traffic after which a peer is examined, so that one that is gone is noticed. */
const KEEP_ALIVE_MS = 10_000;

/**
 * Connections of ioredis, version 5 or later; version 5 speaks RESP2. `options` are more options of
 * its constructor, such as `keepAlive`; what this package relies on cannot be changed by them.
 */
export function ioredis(options: RedisOptions = {}): Driver {
  return { name: "ioredis", open: (target) => open(target, options) };
}

async function open(target: Target, options: RedisOptions): Promise<Connection> {
  const redis = new Redis({
    keepAlive: KEEP_ALIVE_MS,
    ...options,
    host: target.host,
    port: target.port,
    ...(target.tls && { tls: target.tls }),
    ...(target.username !== undefined && { username: target.username }),
    ...(target.password !== undefined && { password: target.password }),
    ...(target.database !== undefined && { db: target.database }),
    connectTimeout: target.connectTimeoutMs,
    protocol: 3,
    replyMapping: "resp3",
    lazyConnect: true,
    // A connection that opened again by itself would lose the transaction on it.
    retryStrategy: () => null,
    reconnectOnError: null,
    autoResendUnfulfilledCommands: false,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    enableAutoPipelining: false,
    maxRetriesPerRequest: 0,
  });
  const connection = new IoredisConnection(redis);
  try {
    const late = () => new Error("no reply in time");
    await within(redis.connect(), target.connectTimeoutMs, late);
  } catch (error) {
    connection.close();
    const cause = connection.cause ?? error;
    throw cause instanceof DriverError ? new ReplyError((cause as Error).message) : cause;
  }
  return connection;
}

class IoredisConnection implements Connection {
  readonly #redis: Redis;
  #open = true;
  /** The last error that the driver reported: more telling than that the connection is closed. */
  cause: Error | undefined;

  constructor(redis: Redis) {
    this.#redis = redis;
    redis.on("error", (error: Error) => (this.cause = error));
    redis.on("close", () => (this.#open = false));
    redis.on("end", () => (this.#open = false));
  }

  get open(): boolean {
    return this.#open;
  }

  async send(commands: readonly Words[]): Promise<Reply[]> {
    if (!this.#open) throw this.cause ?? new Error("the connection is closed");
    const pipeline = this.#redis.pipeline();
    for (const [name = "", ...others] of commands) {
      pipeline.call(String(argument(name)), ...others.map(argument));
    }
    const outcomes = (await pipeline.exec()) ?? [];
    return outcomes.map(([error, value]) => {
      if (error === null) return withErrors(value, DriverError);
      if (error instanceof DriverError) return new ReplyError(error.message);
      throw error;
    });
  }

  close(): void {
    this.#open = false;
    this.#redis.disconnect();
  }
}
