/**
 * Messages of RESP3, read as they arrive.
 *
 * @module
 */

import { ReplyError } from "../errors.js";
import type { Reply, Words } from "../wire/connection.js";
import { argument } from "../wire/connection.js";

/** What the server sends by itself, such as that keys were written: texts are bytes. */
export type Part = Buffer | Reply | Part[];

/** Takes what was read. */
export interface Receiver {
  reply(reply: Reply): void;
  push(parts: Part[]): void;
}

/** A command as it is sent. */
export function packed(words: Words): Buffer {
  const parts = [Buffer.from(`*${words.length}\r\n`)];
  for (const word of words) {
    const bytes = Buffer.from(argument(word));
    parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from("\r\n"));
  }
  return Buffer.concat(parts);
}

/** Reads messages from pieces of any size. */
export class Reader {
  readonly #receiver: Receiver;
  readonly #messages: Generator<void>;
  #data: Buffer = Buffer.alloc(0);
  #at = 0;

  constructor(receiver: Receiver) {
    this.#receiver = receiver;
    this.#messages = this.#read();
  }

  /** Takes a piece. Throws if it is not RESP3. */
  take(piece: Buffer): void {
    this.#data = Buffer.concat([this.#data.subarray(this.#at), piece]);
    this.#at = 0;
    this.#messages.next();
  }

  *#read(): Generator<void> {
    for (;;) {
      const line = yield* this.#line();
      if (line.startsWith(">")) {
        this.#receiver.push((yield* this.#many(Number(line.slice(1)), true)) as Part[]);
      } else {
        this.#receiver.reply((yield* this.#value(line, false)) as Reply);
      }
    }
  }

  *#line(): Generator<void, string> {
    let end: number;
    while ((end = this.#data.indexOf("\r\n", this.#at)) < 0) yield;
    const line = this.#data.toString("utf8", this.#at, end);
    this.#at = end + 2;
    return line;
  }

  *#bytes(length: number): Generator<void, Buffer> {
    while (this.#data.length < this.#at + length + 2) yield;
    const bytes = this.#data.subarray(this.#at, this.#at + length);
    this.#at += length + 2;
    return bytes;
  }

  *#many(count: number, asBytes: boolean): Generator<void, Part[]> {
    const parts: Part[] = [];
    while (parts.length < count) parts.push(yield* this.#value(yield* this.#line(), asBytes));
    return parts;
  }

  *#value(line: string, asBytes: boolean): Generator<void, Part> {
    const rest = line.slice(1);
    switch (line[0]) {
      case "+":
        return rest;
      case "-":
        return new ReplyError(rest);
      case "!":
        return new ReplyError(String(yield* this.#bytes(Number(rest))));
      case ":":
        return Number(rest);
      case "(":
        return BigInt(rest);
      case ",":
        return float(rest);
      case "#":
        return rest === "t";
      case "_":
        return null;
      case "$": {
        const bytes = yield* this.#bytes(Number(rest));
        return asBytes ? bytes : String(bytes);
      }
      case "=":
        // Three letters and a colon say what kind of text it is.
        return String(yield* this.#bytes(Number(rest))).slice(4);
      case "*":
      case "~":
        return yield* this.#many(Number(rest), asBytes);
      case "%": {
        const parts = yield* this.#many(2 * Number(rest), false);
        const pairs = parts.flatMap((part, at) => (at % 2 ? [] : [[String(part), parts[at + 1]]]));
        return Object.fromEntries(pairs) as Reply;
      }
      default:
        throw new Error(`not a message of RESP3: ${JSON.stringify(line)}`);
    }
  }
}

function float(text: string): number {
  if (text.endsWith("inf")) return text.startsWith("-") ? -Infinity : Infinity;
  return Number(text);
}
