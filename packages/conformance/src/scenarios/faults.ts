import { setTimeout as sleep } from 'node:timers/promises';
import { claimedRuns, headerOf, inOrder, kindOf, type Exchange } from '../exchange.js';
import type { RequestFault } from '../fault-proxy.js';
import { check, type Scenario } from '../scenario.js';
import { checkTimeline } from '../kit-runs.js';

/** How often the answer to a claim is lost. */
const LOSSES = 2;

/** Answers that are lost. */
const CUT = { kind: 'cut' } as const;
const LOST = { SUBMITTED: [CUT], STARTED: [CUT], PROGRESS: [CUT], COMPLETED: [CUT, CUT], log: [CUT] };

/** What a busy service answers to the first tries of each kind of request. */
const BUSY: Readonly<Record<string, readonly RequestFault[]>> = {
  claim: [
    { kind: 'answer', status: 302 },
    { kind: 'answer', status: 503, retryAfterS: 2 },
  ],
  run: [{ kind: 'answer', status: 302 }],
  STARTED: [{ kind: 'answer', status: 429, retryAfterS: 1 }],
  COMPLETED: [
    { kind: 'answer', status: 503 },
    { kind: 'answer', status: 302 },
  ],
};

/** Answers that are lost, and a service that is cut off. */
export const FAULTS: readonly Scenario[] = [
  {
    name: 'lost-claim-answer',
    promise: 'a claim whose answer was lost is asked again under its key, and its run executed once',
    async run(context) {
      const { runs, proxy } = context;
      const lost: Exchange[] = [];
      proxy.faults = {
        onAnswer: (asked) => {
          if (claimedRuns(asked).length === 0 || lost.length === LOSSES) return null;
          lost.push(asked);
          return { kind: 'cut' };
        },
      };
      await context.startWorker();
      const id = await runs.create({ mark: 'lost-claim-answer' });
      await context.until('a claim was answered with the run', () => lost.length > 0);
      const [first] = lost;
      const next = (): Exchange | undefined =>
        proxy.exchanges
          .slice(1 + proxy.exchanges.findIndex((asked) => asked === first))
          .find((asked) => kindOf(asked) === 'claim');
      await context.until('the claim was asked again', () => next() !== undefined);
      const keys = [first, next()].map((asked) => asked && headerOf(asked, 'Idempotency-Key'));
      check(keys[0] === keys[1], 'the claim was not asked again under the same Idempotency-Key');
      const run = await runs.untilState(id, 'COMPLETED');
      checkTimeline(run, '1 STARTED, 1 COMPLETED');
      await context.checkStarts('lost-claim-answer', 1);
    },
  },
  {
    name: 'duplicate-reports',
    promise: 'reports whose answers were lost are repeated under their keys, and are on the timeline once',
    async run(context) {
      const { runs, proxy } = context;
      proxy.faults = { onAnswer: inOrder(LOST) };
      await context.startWorker();
      const print = ['{"type":"PROGRESS","msg":30}'];
      const id = await runs.create({ mark: 'duplicate-reports', print, outputs: { once: 1 } });
      checkTimeline(await runs.untilState(id, 'COMPLETED'), '1 STARTED, 1 PROGRESS 30, 1 COMPLETED');
      proxy.faults = {};
      await context.checkAnotherRun();
      checkTimeline(await runs.get(id), '1 STARTED, 1 PROGRESS 30, 1 COMPLETED');
      for (const type of ['STARTED', 'PROGRESS', 'COMPLETED']) {
        const keys = new Set(context.reportsOf(id, type).map((asked) => headerOf(asked, 'Idempotency-Key')));
        check(keys.size === 1, `${type} was sent under ${keys.size} keys`);
      }
      await context.checkStarts('duplicate-reports', 1);
    },
  },
  {
    name: 'busy-service',
    promise: 'answers 3xx, 429 and 5xx are waited out for as long as they ask, and no redirect is followed',
    async run(context) {
      context.proxy.faults = { onRequest: inOrder(BUSY) };
      await context.startWorker();
      await context.completedRun({ mark: 'busy-service' });
    },
  },
  {
    name: 'cancel',
    promise: 'a cancelled run has its program stopped, and the worker carries on',
    async run(context) {
      const { runs } = context;
      await context.startWorker();
      const id = await context.startedRun({ mark: 'cancel' });
      await runs.cancel(id);
      await context.untilProgramEnded('cancel');
      await context.checkAnotherRun();
      checkTimeline(await runs.get(id), '1 STARTED, 1 CANCELLED');
      await context.checkStarts('cancel', 1);
      await context.untilFolderGone('cancel');
    },
  },
  {
    name: 'partition',
    promise: 'a worker that was cut off longer than the timeout changes nothing any more, and carries on',
    async run(context) {
      const { runs, proxy, traces } = context;
      await context.startWorker();
      const program = { mark: 'partition', gate: 'partition-gate', outputs: { by: 'the late worker' } };
      const id = await context.startedRun(program);
      proxy.partition();
      await runs.until(id, 'is taken back', (run) => run.current_attempt === 2);
      const second = context.secondWorker();
      await second.takeOver(id, 2, context.limitMs);
      await traces.openGate('partition-gate');
      await context.untilProgramEnded('partition');
      const from = proxy.exchanges.length;
      proxy.heal();
      // A worker that asks for the run first need not report; one that reports is refused.
      await context.until('the worker speaks about the run, or asks for work', () =>
        context
          .since(from)
          .some(
            (asked) => asked.delivered && (asked.path.startsWith(`/runs/${id}`) || kindOf(asked) === 'claim'),
          ),
      );
      await sleep(context.timeoutMs / 3);
      await second.complete(id, 2, { by: 'the second worker' });
      await context.checkAnotherRun();
      const run = await runs.get(id);
      checkTimeline(run, '1 STARTED, 1 RECLAIMED, 2 STARTED, 2 COMPLETED');
      check(run.outputs['by'] === 'the second worker', 'the outputs are those of the late worker');
      const unfenced = context
        .reportsOf(id)
        .find(
          (asked) =>
            headerOf(asked, 'X-Worker-Id') === undefined || headerOf(asked, 'X-Run-Attempt') === undefined,
        );
      check(unfenced === undefined, 'a report was sent without X-Worker-Id and X-Run-Attempt');
      await context.checkStarts('partition', 1);
    },
  },
];
