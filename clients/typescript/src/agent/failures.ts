/**
 * Errors in the words of the conformance suite.
 *
 * @module
 */

import * as claret from "../index.js";

/** The error of a function that fails by itself. */
export class BodyError extends Error {}

/** Why a caller gave up. */
export class GivenUp extends Error {}

const KINDS: readonly (readonly [abstract new (...args: never[]) => Error, string])[] = [
  [claret.ConflictError, "conflict"],
  [claret.BusyError, "busy"],
  [claret.UndoneError, "undone"],
  [claret.WriteRefusedError, "write_refused"],
  [claret.OutcomeUnknownError, "unknown"],
  [claret.RepeatedError, "repeated"],
  [claret.DeadlockError, "deadlock"],
  [claret.LockLostError, "lock_lost"],
  [claret.NotAcquiredError, "not_acquired"],
  [claret.VoidedError, "conflict"],
  [claret.OrderError, "order"],
  [claret.ClosedError, "closed"],
  [claret.RejectedError, "rejected"],
  [claret.ConnectionError, "connection"],
  [BodyError, "body"],
  [GivenUp, "cancelled"],
];

/** An error as an answer has it. An error of another kind is a mistake of the agent. */
export function described(error: unknown): Record<string, unknown> {
  const labelled = error instanceof claret.ClaretError ? error : undefined;
  const found = KINDS.find(([Kind]) => error instanceof Kind);
  return {
    kind: found?.[1] ?? "agent",
    retryable: labelled?.retryable ?? false,
    may_have_happened: labelled?.mayHaveHappened ?? false,
    message: error instanceof Error ? error.message : String(error),
  };
}
