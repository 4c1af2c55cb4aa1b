import type { ScenarioContext } from './scenario-context.js';

/** A test of one part of the worker protocol. */
export interface Scenario {
  /** Kebab-case; what `--only` names. */
  readonly name: string;
  /** The rule that a passing worker keeps. */
  readonly promise: string;
  /** @throws RuleViolation when the worker violates a rule */
  readonly run: (context: ScenarioContext) => Promise<void>;
}

/** A violated rule of the protocol; the message names it for the worker's author. */
export class RuleViolation extends Error {}

/** @throws RuleViolation unless the condition holds */
export function check(condition: boolean, message: string): asserts condition {
  if (!condition) throw new RuleViolation(message);
}
