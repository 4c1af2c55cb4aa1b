import {
  FAILURE_CAUSES,
  MAX_EXIT_CODE,
  type EndCause,
  type Failure,
  type FailureCause,
} from './event-types.js';

/** Entries that `retry_policy.retry_on` may have. */
export const MAX_RETRY_ON_ENTRIES = 100;

/** The causes that an entry may name: all but `infrastructure`, which uses up no retry. */
export const RETRY_ON_CAUSES = FAILURE_CAUSES.filter((cause) => cause !== 'infrastructure');

/** The form of an entry, for error messages. */
export const RETRY_ON_FORM = `one of ${RETRY_ON_CAUSES.join(', ')}, exit:N or exit:N-M (exit codes from 0 to ${MAX_EXIT_CODE}, N <= M)`;

const EXIT_CODE = '([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])';

/** An entry, except that the exit codes may be in the wrong order. Without named groups: the API document shows it. */
export const RETRY_ON_PATTERN = new RegExp(
  `^(?:${RETRY_ON_CAUSES.join('|')}|exit:${EXIT_CODE}(?:-${EXIT_CODE})?)$`,
);

/** Exit codes from the first to the last, both included. */
interface ExitCodes {
  readonly first: number;
  readonly last: number;
}

/** True for a valid entry of `retry_policy.retry_on`. */
export function isRetryOnEntry(entry: string): boolean {
  return readEntry(entry) !== null;
}

/**
 * Whether the policy retries a failure.
 * @param retryOn the valid entries, joined by commas; empty: retry nothing; null: retry all
 */
export function isRetried(retryOn: string | null, failure: Pick<Failure, 'cause' | 'exitCode'>): boolean {
  return retryOn === null || isNamed(retryOn.split(','), failure);
}

/** Whether an entry names the cause of a failure, or its exit code whatever the cause. */
export function isNamed(
  entries: readonly string[],
  { cause, exitCode }: { readonly cause: EndCause; readonly exitCode: number | null },
): boolean {
  return entries.some((text) => {
    const entry = readEntry(text);
    if (entry === null || typeof entry === 'string') return entry === cause;
    return exitCode !== null && exitCode >= entry.first && exitCode <= entry.last;
  });
}

/** Null for an invalid entry. */
function readEntry(entry: string): FailureCause | ExitCodes | null {
  const codes = RETRY_ON_PATTERN.exec(entry);
  if (codes?.[1] === undefined) return RETRY_ON_CAUSES.find((cause) => cause === entry) ?? null;
  const first = Number(codes[1]);
  const last = Number(codes[2] ?? first);
  return first <= last ? { first, last } : null;
}
