import { setTimeout as sleep } from 'node:timers/promises';
import { eventTypeOf, claimedRuns, headerOf, kindOf, type Exchange } from '../exchange.js';
import type { RequestFault } from '../fault-proxy.js';
import { check, type Scenario } from '../scenario.js';
import { checkTimeline } from '../kit-runs.js';
import { IMAGES } from '../program-traces.js';

/** How often the answer to a claim, and to COMPLETED, is lost. */
const LOSSES = 2;

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
      const id = await runs.create(IMAGES.plain, { mark: 'lost-claim-answer' });
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
      const losses = new Map<string, number>();
      let logLost = false;
      proxy.faults = {
        onAnswer: (asked) => {
          const type = eventTypeOf(asked);
          const count = losses.get(type ?? '') ?? 0;
          if (kindOf(asked) === 'log' && !logLost) {
            logLost = true;
            return { kind: 'cut' };
          }
          if (type === null || count === (type === 'COMPLETED' ? LOSSES : 1)) return null;
          losses.set(type, count + 1);
          return { kind: 'cut' };
        },
      };
      await context.startWorker();
      const print = ['{"type":"PROGRESS","msg":30}'];
      const id = await runs.create(IMAGES.plain, { mark: 'duplicate-reports', print, outputs: { once: 1 } });
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
      const { runs, proxy } = context;
      const refused = new Map<string, number>();
      proxy.faults = {
        onRequest: (asked) => {
          const about = eventTypeOf(asked) ?? kindOf(asked);
          const count = refused.get(about) ?? 0;
          const fault = BUSY[about]?.[count] ?? null;
          if (fault !== null) refused.set(about, count + 1);
          return fault;
        },
      };
      await context.startWorker();
      const id = await runs.create(IMAGES.plain, { mark: 'busy-service' });
      checkTimeline(await runs.untilState(id, 'COMPLETED'), '1 STARTED, 1 COMPLETED');
      await context.checkStarts('busy-service', 1);
    },
  },
  {
    name: 'cancel',
    promise: 'a cancelled run has its program stopped, and the worker carries on',
    async run(context) {
      const { runs } = context;
      await context.startWorker();
      const id = await context.endlessRun('cancel');
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
      const id = await runs.create(IMAGES.plain, program);
      await runs.untilState(id, 'RUNNING');
      await context.until('the program works', async () => (await traces.startsOf('partition')).length === 1);
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
