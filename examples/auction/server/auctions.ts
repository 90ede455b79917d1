// The auctions as they are in the store: the composed type, and a log of the accepted bids.

import { readFileSync } from "node:fs";
import {
  connect,
  defineType,
  RejectedError,
  RepeatedError,
  UndoneError,
  type Claret,
  type Reply,
} from "@claret/client";
import { ioredis } from "@claret/client/ioredis";
import type { Bid, LotState } from "../shared/state.js";
import type { Lot } from "./lots.js";

/** Number of bids that the page shows. */
const LAST_BIDS_MAX = 6;

const definition = readFileSync(new URL("../../../types/auction.type", import.meta.url), "utf8");

const auction = defineType<{
  bid(amount: number, bidder: string): number;
  best(): string[];
  count(): number;
  close(): string[];
}>(definition);

/** The auction of the lot is over: the bid, or the closing, did not count. */
export class AuctionClosed extends Error {}

export class Auctions {
  readonly #db: Claret;

  constructor(url: URL) {
    this.#db = connect({
      driver: ioredis(),
      addresses: [`${url.hostname}:${url.port || 6379}`],
      ...(url.protocol === "rediss:" && { tls: true }),
      ...(url.username && { username: decodeURIComponent(url.username) }),
      ...(url.password && { password: decodeURIComponent(url.password) }),
    });
  }

  /** Makes the type known to the store; does nothing if it is known. */
  async define(): Promise<void> {
    await auction.define(this.#db);
  }

  /** Bids: once for each text, however often and through whichever web server it is called. */
  async bid(lot: Lot, amount: number, bidder: string, text: string): Promise<void> {
    const entry = JSON.stringify({ bidder, amount, at: Date.now() });
    try {
      await this.#db.run(
        (tx) => {
          auction.on(tx, keyOf(lot)).bid(amount, bidder);
          tx.write("LOG.APPEND", logOf(lot), entry);
        },
        { once: `${lot.id}-${text}` },
      );
    } catch (error) {
      // The bid has counted before; only the replies to it are lost.
      if (error instanceof RepeatedError) return;
      throw closedOr(error);
    }
  }

  /** Ends the auction. */
  async close(lot: Lot): Promise<void> {
    try {
      await this.#db.run((tx) => {
        auction.on(tx, keyOf(lot)).close();
        // No bid can follow this entry, so the newest one tells whether the auction is over.
        tx.write("LOG.APPEND", logOf(lot), JSON.stringify({ closed: true }));
      });
    } catch (error) {
      throw closedOr(error);
    }
  }

  /** The lot at one instant: the number of bids fits the best one and the list. */
  async state(lot: Lot): Promise<LotState> {
    const [best, bids, tail] = await this.#db.snapshot((reads) =>
      Promise.all([
        reads.ask("TYPE.CALL_RO", keyOf(lot), "auction.best"),
        reads.ask("TYPE.CALL_RO", keyOf(lot), "auction.count"),
        reads.ask("LOG.TAIL", logOf(lot), LAST_BIDS_MAX + 1),
      ]),
    );
    const entries = list(tail).map(entryOf);
    const [bidder, amount] = list(best);
    return {
      lot: lot.id,
      title: lot.title,
      description: lot.description,
      best: bidder === undefined ? null : { bidder: String(bidder), amount: Number(amount) },
      bids: Number(bids),
      closed: entries[0]?.closed ?? false,
      last: entries.filter((entry) => !entry.closed).slice(0, LAST_BIDS_MAX),
    };
  }

  /** Tells the other web servers, and this one, that a lot has changed. */
  async announce(channel: string, lot: Lot): Promise<void> {
    await this.#db.command("PUBLISH", channel, lot.id);
  }

  async end(): Promise<void> {
    await this.#db.close();
  }
}

// The hash tag puts both keys of a lot on one shard, so that a bid commits there alone.
const keyOf = (lot: Lot) => `auction:{${lot.id}}`;
const logOf = (lot: Lot) => `auction:{${lot.id}}:log`;

const list = (reply: Reply): Reply[] => (Array.isArray(reply) ? reply : []);

function entryOf(reply: Reply): Bid & { closed?: boolean } {
  const [id, text] = list(reply);
  return { id: String(id), ...JSON.parse(String(text)) };
}

/** An `AuctionClosed` in place of the error of a transaction that `CLOSED` has undone. */
function closedOr(error: unknown): unknown {
  const refused = error instanceof UndoneError || error instanceof RejectedError;
  const closed = refused && /\bCLOSED\b/.test(error.message);
  return closed ? new AuctionClosed("the auction is over") : error;
}
