import { setTimeout as sleep } from 'node:timers/promises';
import { kindOf, payloadOf, type Exchange } from '../exchange.js';
import { check, checkCause, type Scenario } from '../scenario.js';
import { checkTimeline, timelineOf } from '../kit-runs.js';
import type { ScenarioContext } from '../scenario-context.js';
import type { WorkerUnderTest } from '../worker-under-test.js';

/** SIGTERM. What launchers do is a scenario of theirs. */
export const SHUTDOWN: readonly Scenario[] = [
  {
    name: 'drain',
    promise: 'at SIGTERM the run goes on to its end, no other is claimed, and the worker exits with 0',
    async run(context) {
      const { runs, traces } = context;
      const worker = await context.startWorker();
      if (context.isLauncher) return;
      const id = await context.startedRun({ mark: 'drain', gate: 'drain-gate', outputs: {} });
      worker.terminate();
      const waiting = await runs.create({ mark: 'drain-waiting' });
      await sleep(context.timeoutMs * 1.2);
      check(!worker.hasEnded, `the worker ended before its run: ${worker.signals()}`);
      await traces.openGate('drain-gate');
      checkTimeline(await runs.untilState(id, 'COMPLETED'), '1 STARTED, 1 COMPLETED');
      await checkExit(context, worker);
      const { state } = await runs.get(waiting);
      check(state === 'PENDING', `a run was claimed after SIGTERM: it is ${state}`);
      await context.checkStarts('drain-waiting', 0);
    },
  },
  {
    name: 'drain-too-long',
    promise: 'a run that takes longer than the drain time is stopped and reported FAILED',
    async run(context) {
      const { runs } = context;
      const worker = await context.startWorker(context.workerId, { SERVICE_WORKER_DRAIN: '0.5' });
      if (context.isLauncher) return;
      const id = await context.startedRun({ mark: 'drain-too-long' });
      worker.terminate();
      const reports = (): Exchange[] => context.reportsOf(id, 'FAILED');
      await context.until('FAILED is accepted', () =>
        reports().some(({ answer }) => answer !== null && answer.status < 300),
      );
      // With the cause infrastructure the run is queued again.
      const timeline = timelineOf(await runs.get(id));
      check(timeline.startsWith('1 STARTED, 1 FAILED'), `the timeline is "${timeline}"`);
      for (const report of reports()) {
        check((payloadOf(report)['error_message'] ?? '') !== '', 'error_message is empty');
        checkCause(report, 'infrastructure');
      }
      await checkExit(context, worker);
      await context.untilProgramEnded('drain-too-long');
    },
  },
  {
    name: 'idle-stop',
    promise: 'an idle worker that waits for work ends at once at SIGTERM',
    async run(context) {
      const worker = await context.startWorker();
      await context.checkAnotherRun();
      const claims = (): Exchange[] => context.proxy.exchanges.filter((asked) => kindOf(asked) === 'claim');
      // A time limit that is too short for the wait shows when there is no work.
      await context.until('a claim has waited', () => claims().some(hasWaited));
      await context.until(
        'a claim waits',
        () => claims().at(-1)?.doneAtMs === null || !claims().some(isWaiting),
      );
      worker.terminate();
      worker.terminate();
      await checkExit(context, worker);
    },
  },
];

/** @throws RuleViolation unless the worker exits with 0 in time */
export async function checkExit(context: ScenarioContext, worker: WorkerUnderTest): Promise<void> {
  const deadline = performance.now() + context.limitMs;
  while (!worker.hasEnded) {
    check(performance.now() < deadline, `waited in vain until the worker has ended: ${worker.signals()}`);
    await sleep(50);
  }
  const { code, signal } = await worker.exited;
  check(code === 0, `the worker should exit with 0, and ended with ${signal ?? code}: ${worker.signals()}`);
}

/** Whether the claim asked to be held. */
function isWaiting({ query }: Exchange): boolean {
  return Number(query.get('wait') ?? 0) > 0;
}

/** Whether the claim was held for the time that it asked for, or given up. */
function hasWaited(claim: Exchange): boolean {
  const waitMs = Number(claim.query.get('wait') ?? 0) * 1000;
  const { atMs, doneAtMs, hungUpAtMs } = claim;
  return hungUpAtMs !== null || (doneAtMs !== null && doneAtMs - atMs >= waitMs * 0.9);
}
