/**
 * The client of Claret for Node: transactions, locks, elections, barriers, ordered pipelines and
 * types of one's own, over ioredis or node-redis.
 *
 * @module
 */

export { Cache, type CacheOptions } from "./cache/cache.js";
export type { CacheStats } from "./cache/kept.js";
export type { Manner } from "./calls/attempt.js";
export { Batch, type BatchOptions, type Guard, type TokenHolder } from "./calls/batch.js";
export {
  Commands,
  ReadCommands,
  type Mode,
  type Read,
  type SetOptions,
  type Written,
} from "./calls/commands.js";
export { Dispatch } from "./calls/dispatch.js";
export { Deferred, Pending } from "./calls/later.js";
export type { RunOptions } from "./calls/run.js";
export { Announced, Snapshot, Transaction, type Requirable } from "./calls/transaction.js";
export {
  defineType,
  TypeDefinition,
  type AnyOperations,
  type Database,
  type Handle,
  type TransactionHandle,
} from "./calls/types.js";
export { connect, Claret } from "./client.js";
export {
  BusyError,
  ClaretError,
  ClosedError,
  ConflictError,
  ConnectionError,
  DeadlockError,
  LockLostError,
  NotAcquiredError,
  OrderError,
  OutcomeUnknownError,
  RejectedError,
  RepeatedError,
  ReplyError,
  UndoneError,
  VoidedError,
  WriteRefusedError,
} from "./errors.js";
export { Barrier } from "./locks/barrier.js";
export { Election, type ElectionOptions, type Leader } from "./locks/election.js";
export { Fenced } from "./locks/fenced.js";
export type { LockOptions } from "./locks/hold.js";
export { Lock, type WaitOptions } from "./locks/lock.js";
export { Section, type SectionOptions } from "./locks/section.js";
export { Retained, Stay, type RetainedOptions } from "./locks/retained.js";
export type { Connection, Driver, Reply, Target, Word, Words } from "./wire/connection.js";
export type { ConnectOptions } from "./wire/pool.js";
export type { RetryOptions } from "./wire/time.js";
