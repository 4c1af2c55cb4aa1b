import { setTimeout as sleep } from 'node:timers/promises';
import { isPoll, kindOf, namedRuns, type Exchange } from '../exchange.js';
import { checkTimeline } from '../kit-runs.js';
import { check, type Scenario } from '../scenario.js';
import type { ScenarioContext } from '../scenario-context.js';

/** Long enough for a worker to send heartbeats that wait, in seconds. */
const WAITING_TIMEOUT_S = 60;

/** How often a heartbeat is cut. */
const CUTS = 2;

/** Time in which a program would be stopped wrongly, in milliseconds. */
const STOPPING_MS = 500;

/** Time in which a worker learns of a lost run and stops its program, in milliseconds: a second, and some grace. */
const LEARNING_MS = 6_000;

/** Answers to heartbeats that name lost runs. A worker that polls its runs although they do keeps the rules, too. */
export const HEARTBEATS: readonly Scenario[] = [
  {
    name: 'told-by-heartbeat',
    promise: 'a cancelled run has its program stopped although the service answers no poll',
    async run(context) {
      const { runs, proxy } = context;
      const mark = 'told-by-heartbeat';
      await context.startWorker();
      const id = await context.startedRun({ mark });
      let polls = 0;
      proxy.faults = {
        onRequest: (asked) => {
          if (!isPoll(asked, id)) return null;
          polls += 1;
          return { kind: 'answer', status: 503 };
        },
      };
      const cancelledAtMs = performance.now();
      await runs.cancel(id);
      await context.until(
        'the program has ended',
        async () => polls > 0 || !(await context.programRuns(mark)),
        LEARNING_MS,
      );
      proxy.faults = {};
      await endedByCancel(context, id, mark, cancelledAtMs);
    },
  },
  {
    name: 'cut-heartbeat',
    promise: 'a heartbeat that is cut while it waits stops no program; the next one tells of the cancel',
    workerTimeoutS: WAITING_TIMEOUT_S,
    async run(context) {
      const { runs, proxy } = context;
      const mark = 'cut-heartbeat';
      await context.startWorker();
      const id = await context.startedRun({ mark });
      const from = proxy.exchanges.length;
      for (let cuts = 0; cuts <= CUTS; cuts += 1) {
        await context.until('a heartbeat with the run waits', async () => {
          await checkRuns(context, mark);
          const isHeld = proxy.exchanges.some((asked) => isWaiting(asked, id));
          return isHeld || context.since(from).some((asked) => isPoll(asked, id));
        });
        if (cuts < CUTS) proxy.cutAll();
      }
      await sleep(STOPPING_MS);
      await checkRuns(context, mark);
      const cancelledAtMs = performance.now();
      await runs.cancel(id);
      await endedByCancel(context, id, mark, cancelledAtMs);
    },
  },
];

async function checkRuns(context: ScenarioContext, mark: string): Promise<void> {
  check(await context.programRuns(mark), 'the program was stopped because a heartbeat was cut');
}

async function endedByCancel(
  context: ScenarioContext,
  id: string,
  mark: string,
  cancelledAtMs: number,
): Promise<void> {
  await context.untilProgramEnded(mark, LEARNING_MS);
  context.checkNoReports(id, cancelledAtMs, 'after the cancel');
  await context.checkAnotherRun();
  checkTimeline(await context.runs.get(id), '1 STARTED, 1 CANCELLED');
  await context.checkStarts(mark, 1);
}

/** Whether it is a heartbeat that names the run and waits for its answer. */
function isWaiting(asked: Exchange, runId: string): boolean {
  return (
    kindOf(asked) === 'heartbeat' &&
    asked.query.has('wait') &&
    asked.doneAtMs === null &&
    namedRuns(asked).includes(runId)
  );
}
