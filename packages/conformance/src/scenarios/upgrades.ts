import { kindOf, namedRuns, type Exchange } from '../exchange.js';
import { checkTimeline } from '../kit-runs.js';
import { answeredByOlder, refusedByOlder } from '../older-service.js';
import { check, type Scenario } from '../scenario.js';

const OLDER = { onRequest: refusedByOlder, onAnswer: answeredByOlder };

/** How many heartbeats may be refused until the worker sends only what an older service knows. */
const MAX_REFUSED = 2;

/** A service that knows the first version of the interface alone, and refuses all else with 400. */
export const UPGRADES: readonly Scenario[] = [
  {
    name: 'older-service',
    promise:
      'a service that refuses with 400 what is newer than it has its plain runs executed, reported and cancelled',
    async run(context) {
      const { runs, proxy } = context;
      proxy.faults = OLDER;
      await context.startWorker();
      const { outputs } = await context.completedRun({ mark: 'older-done', outputs: { done: true } });
      check(outputs['done'] === true, `the outputs are not reported: ${JSON.stringify(outputs)}`);
      const failed = await runs.create({ mark: 'older-failed', exit: 3 });
      checkTimeline(await runs.untilState(failed, 'FAILED'), '1 STARTED, 1 FAILED');
      const cancelled = await context.startedRun({ mark: 'older-cancelled' });
      await runs.cancel(cancelled);
      await context.untilProgramEnded('older-cancelled');
      const refused = proxy.exchanges.filter((asked) => isHeartbeat(asked, 400)).length;
      check(
        refused <= MAX_REFUSED,
        `${refused} heartbeats were refused: the worker repeats in them what an older service does not know`,
      );
    },
  },
  {
    name: 'rolled-back',
    promise:
      'a service that becomes an older one and is upgraded again loses no run, and is told all capabilities again',
    async run(context) {
      const { runs, proxy, traces } = context;
      const mark = 'rolled-back';
      await context.startWorker();
      const announced = context.capabilities;
      const id = await context.startedRun({ mark, gate: mark });
      proxy.faults = OLDER;
      const from = proxy.exchanges.length;
      await context.until('the older service takes a heartbeat that names the run', () =>
        context.since(from).some((asked) => isHeartbeat(asked, 200) && namedRuns(asked).includes(id)),
      );
      await traces.openGate(mark);
      checkTimeline(await runs.untilState(id, 'COMPLETED'), '1 STARTED, 1 COMPLETED');
      proxy.faults = {};
      await context.until('heartbeats announce what they did before', () =>
        announced.every((capability) => context.capabilities.includes(capability)),
      );
      await context.checkAnotherRun();
      await context.checkStarts(mark, 1);
    },
  },
];

function isHeartbeat(asked: Exchange, status: number): boolean {
  return kindOf(asked) === 'heartbeat' && asked.answer?.status === status;
}
