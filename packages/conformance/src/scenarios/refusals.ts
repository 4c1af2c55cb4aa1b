import { BEFORE_START, eventTypeOf, headerOf, inOrder, runOf } from '../exchange.js';
import type { RequestFault } from '../fault-proxy.js';
import { check, type Scenario } from '../scenario.js';
import { checkTimeline } from '../kit-runs.js';
import type { ScenarioContext } from '../scenario-context.js';

const PROGRESS = '{"type":"PROGRESS","msg":10}';

/** Answers that settle something against the worker. */
export const REFUSALS: readonly Scenario[] = [
  {
    name: 'lost-attempt',
    promise: 'a report that is answered with 409, or 400 for a run that has ended, stops the program',
    async run(context) {
      await context.startWorker();
      await lostAttempt(context, 'conflict', { kind: 'answer', status: 409 });
      const detail = 'Run is already in terminal state CANCELLED';
      await lostAttempt(context, 'ended', { kind: 'answer', status: 400, detail });
      await context.checkAnotherRun();
    },
  },
  {
    name: 'refused-end',
    promise: 'a COMPLETED that is refused becomes FAILED, and a FAILED that is refused a plain one',
    async run(context) {
      const { runs, proxy } = context;
      await context.startWorker();
      for (const [type, status] of [
        ['COMPLETED', 400],
        ['COMPLETED', 413],
        ['FAILED', 400],
      ] as const) {
        const refusals: readonly RequestFault[] = [{ kind: 'answer', status }];
        proxy.faults = { onRequest: inOrder({ [type]: refusals }) };
        const mark = `refused-${type}-${status}`;
        const id = await runs.create({ mark, exit: type === 'FAILED' ? 1 : 0 });
        const run = await runs.untilState(id, 'FAILED');
        checkTimeline(run, '1 STARTED, 1 FAILED');
        check((run.execution_summary.error_message ?? '') !== '', 'error_message is empty');
        const reports = context
          .reportsOf(id)
          .filter((asked) => !BEFORE_START.includes(eventTypeOf(asked) ?? ''));
        const keys = reports.map((asked) => headerOf(asked, 'Idempotency-Key'));
        check(new Set(keys).size === 3, `a FAILED after a refused ${type} needs a key of its own`);
      }
    },
  },
  {
    name: 'key-refused',
    promise:
      'a key that stays refused, also by GET /whoami, ends the worker and its program, not the job of a launcher; nothing is reported',
    async run(context) {
      const { proxy, runs } = context;
      const worker = await context.startWorker(context.workerId, { SERVICE_WORKER_DRAIN: '1' });
      const id = await context.startedRun({ mark: 'key-refused' });
      const fromMs = performance.now();
      proxy.faults = { onRequest: () => ({ kind: 'answer', status: 401 }) };
      await context.until(
        'the worker, whose key is refused with 401, has ended',
        () => worker.hasEnded,
        context.timeoutMs * 8,
      );
      const asked = proxy.exchanges.filter(({ path, atMs }) => path === '/whoami' && atMs >= fromMs);
      check(asked.length >= 3, 'the worker ended without asking several times about its key by GET /whoami');
      const askedMs = (asked.at(-1)?.atMs ?? 0) - (asked[0]?.atMs ?? 0);
      check(
        askedMs >= context.timeoutMs / 2,
        `the worker asked about its key for ${askedMs.toFixed(0)} ms only`,
      );
      const { code } = await worker.exited;
      check(code !== 0, 'the worker exited with 0, as if all were well');
      const isLeft = context.isLauncher;
      if (isLeft)
        check(await context.programRuns('key-refused'), 'the program was stopped with its launcher');
      else await context.untilProgramEnded('key-refused');
      context.checkNoReports(id, fromMs, 'though the key was refused');
      if (!isLeft) return;
      proxy.faults = {};
      await runs.cancel(id);
      await context.startWorker();
      await context.untilProgramEnded('key-refused');
    },
  },
];

/** The first PROGRESS is refused so: the program has to end, and nothing more is reported. */
async function lostAttempt(context: ScenarioContext, mark: string, fault: RequestFault): Promise<void> {
  const { runs, proxy } = context;
  let refusedAtMs: number | null = null;
  proxy.faults = {
    onRequest: (asked) => {
      if (eventTypeOf(asked) !== 'PROGRESS' || runOf(asked) === null) return null;
      refusedAtMs ??= asked.atMs;
      return fault;
    },
  };
  const id = await context.startedRun({ mark, print: [PROGRESS] });
  await context.until('the worker has reported what the program printed', () => refusedAtMs !== null);
  await context.untilProgramEnded(mark);
  context.checkNoReports(id, refusedAtMs ?? 0, 'after the attempt was lost');
  await runs.cancel(id);
  proxy.faults = {};
}
