import { checkAttempts } from './check-attempts.js';
import { checkCommands, checkCreates, checkEvents, checkPatches } from './check-acknowledged.js';
import { checkFeeds } from './check-feeds.js';
import { checkDependencies } from './check-dependencies.js';
import { checkEligibility } from './check-eligibility.js';
import { checkHealthyWorkers } from './check-healthy-workers.js';
import { checkReads } from './check-reads.js';
import { checkTimelines } from './check-timelines.js';
import type { Call, FinalState, Rules, Violation } from './history.js';
import { indexHistory } from './index-history.js';

/**
 * Compares what clients and workers were told with what the service has in the end. Pure, and linear in the length of
 * the history (but for sorting by time). What is found depends on no order of the calls.
 *
 * It takes for granted: marks are unique to what they mark; a request is repeated only with its key; a worker that
 * tries to heartbeat is not cut off from a service that is well for as long as the worker timeout; when the final
 * reading was made, healthy workers had had the time to end every run.
 * @returns every broken promise; none is what the service promises
 */
export function checkHistory(history: readonly Call[], final: FinalState, rules: Rules): Violation[] {
  const indexed = indexHistory(history, final);
  return [
    ...checkCreates(indexed),
    ...checkEvents(indexed),
    ...checkCommands(indexed),
    ...checkPatches(indexed, final),
    ...checkTimelines(indexed, rules),
    ...checkAttempts(indexed),
    ...checkEligibility(indexed),
    ...checkDependencies(indexed),
    ...checkFeeds(indexed, final),
    ...checkReads(indexed),
    ...checkHealthyWorkers(indexed, rules),
  ];
}
