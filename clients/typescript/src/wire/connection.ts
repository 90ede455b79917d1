/**
 * What this package needs of a driver: a connection that sends several commands in one write.
 *
 * @module
 */

import type { ConnectionOptions as TlsOptions } from "node:tls";
import { ReplyError } from "../errors.js";

/** A word of a command. */
export type Word = string | number | bigint | Uint8Array;

/** A command: its name and its arguments. */
export type Words = readonly Word[];

/** A reply of the server: text, numbers, nil as `null`, arrays, and maps as objects. */
export type Reply =
  string | number | bigint | boolean | null | ReplyError | Reply[] | { [field: string]: Reply };

/** Address and credentials for one connection. */
export interface Target {
  readonly host: string;
  readonly port: number;
  readonly tls?: TlsOptions | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly database?: number | undefined;
  /** Longest time to connect, in milliseconds. */
  readonly connectTimeoutMs: number;
}

/** A connection of its own, which is never opened again by itself. */
export interface Connection {
  /** Whether the connection is open, as far as is known. */
  readonly open: boolean;

  /**
   * Sends commands in one write, behind those of earlier calls. Resolves to all replies, errors as
   * values; rejects if the connection breaks before the last reply.
   */
  send(commands: readonly Words[]): Promise<Reply[]>;

  /** Closes the connection at once. Replies that have not arrived are lost. */
  close(): void;
}

/** A package that carries commands and replies. */
export interface Driver {
  readonly name: string;

  /**
   * Opens a connection. Rejects with a `ReplyError` if the server refuses it, for a wrong password
   * say, and with the driver's error if it cannot be reached.
   */
  open(target: Target): Promise<Connection>;
}

/** A word as both drivers take it. */
export function argument(word: Word): string | Buffer {
  return word instanceof Uint8Array
    ? Buffer.from(word.buffer, word.byteOffset, word.length)
    : String(word);
}

/** A reply in which the driver's errors are those of this package: they stand in arrays only. */
export function withErrors(value: unknown, DriverError: new (message: string) => Error): Reply {
  if (value instanceof DriverError) return new ReplyError(value.message);
  return Array.isArray(value)
    ? value.map((part) => withErrors(part, DriverError))
    : (value as Reply);
}
