// The live part: hears from the store which lot has changed, and tells all viewers of the page.

import type { ServerResponse } from "node:http";
import { Redis } from "ioredis";
import type { LotState, StoreState } from "../shared/state.js";
import type { Auctions } from "./auctions.js";
import type { Lot } from "./lots.js";

/** Channel of the web servers: a message is the id of a lot that has changed. */
const CHANNEL = "auction:changes";
const VIEWERS_MAX = 1000;
/** A viewer that leaves so much unread is dropped; the page opens a new stream by itself. */
const UNREAD_BYTES_MAX = 1 << 20;
/** Proxies close connections that are silent for long. */
const HEARTBEAT_MS = 15_000;
const RECONNECT_MS_MAX = 500;

export class Live {
  readonly #auctions: Auctions;
  readonly #subscriber: Redis;
  readonly #lots: ReadonlyMap<string, Lot>;
  readonly #viewers = new Set<ServerResponse>();
  /** The newest state of each lot, for viewers that come. */
  readonly #states = new Map<string, LotState>();
  /** Lots that are being read; true if one has changed again meanwhile. */
  readonly #reading = new Map<Lot, boolean>();
  readonly #heartbeat: NodeJS.Timeout;
  #store: StoreState = "down";

  constructor(url: URL, auctions: Auctions, lots: readonly Lot[]) {
    this.#auctions = auctions;
    this.#lots = new Map(lots.map((lot) => [lot.id, lot]));
    this.#subscriber = new Redis(url.href, {
      lazyConnect: true,
      autoResubscribe: false,
      maxRetriesPerRequest: null,
      retryStrategy: (attempt) => Math.min(50 * attempt, RECONNECT_MS_MAX),
    });
    this.#subscriber.on("ready", () => void this.#follow());
    this.#subscriber.on("close", () => this.#tellStore("down"));
    // The loss of the connection is reported by "close" as well.
    this.#subscriber.on("error", () => undefined);
    this.#subscriber.on("message", (_channel, id: string) => {
      const lot = this.#lots.get(id);
      if (lot) void this.#refresh(lot);
    });
    this.#heartbeat = setInterval(() => this.#send(":\n\n"), HEARTBEAT_MS);
  }

  /** Reads all lots, and follows their changes from then on. */
  async start(): Promise<void> {
    for (const lot of this.#lots.values()) {
      this.#states.set(lot.id, await this.#auctions.state(lot));
    }
    await this.#subscriber.connect();
  }

  /** Tells all web servers that a lot has changed. */
  async announce(lot: Lot): Promise<void> {
    try {
      await this.#auctions.announce(CHANNEL, lot);
    } catch {
      // The store is away. Every web server reads all lots when it has reached it again.
    }
  }

  /** Makes a response a stream of events; false if there are too many. */
  watch(response: ServerResponse): boolean {
    if (this.#viewers.size >= VIEWERS_MAX) return false;
    response.writeHead(200, {
      "content-type": "text/event-stream",
      "cache-control": "no-store",
    });
    response.write("retry: 500\n\n");
    response.write(event("store", this.#store));
    for (const state of this.#states.values()) response.write(event("lot", state));
    this.#viewers.add(response);
    response.on("close", () => this.#viewers.delete(response));
    return true;
  }

  end(): void {
    clearInterval(this.#heartbeat);
    this.#subscriber.disconnect();
    for (const viewer of this.#viewers) viewer.end();
  }

  async #follow(): Promise<void> {
    try {
      await this.#subscriber.subscribe(CHANNEL);
    } catch {
      return; // The connection has broken again: "ready" follows once it is back.
    }
    this.#tellStore("up");
    // Messages of the time without a connection are lost. Reading only now leaves no gap.
    for (const lot of this.#lots.values()) void this.#refresh(lot);
  }

  /** Reads a lot and shows it. At most one read of a lot is under way, however many bids come. */
  async #refresh(lot: Lot): Promise<void> {
    if (this.#reading.has(lot)) {
      this.#reading.set(lot, true);
      return;
    }
    do {
      this.#reading.set(lot, false);
      try {
        const state = await this.#auctions.state(lot);
        this.#states.set(lot.id, state);
        this.#send(event("lot", state));
      } catch (error) {
        // It is read again when the connection for messages is back.
        console.error(`cannot read the lot ${lot.id}: ${String(error)}`);
      }
    } while (this.#reading.get(lot));
    this.#reading.delete(lot);
  }

  #tellStore(state: StoreState): void {
    if (state === this.#store) return;
    this.#store = state;
    this.#send(event("store", state));
  }

  #send(text: string): void {
    for (const viewer of this.#viewers) {
      if (viewer.writableLength > UNREAD_BYTES_MAX) viewer.destroy();
      else viewer.write(text);
    }
  }
}

const event = (name: string, data: unknown) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
