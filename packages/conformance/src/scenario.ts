import type { FailureCause } from '@longshore/client/constants';
import { payloadOf, type Exchange } from './exchange.js';
import type { ScenarioContext } from './scenario-context.js';

/** A test of one part of the worker protocol. */
export interface Scenario {
  /** Kebab-case; what `--only` names. */
  readonly name: string;
  /** The rule that a passing worker keeps. */
  readonly promise: string;
  /** Worker timeout of the service that it needs, in seconds; default: that of most scenarios. */
  readonly workerTimeoutS?: number;
  /** @throws RuleViolation when the worker violates a rule */
  readonly run: (context: ScenarioContext) => Promise<void>;
}

/** A violated rule of the protocol; the message names it for the worker's author. */
export class RuleViolation extends Error {}

/**
 * Cause and exit code may be missing: they are newer than the protocol.
 * @throws RuleViolation when a FAILED has others
 */
export function checkCause(report: Exchange, cause: FailureCause, exitCode?: number): void {
  const { cause: given = cause, exit_code: code = exitCode } = payloadOf(report);
  check(given === cause, `the cause should be ${cause} and is ${JSON.stringify(given)}`);
  check(code === exitCode, `exit_code should be ${exitCode ?? 'absent'} and is ${JSON.stringify(code)}`);
}

/** @throws RuleViolation unless the condition holds */
export function check(condition: boolean, message: string): asserts condition {
  if (!condition) throw new RuleViolation(message);
}
