import { setTimeout as sleep } from 'node:timers/promises';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { isPoll, type Exchange } from '../exchange.js';
import type { RequestFault } from '../fault-proxy.js';
import { answeredByOlder, refusedByOlder } from '../older-service.js';
import { check, type Scenario } from '../scenario.js';
import { checkTimeline } from '../kit-runs.js';
import type { ScenarioContext } from '../scenario-context.js';

/** Answers to a poll that say nothing about the run. */
const SAYS_NOTHING: readonly RequestFault[] = [
  { kind: 'answer', status: 404 },
  { kind: 'answer', status: 503 },
  { kind: 'cut' },
];

/** Time in which a program would be stopped wrongly, in milliseconds. */
const STOPPING_MS = 500;

/** Polls of a run whose program is running. The proxy makes the service an older one, whose heartbeats name no lost runs. */
export const POLLS: readonly Scenario[] = [
  {
    name: 'blind-looks',
    promise: 'a poll that is answered with 404, 5xx or nothing stops no program',
    async run(context) {
      const { runs, proxy, traces } = context;
      await context.startWorker();
      const id = await context.startedRun({ mark: 'blind-looks', gate: 'blind-gate' });
      let blind = 0;
      proxy.faults = {
        onRequest: (asked) =>
          refusedByOlder(asked) ?? (isPoll(asked, id) ? (SAYS_NOTHING[blind++] ?? null) : null),
        onAnswer: answeredByOlder,
      };
      await context.until(
        'the worker has polled the run again and again',
        () => blind >= SAYS_NOTHING.length,
      );
      await sleep(STOPPING_MS);
      check(
        await context.programRuns('blind-looks'),
        'the program was stopped because of a 404, a 5xx or no answer',
      );
      await traces.openGate('blind-gate');
      checkTimeline(await runs.untilState(id, 'COMPLETED'), '1 STARTED, 1 COMPLETED');
    },
  },
  {
    name: 'taken-over',
    promise: 'a poll that shows another attempt, another worker or none stops the program',
    async run(context) {
      await context.startWorker();
      await takenOver(context, 'another-attempt', (run) => ({ ...run, current_attempt: 2 }));
      await takenOver(context, 'another-worker', (run) => withWorker(run, { worker_id: 'somebody-else' }));
      await takenOver(context, 'no-worker', (run) => withWorker(run, {}));
      await context.checkAnotherRun();
    },
  },
];

/** Alters the answers to polls: the program has to end, and nothing is reported. */
async function takenOver(
  context: ScenarioContext,
  mark: string,
  otherwise: (run: JsonObject) => JsonObject,
): Promise<void> {
  const { runs, proxy } = context;
  const id = await context.startedRun({ mark });
  const shown: Exchange[] = [];
  proxy.faults = {
    onRequest: refusedByOlder,
    onAnswer: (asked) => {
      const run = asked.answer?.body;
      if (!isPoll(asked, id) || !isJsonObject(run)) return answeredByOlder(asked);
      shown.push(asked);
      return { kind: 'alter', body: otherwise(run) };
    },
  };
  await context.untilProgramEnded(mark);
  context.checkNoReports(id, shown[0]?.atMs ?? 0, `after a poll had shown ${mark}`);
  await runs.cancel(id);
  proxy.faults = {};
}

function withWorker({ execution_summary: summary, ...run }: JsonObject, worker: JsonObject): JsonObject {
  const { worker_id: _, ...others } = isJsonObject(summary) ? summary : {};
  return { ...run, execution_summary: { ...others, ...worker } };
}
