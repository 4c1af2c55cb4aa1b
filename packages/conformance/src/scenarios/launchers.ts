import { headerOf, inOrder } from '../exchange.js';
import { checkTimeline } from '../kit-runs.js';
import type { ScenarioContext } from '../scenario-context.js';
import { check, type Scenario } from '../scenario.js';
import type { WorkerUnderTest } from '../worker-under-test.js';
import { checkExit } from './shutdown.js';

/** Time for the next process of a launcher to adopt its jobs before they are reclaimed, in seconds. */
const ADOPTION_TIMEOUT_S = 60;

/**
 * Only for launchers, workers whose heartbeats have `engine`, and for workers that leave their programs to their next process: the
 * last heartbeat before they end has `away_s`. Other workers pass.
 */
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
    name: 'left',
    promise:
      'a worker that leaves its program at SIGTERM says so in its last heartbeat and exits with 0; the program goes on, also after kill -9, and the next process reports the end',
    workerTimeoutS: ADOPTION_TIMEOUT_S,
    run: async (context) => {
      const worker = await context.startWorker(context.workerId, { SERVICE_WORKER_DRAIN: '0' });
      const run = await heldRun(context, 'stopped');
      const fromMs = performance.now();
      worker.terminate();
      await checkExit(context, worker);
      if (context.awaySeconds === null) {
        check(!context.isLauncher, 'the last heartbeat of a launcher that left its job has no away_s');
        return;
      }
      context.checkNoReports(run.id, fromMs, 'though its program goes on');
      const next = await adopt(context, run);
      const other = await heldRun(context, 'killed');
      await next.kill();
      await adopt(context, other);
    },
  },
];

interface HeldRun {
  readonly id: string;
  readonly mark: string;
  readonly gate: string;
}

/** A run whose program runs until its gate is opened. */
async function heldRun(context: ScenarioContext, how: string): Promise<HeldRun> {
  const mark = `${context.name}-${how}`;
  const gate = `${mark}-gate`;
  return { id: await context.startedRun({ mark, gate, outputs: { done: true } }), mark, gate };
}

/** Starts the next process, which completes the run that the one before has left. */
async function adopt(context: ScenarioContext, { id, mark, gate }: HeldRun): Promise<WorkerUnderTest> {
  const { runs, traces, proxy } = context;
  check(await context.programRuns(mark), 'the program was stopped with its worker');
  const from = proxy.exchanges.length;
  const worker = await context.startWorker(context.workerId, { SERVICE_WORKER_DRAIN: '0' });
  await context.untilNamed(id, from);
  await traces.openGate(gate);
  const run = await runs.untilState(id, 'COMPLETED');
  checkTimeline(run, '1 STARTED, 1 COMPLETED');
  check(run.outputs['done'] === true, 'the outputs of the adopted run are missing');
  await context.checkStarts(mark, 1);
  return worker;
}
