import { headerOf, inOrder } from '../exchange.js';
import { checkTimeline } from '../kit-runs.js';
import type { ScenarioContext } from '../scenario-context.js';
import { check, type Scenario } from '../scenario.js';
import type { WorkerUnderTest } from '../worker-under-test.js';
import { checkExit } from './shutdown.js';

/** Time for the next process of a launcher to adopt its jobs before they are reclaimed, in seconds. */
const ADOPTION_TIMEOUT_S = 60;

/** Only for launchers: workers whose heartbeats have `engine`. Other workers pass. */
export const LAUNCHERS: readonly Scenario[] = [
  {
    name: 'submitted',
    promise: 'a launcher reports SUBMITTED before STARTED, once although the answer is lost',
    async run(context) {
      const { proxy } = context;
      const cut = { kind: 'cut' } as const;
      proxy.faults = { onAnswer: inOrder({ SUBMITTED: [cut] }) };
      await context.startWorker();
      if (!context.isLauncher) return;
      const run = await context.completedRun({ mark: 'submitted' });
      const keys = context.reportsOf(run.id, 'SUBMITTED').map((asked) => headerOf(asked, 'Idempotency-Key'));
      check(keys.length > 1 && keys[0] === keys[1], 'SUBMITTED was not repeated under its Idempotency-Key');
      const entries = run.events.filter(({ type }) => type === 'SUBMITTED').length;
      check(entries === new Set(keys).size, `SUBMITTED is on the timeline ${entries} times`);
    },
  },
  {
    name: 'launcher-stopped',
    promise: 'at SIGTERM a launcher exits with 0, its job goes on, and its next process reports the end',
    workerTimeoutS: ADOPTION_TIMEOUT_S,
    run: (context) =>
      adopts(context, async (worker) => {
        worker.terminate();
        await checkExit(context, worker);
      }),
  },
  {
    name: 'launcher-killed',
    promise: 'after kill -9 the job of a launcher goes on, and its next process reports the end',
    workerTimeoutS: ADOPTION_TIMEOUT_S,
    run: (context) => adopts(context, (worker) => worker.kill()),
  },
];

/** Ends the launcher while its job runs, and starts it again. */
async function adopts(
  context: ScenarioContext,
  end: (worker: WorkerUnderTest) => Promise<void>,
): Promise<void> {
  const { runs, traces, proxy, name: mark } = context;
  const worker = await context.startWorker();
  if (!context.isLauncher) return;
  const gate = `${mark}-gate`;
  const id = await context.startedRun({ mark, gate, outputs: { done: true } });
  const fromMs = performance.now();
  await end(worker);
  check(await context.programRuns(mark), 'the program was stopped with its launcher');
  context.checkNoReports(id, fromMs, 'though the job goes on');
  const from = proxy.exchanges.length;
  await context.startWorker();
  await context.untilNamed(id, from);
  await traces.openGate(gate);
  const run = await runs.untilState(id, 'COMPLETED');
  checkTimeline(run, '1 STARTED, 1 COMPLETED');
  check(run.outputs['done'] === true, 'the outputs of the adopted job are missing');
  await context.checkStarts(mark, 1);
}
