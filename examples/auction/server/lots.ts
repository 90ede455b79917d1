/** What is for sale. */
export interface Lot {
  /** At most 20 bytes: it is part of the text under which a bid counts once. */
  readonly id: string;
  readonly title: string;
  readonly description: string;
}

export const lots: readonly Lot[] = [
  {
    id: "clock",
    title: "Longcase clock",
    description: "Oak, eight-day movement, about 1790. Runs four minutes slow.",
  },
  {
    id: "chart",
    title: "Sea chart",
    description: "The Wadden Sea, engraved in copper and coloured by hand.",
  },
  {
    id: "lamp",
    title: "Ship's lantern",
    description: "Brass and ruby glass, from a pilot cutter. Rewired in 1962.",
  },
];
