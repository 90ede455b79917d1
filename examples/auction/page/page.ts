// The page: shows what the stream of events says, and sends bids.

import type { Bid, LotState, StoreState } from "../shared/state.js";

/** Pauses before a request is sent again: about half a minute in all. */
const PAUSES_MS = [250, 500, 1000, 2000, 4000, 8000, 16_000];

const euros = new Intl.NumberFormat("en-IE", { style: "currency", currency: "EUR" });
const clock = new Intl.DateTimeFormat("en-IE", { timeStyle: "medium" });

function find<E extends Element>(place: ParentNode, selector: string): E {
  const element = place.querySelector<E>(selector);
  if (!element) throw new Error(`the page has no ${selector}`);
  return element;
}

const bidder = find<HTMLInputElement>(document, "#bidder");
const link = find<HTMLElement>(document, "#link");
const closing = find<HTMLDialogElement>(document, "#closing");
const cards = new Map<string, Card>();

class Card {
  readonly #lot: string;
  readonly #article: HTMLElement;
  readonly #amount: HTMLInputElement;
  #state: LotState;
  /** Counts once. It belongs to what is in the form, so a second click has the same one. */
  #once = newText();
  #seen = new Set<string>();

  constructor(state: LotState) {
    this.#lot = state.lot;
    this.#state = state;
    const template = find<HTMLTemplateElement>(document, "#lot");
    this.#article = find(template.content.cloneNode(true) as DocumentFragment, "article");
    this.#article.id = `lot-${state.lot}`;
    this.#amount = find(this.#article, "[name=amount]");
    this.#amount.id = `amount-${state.lot}`;
    find<HTMLLabelElement>(this.#article, ".bid label").htmlFor = this.#amount.id;
    this.#text("h2", state.title);
    this.#text(".description", state.description);
    this.#article.setAttribute("aria-label", state.title);
    find(document, "#lots").append(this.#article);

    const renew = () => (this.#once = newText());
    this.#amount.addEventListener("input", renew);
    bidder.addEventListener("input", renew);
    find(this.#article, ".bid").addEventListener("submit", (event) => {
      event.preventDefault();
      if (bidder.reportValidity()) void this.#bid();
    });
    find(this.#article, ".close").addEventListener("click", () => this.#askToClose());
    this.show(state, false);
  }

  show(state: LotState, changed = true): void {
    this.#state = state;
    const { best, bids, closed } = state;
    this.#text(".label", closed ? "Sold for" : "Best bid");
    if (closed && !best) this.#text(".label", "Closed");
    this.#text(".price", best ? euros.format(best.amount) : closed ? "Not sold" : "None yet");
    this.#text(".leader", best ? `${closed ? "to" : "by"} ${best.bidder}` : "");
    this.#text(".count", bids === 1 ? "(1 bid in all)" : `(${bids} bids in all)`);
    this.#article.toggleAttribute("data-empty", !best);
    this.#article.toggleAttribute("data-closed", closed);
    const rows = state.last.map((bid) => this.#row(bid, changed && !this.#seen.has(bid.id)));
    find(this.#article, ".last").replaceChildren(...rows);
    this.#seen = new Set(state.last.map(({ id }) => id));
  }

  #row(bid: Bid, fresh: boolean): HTMLElement {
    const row = document.createElement("li");
    row.classList.toggle("fresh", fresh);
    const who = document.createElement("span");
    who.className = "who";
    who.textContent = bid.bidder;
    who.title = bid.bidder;
    const amount = document.createElement("span");
    amount.textContent = euros.format(bid.amount);
    const time = document.createElement("time");
    const at = new Date(bid.at);
    time.dateTime = at.toISOString();
    time.textContent = clock.format(at);
    row.append(time, who, amount);
    return row;
  }

  async #bid(): Promise<void> {
    const bid = { amount: this.#amount.valueAsNumber, bidder: bidder.value, once: this.#once };
    const { ok, error } = await this.#send("bids", bid);
    // The best bid only rises, so this holds even if the newest state is still on its way.
    const leads = bid.amount >= (this.#state.best?.amount ?? 0);
    const counts = `${euros.format(bid.amount)} counts${leads ? "" : ", but does not lead"}.`;
    this.#text(".outcome", ok ? counts : error);
  }

  #askToClose(): void {
    find(closing, "#question").textContent = `Close the auction of “${this.#state.title}”?`;
    closing.returnValue = "keep";
    closing.onclose = () => closing.returnValue === "close" && void this.#close();
    closing.showModal();
  }

  async #close(): Promise<void> {
    const { ok, error } = await this.#send("close", {});
    this.#text(".outcome", ok ? "You have closed the auction." : error);
  }

  /** Sends a request, again and again if the connection breaks or the store is away. */
  async #send(action: string, body: object): Promise<{ ok: boolean; error: string }> {
    this.#text(".outcome", "Sending…");
    for (const pause of PAUSES_MS) {
      try {
        const response = await fetch(`/lots/${this.#lot}/${action}`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(body),
        });
        const { error = "" } = (await response.json()) as { error?: string };
        if (response.status < 500) return { ok: response.ok, error: `Refused: ${error}.` };
      } catch {
        // The connection broke: whether it counted is not known, so it is sent again.
      }
      this.#text(".outcome", "No answer yet, trying again…");
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    return { ok: false, error: "No answer. Press the button again: it counts once." };
  }

  #text(selector: string, text: string): void {
    const element = find(this.#article, selector);
    // A change is read aloud, so what is the same stays untouched.
    if (element.textContent !== text) element.textContent = text;
  }
}

/** A random text. Other than randomUUID, this works on pages without HTTPS as well. */
function newText(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function showLink(state: StoreState, text: string): void {
  link.dataset["state"] = state;
  link.textContent = text;
}

const events = new EventSource("/events");
events.addEventListener("lot", ({ data }: MessageEvent<string>) => {
  const state = JSON.parse(data) as LotState;
  const card = cards.get(state.lot);
  if (card) card.show(state);
  else cards.set(state.lot, new Card(state));
});
events.addEventListener("store", ({ data }: MessageEvent<string>) => {
  const state = JSON.parse(data) as StoreState;
  showLink(state, state === "up" ? "Live" : "The store is away: bids wait");
});
events.addEventListener("error", () => showLink("down", "Connection lost, trying again"));

bidder.value = localStorage.getItem("bidder") ?? "";
bidder.addEventListener("change", () => localStorage.setItem("bidder", bidder.value));
