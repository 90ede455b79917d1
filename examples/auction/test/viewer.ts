// A viewer without a browser: bids over HTTP, and follows the stream of events.

import { randomUUID } from "node:crypto";
import type { LotState } from "../shared/state.js";

const WAIT_MS = 20_000;

export interface Answer {
  status: number;
  error?: string;
}

async function post(url: string, body: object): Promise<Answer> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(WAIT_MS),
  });
  return { status: response.status, ...((await response.json()) as object) };
}

type Bidding = [url: string, lot: string, amount: number, bidder: string, once?: string];

export const bid = (...[url, lot, amount, bidder, once = randomUUID()]: Bidding) =>
  post(`${url}/lots/${lot}/bids`, { amount, bidder, once });

export const close = (url: string, lot: string) => post(`${url}/lots/${lot}/close`, {});

/** One stream of events. It never connects again: a stream that breaks fails the test. */
export class Viewer {
  readonly #states = new Map<string, LotState>();
  readonly #abort = new AbortController();
  #broken: unknown;
  #changed: () => void = () => undefined;

  constructor(url: string) {
    void this.#follow(url);
  }

  /** Waits until a lot is as a test expects. */
  async until(lot: string, expected: (state: LotState) => boolean): Promise<LotState> {
    const end = Date.now() + WAIT_MS;
    for (;;) {
      const state = this.#states.get(lot);
      if (state && expected(state)) return state;
      const left = end - Date.now();
      if (this.#broken || left <= 0) {
        throw new Error(`${this.#broken ?? "not in time"}: ${JSON.stringify(state)}`);
      }
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.#changed = () => (clearTimeout(timer), resolve());
      });
    }
  }

  leave(): void {
    this.#abort.abort();
  }

  async #follow(url: string): Promise<void> {
    try {
      const { body } = await fetch(`${url}/events`, { signal: this.#abort.signal });
      if (!body) throw new Error("no stream");
      const decoder = new TextDecoder();
      let text = "";
      for await (const chunk of body) {
        text += decoder.decode(chunk as Uint8Array, { stream: true });
        const events = text.split("\n\n");
        text = events.pop() ?? "";
        for (const event of events) this.#take(event);
      }
      this.#broken = "the stream has ended";
    } catch (error) {
      this.#broken = error;
    }
    this.#changed();
  }

  #take(event: string): void {
    const data = /^event: lot\ndata: (.*)$/m.exec(event)?.[1];
    if (data === undefined) return;
    const state = JSON.parse(data) as LotState;
    this.#states.set(state.lot, state);
    this.#changed();
  }
}
