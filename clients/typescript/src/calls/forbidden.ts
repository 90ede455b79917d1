/**
 * Commands about a connection, which would change it for its next user or break a transaction up.
 *
 * @module
 */

import { OrderError } from "../errors.js";
import { argument, type Words } from "../wire/connection.js";
import { checked } from "./later.js";

const OF_CONNECTION = new Set(
  (
    "AUTH CLIENT DISCARD EXEC HELLO MONITOR MULTI PSUBSCRIBE PUNSUBSCRIBE QUIT RESET SELECT " +
    "SSUBSCRIBE SUBSCRIBE SUNSUBSCRIBE TXN UNSUBSCRIBE UNWATCH WATCH"
  ).split(" "),
);
/** Those that leave the connection as it is, if they are sent alone. */
const ALLOWED_ALONE: Readonly<Record<string, ReadonlySet<string>>> = {
  CLIENT: new Set(
    "GETNAME GETREDIR HELP ID INFO KILL LIST PAUSE TRACKINGINFO UNBLOCK UNPAUSE".split(" "),
  ),
  TXN: new Set(["HOLDERS", "RESOLVE"]),
};
const ADVICE: Readonly<Record<string, string>> = {
  AUTH: "give the user to `connect`",
  HELLO: "give the user to `connect`",
  SELECT: "give the database to `connect`",
  MULTI: "use `batch`, or `run`",
  EXEC: "use `batch`, or `run`",
  TXN: "use `run`, which begins and ends transactions by itself",
  DISCARD: "throw an error: then nothing takes effect",
  WATCH: "use `run`, or a batch with guards",
  UNWATCH: "use `run`, or a batch with guards",
  QUIT: "use `close`",
  RESET: "use `close`",
};
/** Where the words of a command begin behind `FENCE name token`. */
const BEHIND_FENCE = 3;

/**
 * The words of a command, checked as by {@link checked}. Throws an `OrderError` if it is about the
 * connection; `place` says where it was to be sent: `alone`, or in something larger.
 */
export function allowed(words: readonly unknown[], place: "alone" | "within"): Words {
  const sent = checked(words);
  const name = nameOf(sent);
  if (name === "FENCE" && sent.length > BEHIND_FENCE) allowed(sent.slice(BEHIND_FENCE), "within");
  if (!OF_CONNECTION.has(name)) return sent;
  if (place === "alone" && ALLOWED_ALONE[name]?.has(nameOf(sent.slice(1)))) return sent;
  const advice = ADVICE[name] ?? "use a connection of the driver's own";
  throw new OrderError(`${name} is not allowed here, as it is about the connection: ${advice}`);
}

/** The first word in capitals, which may have been given as bytes. */
export function nameOf([name = ""]: Words): string {
  return String(argument(name)).toUpperCase();
}
