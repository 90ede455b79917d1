/**
 * A connection on which the server says which of the keys that were read are written.
 *
 * It is one of this package's own: the drivers keep such messages to themselves.
 *
 * @module
 */

import { connect as connectPlain, isIP, type Socket } from "node:net";
import { connect as connectEncrypted } from "node:tls";
import { ReplyError } from "../errors.js";
import type { Reply, Target, Words } from "../wire/connection.js";
import { within } from "../wire/time.js";
import { packed, Reader, type Part } from "./resp.js";

/** Time without a command after which the server is asked for a sign of life, in milliseconds. */
const PING_MS = 500;
/** Age of the newest answered command up to which the messages are known to have arrived. */
const FRESH_MS = 2_000;
/** Time that a reply may take until the connection is given up. */
const SILENT_MS = 10_000;

/** What a {@link Tracking} tells its owner. */
export interface Listener {
  /** A key was written; without a key, any may have been. */
  written(key?: string): void;
  /** The connection has ended. */
  ended(): void;
}

/** The bytes of a key as one text. */
export function keyOf(bytes: Buffer): string {
  return bytes.toString("latin1");
}

interface Waiting {
  readonly sentAt: number;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
}

/** A connection that tracks what it reads. */
export class Tracking {
  readonly #socket: Socket;
  readonly #listener: Listener;
  readonly #waiting: Waiting[] = [];
  readonly #timer: NodeJS.Timeout;
  #error: Error | undefined;
  #open = true;
  #lastSent = -Infinity;
  #newestAnswered = -Infinity;

  private constructor(socket: Socket, listener: Listener) {
    this.#socket = socket;
    this.#listener = listener;
    const reader = new Reader({
      reply: (reply) => this.#answered(reply),
      push: (parts) => this.#pushed(parts),
    });
    socket.on("data", (piece: Buffer) => {
      try {
        reader.take(piece);
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    socket.on("error", (error) => (this.#error = error));
    socket.on("close", () => this.#end());
    this.#timer = setInterval(() => this.#watch(), PING_MS);
    this.#timer.unref();
  }

  /** Opens one. Rejects with a `ReplyError` if the server refuses it. */
  static async open(target: Target, listener: Listener): Promise<Tracking> {
    const { host, port, tls } = target;
    const names = isIP(host) ? { host } : { host, servername: host };
    const socket = tls ? connectEncrypted({ ...names, port, ...tls }) : connectPlain(port, host);
    socket.setNoDelay();
    const tracking = new Tracking(socket, listener);
    try {
      const late = () => new Error("no reply in time");
      await within(tracking.#greet(target), target.connectTimeoutMs, late);
    } catch (error) {
      tracking.close();
      throw error;
    }
    return tracking;
  }

  /** Whether all messages up to some seconds ago are known to have arrived. */
  get fresh(): boolean {
    return this.#open && performance.now() - this.#newestAnswered < FRESH_MS;
  }

  /** Sends a command. Resolves to its reply, which may be an error; rejects if there is none. */
  ask(words: Words): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (!this.#open) {
        reject(this.#error ?? new Error("the connection is closed"));
        return;
      }
      this.#lastSent = performance.now();
      this.#waiting.push({ sentAt: this.#lastSent, resolve, reject });
      this.#socket.write(packed(words));
    });
  }

  /** Closes the connection at once. */
  close(): void {
    this.#socket.destroy();
    this.#end();
  }

  async #greet({ username = "default", password, database }: Target): Promise<void> {
    const login = password === undefined ? [] : ["AUTH", username, password];
    const commands: Words[] = [["HELLO", 3, ...login]];
    if (database !== undefined) commands.push(["SELECT", database]);
    commands.push(["CLIENT", "TRACKING", "ON"]);
    for (const reply of await Promise.all(commands.map((words) => this.ask(words)))) {
      if (reply instanceof ReplyError) throw reply;
    }
  }

  #answered(reply: Reply): void {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) return;
    this.#newestAnswered = waiting.sentAt;
    waiting.resolve(reply);
  }

  #pushed([kind, keys]: Part[]): void {
    if (String(kind) !== "invalidate") return;
    if (!Array.isArray(keys)) this.#listener.written();
    else for (const key of keys) this.#listener.written(keyOf(key as Buffer));
  }

  #watch(): void {
    const now = performance.now();
    const oldest = this.#waiting[0]?.sentAt ?? now;
    if (now - oldest > SILENT_MS) this.#socket.destroy(new Error("the server does not answer"));
    else if (now - this.#lastSent >= PING_MS) this.ask(["PING"]).catch(() => undefined);
  }

  #end(): void {
    if (!this.#open) return;
    this.#open = false;
    clearInterval(this.#timer);
    this.#listener.ended();
    const error = this.#error ?? new Error("the connection was closed");
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}
