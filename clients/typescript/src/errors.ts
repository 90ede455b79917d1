/**
 * Errors with labels that tell the program how to react.
 *
 * @module
 */

/** Base of the errors of this package. */
export class ClaretError extends Error {
  /** Whether it had no effect, and running it again may succeed. */
  get retryable(): boolean {
    return false;
  }

  /** Whether it is unknown if it took effect. */
  get mayHaveHappened(): boolean {
    return false;
  }

  /** Whether the server asks to back off. */
  get busy(): boolean {
    return false;
  }

  override get name(): string {
    return this.constructor.name;
  }
}

/** The transaction had to give way to another one. It had no effect; run it again. */
export class ConflictError extends ClaretError {
  override get retryable(): boolean {
    return true;
  }
}

/** Too many requests wait at the server. Nothing happened; try again later. */
export class BusyError extends ClaretError {
  override get retryable(): boolean {
    return true;
  }

  override get busy(): boolean {
    return true;
  }
}

/** No server could be reached, or the connection broke before the request was sent: no effect. */
export class ConnectionError extends ClaretError {
  /** @internal Whether no server was found. */
  _unreached = false;

  override get retryable(): boolean {
    return true;
  }
}

/**
 * The outcome of a request was lost, and asking the server did not help. Never retried silently.
 */
export class OutcomeUnknownError extends ClaretError {
  /** @internal Whether neither asking nor repeating the request can help. */
  _final = false;

  override get mayHaveHappened(): boolean {
    return true;
  }
}

/** It took effect, once, but its replies are lost: the connection broke before they arrived. */
export class RepeatedError extends ClaretError {}

/**
 * The transaction took effect, except for writes that the value of their key does not allow: a
 * counter that would leave its bounds, or a push to a set.
 */
export class WriteRefusedError extends ClaretError {
  /** The refused commands, by name, each with its error. */
  readonly refused: readonly { command: string; error: Error }[];

  constructor(refused: readonly { command: string; error: Error }[]) {
    const first = refused[0];
    const more = refused.length > 1 ? `, and ${refused.length - 1} more` : "";
    super(`committed, but ${first?.command} was refused: ${first?.error.message}${more}`);
    this.refused = refused;
  }
}

/** A command of a strict transaction or of a batch was refused, so that nothing took effect. */
export class UndoneError extends ClaretError {}

/** The lock was not free in time, or not all parties arrived at the barrier. */
export class NotAcquiredError extends ClaretError {
  override get retryable(): boolean {
    return true;
  }
}

/**
 * Waiting for the lock would have closed a deadlock cycle. It had no effect: release the locks that
 * you hold, and begin anew.
 */
export class DeadlockError extends ClaretError {
  override get retryable(): boolean {
    return true;
  }
}

/**
 * The lock is no longer held: its lease has ended, and another client may hold it. Thrown by a
 * fenced command, that command had no effect.
 */
export class LockLostError extends ClaretError {}

/** A deferred reply was used as a value, or an operation is not allowed at this place. */
export class OrderError extends ClaretError {}

/** The transaction, the dispatch or the client has ended; begin another one. */
export class ClosedError extends ClaretError {}

/**
 * Another process has asked what became of the request before it took effect, so that it never will
 * under its number. `run` and `batch` go on under another one by themselves.
 */
export class VoidedError extends ClaretError {
  override get retryable(): boolean {
    return true;
  }
}

/** Any other error reply of the server: the command was wrong. It had no effect. */
export class RejectedError extends ClaretError {
  /** The first word of the error reply, such as `WRONGTYPE`. */
  readonly code: string;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = message.split(" ", 1)[0] ?? "";
  }
}

/** An error reply as it came over the wire: its text begins with a code. */
export class ReplyError extends Error {
  override readonly name = "ReplyError";

  /** The first word of the text. */
  get code(): string {
    return this.message.split(" ", 1)[0] ?? "";
  }
}

const KINDS: Readonly<Record<string, new (message: string) => ClaretError>> = {
  TXNABORT: ConflictError,
  BUSY: BusyError,
  // A shard has no leader at present.
  CLUSTERDOWN: BusyError,
  DEADLOCK: DeadlockError,
  FENCED: LockLostError,
  REPEATED: RepeatedError,
  EXECABORT: UndoneError,
  VOIDED: VoidedError,
  INDEFINITE: OutcomeUnknownError,
};

/** The labelled form of an error reply. */
export function translate(error: ReplyError): ClaretError {
  const Kind = KINDS[error.code];
  if (Kind === undefined) return new RejectedError(error.message);
  return new Kind(error.message.slice(error.code.length + 1) || error.message);
}
