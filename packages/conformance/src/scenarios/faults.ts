import { setTimeout as sleep } from 'node:timers/promises';
import { eventTypeOf, handedOut, headerOf, kindOf, type Exchange } from '../exchange.js';
import type { RequestFault } from '../fault-proxy.js';
import { demand } from '../kit-error.js';
import { demandTimeline } from '../kit-runs.js';
import { IMAGES } from '../program-traces.js';
import type { Scenario } from '../scenario.js';

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
    async play(stage) {
      const { runs, proxy } = stage;
      const lost: Exchange[] = [];
      proxy.faults = {
        onAnswer: (asked) => {
          if (handedOut(asked).length === 0 || lost.length === LOSSES) return null;
          lost.push(asked);
          return { kind: 'cut' };
        },
      };
      await stage.startWorker();
      const id = await runs.create(IMAGES.plain, { mark: 'lost-claim-answer' });
      await stage.until('a claim was answered with the run', () => lost.length > 0);
      const [first] = lost;
      const next = (): Exchange | undefined =>
        proxy.exchanges
          .slice(1 + proxy.exchanges.findIndex((asked) => asked === first))
          .find((asked) => kindOf(asked) === 'claim');
      await stage.until('the claim was asked again', () => next() !== undefined);
      const keys = [first, next()].map((asked) => asked && headerOf(asked, 'Idempotency-Key'));
      demand(keys[0] === keys[1], 'the claim was not asked again under the same Idempotency-Key');
      const run = await runs.untilState(id, 'COMPLETED');
      demandTimeline(run, '1 STARTED, 1 COMPLETED');
      await stage.demandStarts('lost-claim-answer', 1);
    },
  },
  {
    name: 'duplicate-reports',
    promise: 'reports whose answers were lost are repeated under their keys, and are on the timeline once',
    async play(stage) {
      const { runs, proxy } = stage;
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
      await stage.startWorker();
      const print = ['{"type":"PROGRESS","msg":30}'];
      const id = await runs.create(IMAGES.plain, { mark: 'duplicate-reports', print, outputs: { once: 1 } });
      demandTimeline(await runs.untilState(id, 'COMPLETED'), '1 STARTED, 1 PROGRESS 30, 1 COMPLETED');
      proxy.faults = {};
      await stage.demandAnotherRun();
      demandTimeline(await runs.get(id), '1 STARTED, 1 PROGRESS 30, 1 COMPLETED');
      for (const type of ['STARTED', 'PROGRESS', 'COMPLETED']) {
        const keys = new Set(stage.reportsOf(id, type).map((asked) => headerOf(asked, 'Idempotency-Key')));
        demand(keys.size === 1, `${type} was sent under ${keys.size} keys`);
      }
      await stage.demandStarts('duplicate-reports', 1);
    },
  },
  {
    name: 'busy-service',
    promise: 'answers 3xx, 429 and 5xx are waited out for as long as they ask, and no redirect is followed',
    async play(stage) {
      const { runs, proxy } = stage;
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
      await stage.startWorker();
      const id = await runs.create(IMAGES.plain, { mark: 'busy-service' });
      demandTimeline(await runs.untilState(id, 'COMPLETED'), '1 STARTED, 1 COMPLETED');
      await stage.demandStarts('busy-service', 1);
    },
  },
  {
    name: 'cancel',
    promise: 'a cancelled run has its program stopped, and the worker carries on',
    async play(stage) {
      const { runs } = stage;
      await stage.startWorker();
      const id = await stage.endlessRun('cancel');
      await runs.cancel(id);
      await stage.untilProgramEnded('cancel');
      await stage.demandAnotherRun();
      demandTimeline(await runs.get(id), '1 STARTED, 1 CANCELLED');
      await stage.demandStarts('cancel', 1);
      await stage.untilFolderGone('cancel');
    },
  },
  {
    name: 'partition',
    promise: 'a worker that was cut off longer than the timeout changes nothing any more, and carries on',
    async play(stage) {
      const { runs, proxy, traces } = stage;
      await stage.startWorker();
      const program = { mark: 'partition', gate: 'partition-gate', outputs: { by: 'the late worker' } };
      const id = await runs.create(IMAGES.plain, program);
      await runs.untilState(id, 'RUNNING');
      await stage.until('the program works', async () => (await traces.startsOf('partition')).length === 1);
      proxy.part();
      await runs.until(id, 'is taken back', (run) => run.current_attempt === 2);
      const second = stage.secondWorker();
      await second.takeOver(id, 2, stage.patienceMs);
      await traces.openGate('partition-gate');
      await stage.untilProgramEnded('partition');
      const from = proxy.exchanges.length;
      proxy.heal();
      // Whoever asks for the run first need not report; one that reports is refused.
      await stage.until('the worker speaks about the run, or asks for work', () =>
        stage
          .since(from)
          .some(
            (asked) => asked.delivered && (asked.path.startsWith(`/runs/${id}`) || kindOf(asked) === 'claim'),
          ),
      );
      await sleep(stage.timeoutMs / 3);
      await second.complete(id, 2, { by: 'the second worker' });
      await stage.demandAnotherRun();
      const run = await runs.get(id);
      demandTimeline(run, '1 STARTED, 1 RECLAIMED, 2 STARTED, 2 COMPLETED');
      demand(run.outputs['by'] === 'the second worker', 'the outputs are those of the late worker');
      const unfenced = stage
        .reportsOf(id)
        .find(
          (asked) =>
            headerOf(asked, 'X-Worker-Id') === undefined || headerOf(asked, 'X-Run-Attempt') === undefined,
        );
      demand(unfenced === undefined, 'a report was sent without X-Worker-Id and X-Run-Attempt');
      await stage.demandStarts('partition', 1);
    },
  },
];
