import { TERMINAL_STATES } from '@longshore/client/constants';
import { inOrder, kindOf, namedRuns, runOf } from '../exchange.js';
import { check, type Scenario } from '../scenario.js';
import { checkTimeline, type Run } from '../kit-runs.js';
import { IMAGES, isRunning } from '../program-traces.js';
import type { ScenarioContext } from '../scenario-context.js';

/** How much longer than the worker timeout something takes that must not cost the worker its run. */
const LONGER = 1.4;

/** The part of the worker timeout that a slow answer takes. */
const SLOW = 0.7;

/** The longest ordinary pause between two heartbeats, as a part of the worker timeout: a third, and some tolerance. */
const LONGEST_PAUSE = 0.45;

/** How often the final event is cut off. */
const CUTS = 3;

/** Least third pause of repetitions that begin with about half a second and grow, in milliseconds. */
const LEAST_THIRD_PAUSE_MS = 900;

/** Seconds that the pull of `slow-pull` takes under that worker timeout. */
export function slowPullSeconds(workerTimeoutS: number): number {
  return workerTimeoutS * LONGER;
}

/** Heartbeats that go on, and lives that end. */
export const LIVENESS: readonly Scenario[] = [
  {
    name: 'long-run',
    promise: 'heartbeats go on and name the run while its program works longer than the worker timeout',
    async run(context) {
      await context.startWorker();
      const program = { mark: 'long-run', sleep_s: (context.timeoutMs / 1000) * LONGER };
      const { id } = await context.completedRun(program);
      checkNamed(context, id);
      checkPace(context);
    },
  },
  {
    name: 'slow-pull',
    promise:
      'the same while the image is pulled and while the service is slow; nothing starts before STARTED is taken',
    async run(context) {
      const { runs, proxy, traces } = context;
      const slow = { kind: 'hold', ms: context.timeoutMs * SLOW } as const;
      proxy.faults = { onAnswer: inOrder({ event: [slow] }) };
      await context.startWorker();
      const id = await runs.create({ mark: 'slow-pull' }, { image: IMAGES.slowPull });
      await context.until('STARTED was sent', async () => {
        checkHeld(await runs.get(id));
        return context.reportsOf(id, 'STARTED').length > 0;
      });
      while (context.reportsOf(id, 'STARTED').every(({ delivered }) => !delivered)) {
        const early = await traces.readStarts('slow-pull');
        check(early.length === 0 || context.isLauncher, 'the program was started before STARTED was taken');
        checkHeld(await runs.get(id));
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      checkTimeline(await runs.untilState(id, 'COMPLETED'), '1 STARTED, 1 COMPLETED');
      await context.checkStarts('slow-pull', 1);
      checkNamed(context, id);
    },
  },
  {
    name: 'unanswered-end',
    promise: 'a final event without an answer is repeated with growing pauses while heartbeats name the run',
    async run(context) {
      const { runs, proxy } = context;
      const cut = { kind: 'cut' } as const;
      proxy.faults = { onRequest: inOrder({ COMPLETED: Array.from({ length: CUTS }, () => cut) }) };
      await context.startWorker();
      const id = await runs.create({ mark: 'unanswered-end' });
      const run = await runs.until(id, 'has ended', ({ state }) => TERMINAL_STATES.has(state));
      checkNamed(context, id);
      checkTimeline(run, '1 STARTED, 1 COMPLETED');
      const tries = context.reportsOf(id, 'COMPLETED');
      const pausesMs = tries.slice(1).map(({ atMs }, index) => atMs - (tries[index]?.atMs ?? 0));
      check(
        (pausesMs[CUTS - 1] ?? 0) >= LEAST_THIRD_PAUSE_MS,
        `the pauses between tries do not grow: ${pausesMs.map((ms) => `${Math.round(ms)} ms`).join(', ')}`,
      );
    },
  },
  {
    name: 'killed-same-id',
    promise: 'after kill -9 and a start under the same id no run is lost, and none is executed twice at once',
    run: (context) => killed(context, context.workerId),
  },
  {
    name: 'killed-other-id',
    promise: 'the same when a worker with another id comes instead',
    run: (context) => killed(context, `${context.workerId}-2`),
  },
];

async function killed(context: ScenarioContext, nextId: string): Promise<void> {
  const { runs, traces } = context;
  const first = await context.startWorker();
  const mark = context.name;
  const gate = `${mark}-gate`;
  const id = await context.startedRun({ mark, gate, outputs: { done: true } });
  const others = [await runs.create({ mark: `${mark}-a` }), await runs.create({ mark: `${mark}-b` })];
  await first.kill();
  const from = context.proxy.exchanges.length;
  await context.startWorker(nextId);
  const { isLauncher } = context;
  const isSame = nextId === context.workerId;
  if (isSame && (isLauncher || (await goesOn(context, id, from)))) {
    await adopted(context, id, gate, from);
    return;
  }
  await runs.until(id, 'is taken back', (run) => run.current_attempt === 2);
  await runs.untilState(id, 'RUNNING', 2);
  await context.until('the program works again', async () => (await traces.readStarts(mark)).length === 2);
  const [old] = await traces.readStarts(mark);
  const isKnown = isLauncher || isSame;
  const isLeft = isKnown && old !== undefined && isRunning(old.pid);
  check(!isLeft, 'the program of the earlier life still works beside the new one');
  await traces.openGate(gate);
  const run = await runs.untilState(id, 'COMPLETED', 2);
  // Under the same id the worker may tell at once what it has lost.
  const loss = isSame && run.events[1]?.type === 'FAILED' ? '1 FAILED, 1 RETRIED' : '1 RECLAIMED';
  checkTimeline(run, `1 STARTED, ${loss}, 2 STARTED, 2 COMPLETED`);
  for (const other of others) {
    // A launcher holds more than one run: the killed one may have had them.
    const ended = await runs.untilState(other, 'COMPLETED', isLauncher ? 2 : 1);
    const completions = ended.events.filter(({ type }) => type === 'COMPLETED').length;
    check(completions === 1, `a run that waited was completed ${completions} times`);
  }
}

/** Whether the first heartbeat of the next process names the run. */
async function goesOn(context: ScenarioContext, id: string, from: number): Promise<boolean> {
  const first = () => context.proxy.exchanges.slice(from).find((asked) => kindOf(asked) === 'heartbeat');
  await context.until('the worker is back', async () => first() !== undefined);
  const beat = first();
  return beat !== undefined && namedRuns(beat).includes(id);
}

/** What goes on after a restart is taken up, as by a launcher the job of its process before, unless the service had taken the run back already. */
async function adopted(context: ScenarioContext, id: string, gate: string, from: number): Promise<void> {
  const { runs, traces, name } = context;
  await context.untilNamed(id, from);
  await traces.openGate(gate);
  const { current_attempt: attempts } = await runs.untilState(id, 'COMPLETED', 2);
  await context.checkStarts(name, attempts);
}

/** @throws RuleViolation unless heartbeats after the claim named the run until the service had its end */
function checkNamed({ proxy }: ScenarioContext, id: string): void {
  const reports = proxy.exchanges.filter((asked) => kindOf(asked) === 'event' && runOf(asked) === id);
  const [from, to] = [reports[0]?.atMs ?? 0, reports.at(-1)?.atMs ?? 0];
  const between = proxy.exchanges.filter(
    (asked) => kindOf(asked) === 'heartbeat' && asked.atMs > from && asked.atMs < to,
  );
  check(between.length > 0, 'there were no heartbeats while the run was in work');
  const silent = between.filter((asked) => !namedRuns(asked).includes(id)).length;
  check(silent === 0, `${silent} of ${between.length} heartbeats did not name the run in running_ops`);
}

/** @throws RuleViolation when heartbeats come too seldom for two of three to get lost; a late one alone is no matter */
function checkPace({ proxy, timeoutMs }: ScenarioContext): void {
  const beats = proxy.exchanges.filter((asked) => kindOf(asked) === 'heartbeat');
  const pauses = beats.slice(1).map(({ atMs }, index) => atMs - (beats[index]?.atMs ?? 0));
  const middle = pauses.toSorted((a, b) => a - b)[Math.floor(pauses.length / 2)] ?? timeoutMs;
  check(
    middle <= timeoutMs * LONGEST_PAUSE,
    `heartbeats came ${Math.round(middle)} ms apart; a third of the worker timeout is ${timeoutMs / 3} ms`,
  );
}

function checkHeld(run: Run): void {
  check(
    run.current_attempt === 1,
    'the service took the run back: heartbeats stood still, or did not name it',
  );
}
