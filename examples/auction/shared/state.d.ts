// What the web server tells the page, as JSON.

/** A bid that was accepted. */
export interface Bid {
  /** Id of its entry in the log of the lot. */
  id: string;
  bidder: string;
  amount: number;
  /** Milliseconds since 1970. */
  at: number;
}

/** A lot at one instant. */
export interface LotState {
  lot: string;
  title: string;
  description: string;
  best: { bidder: string; amount: number } | null;
  bids: number;
  closed: boolean;
  /** The newest bids, newest first. */
  last: Bid[];
}

/** Whether the web server reaches the store. */
export type StoreState = "up" | "down";
