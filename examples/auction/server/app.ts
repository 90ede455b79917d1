// The web server: the page, its stream of events, and the two actions.

import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { AuctionClosed, Auctions } from "./auctions.js";
import { Live } from "./live.js";
import { lots, type Lot } from "./lots.js";

const BODY_BYTES_MAX = 1024;
const AMOUNT_MAX = 10_000_000;

const root = new URL("../../", import.meta.url);
const files = new Map(
  [
    ["/", "page/index.html", "text/html; charset=utf-8"],
    ["/style.css", "page/style.css", "text/css; charset=utf-8"],
    ["/page.js", "dist/page/page.js", "text/javascript; charset=utf-8"],
  ].map(([path = "", file = "", type = ""]) => {
    return [path, { type, body: readFileSync(new URL(file, root)) }];
  }),
);

/** A request that cannot be carried out, with its status. */
class Refusal extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

export class App {
  readonly #auctions: Auctions;
  readonly #live: Live;
  readonly #http: Server;

  constructor(claret: URL) {
    this.#auctions = new Auctions(claret);
    this.#live = new Live(claret, this.#auctions, lots);
    this.#http = createServer((request, response) => void this.#answer(request, response));
  }

  /** Resolves to the port; 0 chooses one. */
  async start(port: number, host: string): Promise<number> {
    await this.#auctions.define();
    await this.#live.start();
    await new Promise<void>((resolve, reject) => {
      this.#http.once("error", reject);
      this.#http.listen(port, host, resolve);
    });
    return (this.#http.address() as AddressInfo).port;
  }

  async end(): Promise<void> {
    this.#live.end();
    this.#http.close();
    this.#http.closeAllConnections();
    await this.#auctions.end();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader("content-security-policy", "default-src 'self'; frame-ancestors 'none'");
    response.setHeader("x-content-type-options", "nosniff");
    try {
      await this.#route(request, response);
    } catch (error) {
      const { status, message } = refusalOf(error);
      if (status >= 500) console.error(`${request.method} ${request.url}: ${String(error)}`);
      json(response, status, { error: message });
    }
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = "/"] = (request.url ?? "/").split("?", 1);
    const file = files.get(path);
    const action = /^\/lots\/(\w+)\/(bids|close)$/.exec(path);
    if (request.method === "GET" && file) {
      response.writeHead(200, { "content-type": file.type, "cache-control": "no-cache" });
      response.end(file.body);
    } else if (request.method === "GET" && path === "/events") {
      if (!this.#live.watch(response)) throw new Refusal(503, "too many viewers");
    } else if (request.method === "POST" && action) {
      const lot = lots.find(({ id }) => id === action[1]);
      if (!lot) throw new Refusal(404, "no such lot");
      const body = await bodyOf(request);
      const act = action[2] === "bids" ? this.#bid(lot, body) : this.#close(lot);
      json(response, 200, await act);
    } else {
      throw new Refusal(404, "no such page");
    }
  }

  async #bid(lot: Lot, body: Record<string, unknown>): Promise<object> {
    const { amount, once } = body;
    const bidder = typeof body["bidder"] === "string" ? body["bidder"].trim() : "";
    if (typeof amount !== "number" || !(amount > 0 && amount <= AMOUNT_MAX)) {
      throw new Refusal(400, `the amount is a number up to ${AMOUNT_MAX}, above 0`);
    }
    if (!/^\P{Cc}{1,40}$/u.test(bidder)) throw new Refusal(400, "a name has 1 to 40 characters");
    if (typeof once !== "string" || !/^[\w-]{16,36}$/.test(once)) {
      throw new Refusal(400, "once is a text of 16 to 36 letters and digits");
    }
    await this.#auctions.bid(lot, amount, bidder, once);
    void this.#live.announce(lot);
    return {};
  }

  async #close(lot: Lot): Promise<object> {
    await this.#auctions.close(lot);
    void this.#live.announce(lot);
    return {};
  }
}

function refusalOf(error: unknown): { status: number; message: string } {
  if (error instanceof Refusal) return error;
  if (error instanceof AuctionClosed) return { status: 409, message: error.message };
  // It may have counted. The page sends it again under the same text.
  return { status: 503, message: "the store did not answer" };
}

async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  // Pages of other sites cannot send this type without a question that is not answered here.
  if (request.headers["content-type"] !== "application/json") throw new Refusal(415, "JSON only");
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > BODY_BYTES_MAX) throw new Refusal(413, "the request is too long");
    chunks.push(chunk);
  }
  try {
    const body: unknown = JSON.parse(Buffer.concat(chunks).toString());
    if (typeof body === "object" && body !== null) return body as Record<string, unknown>;
  } catch {
    // Refused below.
  }
  throw new Refusal(400, "the request is not JSON");
}

function json(response: ServerResponse, status: number, body: object): void {
  if (response.headersSent) return;
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
  response.end(JSON.stringify(body));
}
