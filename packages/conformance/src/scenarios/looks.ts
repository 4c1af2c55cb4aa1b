import { setTimeout as sleep } from 'node:timers/promises';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { kindOf, runOf, type Exchange } from '../exchange.js';
import type { RequestFault } from '../fault-proxy.js';
import { demand } from '../kit-error.js';
import { demandTimeline } from '../kit-runs.js';
import { IMAGES, isRunning } from '../program-traces.js';
import type { Scenario } from '../scenario.js';
import type { Stage } from '../stage.js';

/** What says nothing about a run, though it comes instead of an answer to a look. */
const SAYS_NOTHING: readonly RequestFault[] = [
  { kind: 'answer', status: 404 },
  { kind: 'answer', status: 503 },
  { kind: 'cut' },
];

/** Time for a program to be stopped that should not be, in milliseconds. */
const STOPPING_MS = 500;

/** Looks at a run whose program works. */
export const LOOKS: readonly Scenario[] = [
  {
    name: 'blind-looks',
    promise: 'a look that is answered with 404, 5xx or nothing stops no program',
    async play(stage) {
      const { runs, proxy, traces } = stage;
      await stage.startWorker();
      const id = await runs.create(IMAGES.plain, { mark: 'blind-looks', gate: 'blind-gate' });
      await stage.untilWorks('blind-looks');
      let blind = 0;
      proxy.faults = {
        onRequest: (asked) => (isLook(asked, id) ? (SAYS_NOTHING[blind++] ?? null) : null),
      };
      await stage.until(
        'the worker has looked at the run again and again',
        () => blind >= SAYS_NOTHING.length,
      );
      await sleep(STOPPING_MS);
      const isThere = (await traces.startsOf('blind-looks')).every(({ pid }) => isRunning(pid));
      demand(isThere, 'the program was stopped because of a 404, a 5xx or no answer');
      await traces.openGate('blind-gate');
      demandTimeline(await runs.untilState(id, 'COMPLETED'), '1 STARTED, 1 COMPLETED');
    },
  },
  {
    name: 'taken-over',
    promise: 'a look that shows another attempt, another worker or none stops the program',
    async play(stage) {
      await stage.startWorker();
      await takenOver(stage, 'another-attempt', (run) => ({ ...run, current_attempt: 2 }));
      await takenOver(stage, 'another-worker', (run) => withWorker(run, { worker_id: 'somebody-else' }));
      await takenOver(stage, 'no-worker', (run) => withWorker(run, {}));
      await stage.demandAnotherRun();
    },
  },
];

/** The run is shown otherwise from now on: its program has to end, and nothing is reported. */
async function takenOver(
  stage: Stage,
  mark: string,
  otherwise: (run: JsonObject) => JsonObject,
): Promise<void> {
  const { runs, proxy } = stage;
  const id = await stage.endlessRun(mark);
  const shown: Exchange[] = [];
  proxy.faults = {
    onAnswer: (asked) => {
      const run = asked.answer?.body;
      if (!isLook(asked, id) || !isJsonObject(run)) return null;
      shown.push(asked);
      return { kind: 'alter', body: otherwise(run) };
    },
  };
  await stage.untilProgramEnded(mark);
  stage.demandNoReports(id, shown[0]?.atMs ?? 0, `after a look had shown ${mark}`);
  await runs.cancel(id);
  proxy.faults = {};
}

function withWorker({ execution_summary: summary, ...run }: JsonObject, worker: JsonObject): JsonObject {
  const { worker_id: _, ...others } = isJsonObject(summary) ? summary : {};
  return { ...run, execution_summary: { ...others, ...worker } };
}

function isLook(asked: Exchange, runId: string): boolean {
  return kindOf(asked) === 'run' && runOf(asked) === runId;
}
