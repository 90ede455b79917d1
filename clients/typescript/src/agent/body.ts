/**
 * The function of a transaction, from the steps that a story gives.
 *
 * @module
 */

import { Deferred, type Requirable, type Transaction, type Word } from "../index.js";
import { BodyError } from "./failures.js";

/** A word of a command, or a returned value: text, a variable, or a sum. */
export type Expression =
  string | number | null | { var: string } | { add: [Expression, number] } | Expression[];

/** A step of a body; one of the fields says which. */
export interface Step {
  ask?: Expression[];
  write?: Expression[];
  as?: string;
  update?: boolean;
  pause?: string;
  use?: string;
  require?: string;
  fail?: string;
  return?: Expression;
}

/** What a body needs of the agent. */
export interface Stage {
  /** Says that the transaction is paused, and waits until it may go on. */
  pause(at: string): Promise<void>;
  lock(name: string): Requirable;
}

/** Values that are known after the commit at the latest. */
type Variables = Map<string, unknown>;

/**
 * Carries the steps out in a transaction. Resolves to a function that gives the returned value
 * after the commit: a deferred reply in it can only be read then.
 */
export async function carryOut(
  tx: Transaction,
  steps: readonly Step[],
  stage: Stage,
  attempt: number,
): Promise<() => unknown> {
  const variables: Variables = new Map();
  for (const step of steps) {
    if (step.ask) {
      const words = wordsOf(step.ask, variables);
      const reply = await (step.update ? tx.forUpdate.ask(...words) : tx.ask(...words));
      if (step.as) variables.set(step.as, reply);
    } else if (step.write) {
      const deferred = tx.write(...wordsOf(step.write, variables));
      if (step.as) variables.set(step.as, deferred);
    } else if (step.pause !== undefined) {
      if (attempt === 1) await stage.pause(step.pause);
    } else if (step.use !== undefined) {
      tx.write("SET", "used", variables.get(step.use) as Word);
    } else if (step.require !== undefined) {
      await tx.require(stage.lock(step.require));
    } else if (step.fail !== undefined) {
      throw new BodyError(step.fail);
    } else if (step.return !== undefined) {
      const expression = step.return;
      return () => valueOf(expression, variables);
    } else {
      throw new Error(`unknown step ${JSON.stringify(step)}`);
    }
  }
  return () => null;
}

function wordsOf(expressions: readonly Expression[], variables: Variables): Word[] {
  return expressions.map((expression) => {
    if (typeof expression === "object" && expression !== null && "var" in expression) {
      return variables.get(expression.var) as Word;
    }
    return valueOf(expression, variables) as Word;
  });
}

function valueOf(expression: Expression, variables: Variables): unknown {
  if (Array.isArray(expression)) return expression.map((one) => valueOf(one, variables));
  if (expression === null || typeof expression !== "object") return expression;
  if ("var" in expression) {
    const value = variables.get(expression.var);
    return value instanceof Deferred ? value.value : value;
  }
  const [summand, amount] = expression.add;
  return String(BigInt(String(valueOf(summand, variables) ?? 0)) + BigInt(amount));
}
