import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { ExtraConstraints } from '../../../src/database/entities/run.entity.js';
import { createRun, NEEDS, type Need } from '../../../src/runs/machine/run.js';
import { avoidanceEnd, isClaimable } from '../../../src/runs/machine/timers.js';
import { FAILURE_CAUSES, MAX_EXIT_CODE } from '../../../src/runs/machine/event-types.js';
import { readEvent, type ReportedEvent } from '../../../src/runs/machine/run-event.js';
import type { RunCommand } from '../../../src/runs/machine/run-command.js';
import type { TestAnswer } from '../app/test-app.js';
import { freshRun } from './journal.js';
import { anyAction, type Action } from './model-actions.js';
import { ModelEdges } from './model-edges.js';
import { ModelRun } from './run-model.js';
import { RunSteps } from './run-steps.js';

/** What the model knows: the runs by age, what they wait for, and which worker reported to which process. */
export interface Model {
  readonly runs: ModelRun[];
  readonly edges: ModelEdges;
  readonly workers: Set<string>;
  /** States and refusals that occurred, so that a test can tell how far its sequences came. */
  readonly seen: Set<string>;
}

/** The processes under test, all on one database, and what worker names begin with in this sequence. */
export interface Processes {
  readonly steps: readonly [RunSteps, RunSteps];
  readonly prefix: string;
  /** Waits until those that wait have been told of all ends. */
  readonly untilTold: () => Promise<unknown>;
}

type Side = 0 | 1;
type Command = fc.AsyncCommand<Model, Processes>;

/** How a reporter describes itself. */
type Fence = 'silent' | 'true' | 'other worker' | 'other attempt';

const HOLDER = 'holder';
/** The worker that has reported to both processes when a sequence begins. */
const REGISTERED = 'a';

const anySide = fc.constantFrom<Side[]>(0, 1);
const anyWorker = fc.constantFrom(REGISTERED, REGISTERED, 'b');
/** Who says that a run has started: the worker that has it, or one of the two. */
const anyStarter = fc.constantFrom(HOLDER, HOLDER, HOLDER, 'b');
const anyValue = fc.oneof(fc.string({ maxLength: 5 }), fc.integer(), fc.boolean(), fc.constant(null));
const anyObject = fc.dictionary(fc.string({ maxLength: 4 }), anyValue, { maxKeys: 2, noNullPrototype: true });
const anyRetryOn = fc.constantFrom(null, null, ['error'], ['oom', 'exit:0-100']);
const GROWTH: NonNullable<ExtraConstraints['grow']> = {
  ram_mb: { factor: 1.5, max: 6, on: ['error', 'exit:0-100'] },
};
/** From 2 MB of RAM; null: none, and the run does not grow. */
const anyGrowth = fc.constantFrom(null, null, GROWTH);
const anyTopic = fc.constantFrom(null, 'topic-1', 'topic-2');
/** Parents among the runs so far, and what their ends must be. */
const anyDependencies = fc.oneof(
  fc.constant<[number, Need][]>([]),
  fc.array(fc.tuple(fc.nat(), fc.constantFrom<Need[]>(...NEEDS, 'completed')), {
    minLength: 1,
    maxLength: 3,
    size: 'max',
  }),
);

const create: fc.Arbitrary<Command> = fc
  .record({
    side: anySide,
    priority: fc.integer({ min: -1, max: 1 }),
    attempts: fc.integer({ min: 1, max: 2 }),
    outputs: anyObject,
    topic: anyTopic,
    retryOn: anyRetryOn,
    grow: anyGrowth,
    dependsOn: anyDependencies,
  })
  .map((given) => new Create(given));

const heartbeat: fc.Arbitrary<Command> = fc.tuple(anySide, anyWorker).map((given) => new Heartbeat(...given));
const claim: fc.Arbitrary<Command> = fc.tuple(anySide, anyWorker).map((given) => new Claim(...given));

const anyEvent: fc.Arbitrary<ReportedEvent> = fc.oneof(
  anyStarter.map((id) => ({ type: 'STARTED', msg: 'go', payload: { worker_id: id } })),
  anyStarter.map((id) => ({ type: 'STARTED', msg: '', payload: { worker_id: id, gpu_id: 1 } })),
  fc.integer({ min: 0, max: 100 }).map((msg) => ({ type: 'PROGRESS', msg })),
  anyObject.map((outputs) => ({ type: 'COMPLETED', msg: 'done', payload: { outputs } })),
  fc.constant({ type: 'COMPLETED', msg: '' }),
  fc
    .string({ maxLength: 5 })
    .map((text) => ({ type: 'FAILED', msg: 'no', payload: { error_message: text } })),
  fc.constant({ type: 'FAILED', msg: '' }),
  fc
    .record({ cause: fc.constantFrom(...FAILURE_CAUSES), code: fc.nat({ max: MAX_EXIT_CODE }) })
    .map(({ cause, code }) => ({ type: 'FAILED', msg: 'no', payload: { cause, exit_code: code } })),
  fc.constant({ type: 'FAILED', msg: 'no', payload: { cause: 'infrastructure' } }),
  fc.constant({ type: 'CANCELLED', msg: 'stop' }),
  fc.boolean().map((force) => ({ type: 'RETRIED', msg: 'again', payload: { force } })),
  anyObject.map((payload) => ({ type: 'NOTE', msg: 5, payload })),
);
const anyFence = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom<Fence[]>('silent', 'true') },
  { weight: 1, arbitrary: fc.constantFrom<Fence[]>('other worker', 'other attempt') },
);
const report: fc.Arbitrary<Command> = fc
  .tuple(anySide, fc.nat(), anyEvent, anyFence)
  .map((given) => new Report(...given));

const endpoint: fc.Arbitrary<Command> = fc
  .tuple(anySide, fc.nat(), anyAction)
  .map((given) => new Endpoint(...given));

/** Sequences of what clients and workers may do. */
export const MODEL_COMMANDS = fc.commands(
  [
    ...Array.from({ length: 6 }, () => report),
    ...Array.from({ length: 4 }, () => endpoint),
    ...Array.from({ length: 3 }, () => claim),
    ...Array.from({ length: 3 }, () => create),
    heartbeat,
  ],
  { maxCommands: 40, size: 'max' },
);

/** What is known when a sequence begins: one worker, at both processes. */
export async function beginSequence(
  { steps, prefix, untilTold }: Processes,
  seen: Set<string>,
): Promise<Model> {
  for (const process of steps) {
    await process.heartbeat(prefix + REGISTERED);
  }
  const edges = new ModelEdges(steps[0], untilTold, seen);
  return { runs: [], edges, workers: new Set([`0 ${REGISTERED}`, `1 ${REGISTERED}`]), seen };
}

class Create implements Command {
  constructor(
    readonly given: {
      readonly side: Side;
      readonly priority: number;
      readonly attempts: number;
      readonly outputs: object;
      readonly topic: string | null;
      readonly retryOn: readonly string[] | null;
      readonly grow: ExtraConstraints['grow'] | null;
      readonly dependsOn: readonly (readonly [pick: number, need: Need])[];
    },
  ) {}

  check(): boolean {
    return true;
  }

  async run(model: Model, { steps }: Processes): Promise<void> {
    const { side, priority, attempts, outputs, topic, retryOn, grow, dependsOn } = this.given;
    const parents = dependsOn.slice(0, model.runs.length).map(([pick, need]) => ({
      parent: chosen(model.runs, pick),
      need,
    }));
    const ramMb = grow ? 2 : 0;
    const body = await steps[side].create({
      priority,
      outputs,
      constraints: { ram_mb: ramMb },
      retry_policy: { max_attempts: attempts, retry_on: retryOn, grow },
      event_delivery: topic === null ? null : { topic },
      depends_on: parents.map(({ parent, need }) => ({ run: parent.run.id, when: need })),
    });
    const fresh = freshRun({
      id: body.id,
      priority,
      maxAttempts: attempts,
      topic,
      retryOn: retryOn?.join(',') ?? null,
      ramMb,
      extraConstraints: grow ? { grow } : null,
    });
    const carried = { image: 'image', inputs: {}, outputs, topic, createdBy: body.created_by, ramMb };
    const run = new ModelRun(createRun(fresh, new Date(body.createdAt)), carried);
    model.edges.add(run, parents);
    assert.deepEqual(body, run.expected());
    model.runs.push(run);
    await run.compare(steps[other(side)].send);
  }

  toString(): string {
    return `create(${JSON.stringify(this.given)})`;
  }
}

class Heartbeat implements Command {
  constructor(
    readonly at: Side,
    readonly worker: string,
  ) {}

  check(): boolean {
    return true;
  }

  async run(model: Model, { steps, prefix }: Processes): Promise<void> {
    await steps[this.at].heartbeat(prefix + this.worker);
    model.workers.add(`${this.at} ${this.worker}`);
  }

  toString(): string {
    return `heartbeat(${this.at}, ${this.worker})`;
  }
}

class Claim implements Command {
  constructor(
    readonly at: Side,
    readonly worker: string,
  ) {}

  check(): boolean {
    return true;
  }

  async run(model: Model, { steps, prefix }: Processes): Promise<void> {
    const workerId = prefix + this.worker;
    const ops = await steps[this.at].claim(workerId);
    const known = model.workers.has(`${this.at} ${this.worker}`);
    const heads = known ? headsOfQueue(model.runs, workerId, new Date()) : null;
    const head = heads?.late?.run.id === ops[0]?.id ? heads?.late : heads?.first;
    if (!head) {
      assert.deepEqual(ops, []);
      return;
    }
    const { id, attempt, ramMb } = head.run;
    const constraints = { ram_mb: ramMb, vram_mb: 0, cpu: 0, gpu_id: null };
    assert.deepEqual(ops, [{ id, image: 'image', inputs: {}, constraints, attempt }]);
    const { updatedAt } = await steps[this.at].get(id);
    assert.equal(head.apply({ type: 'assign', workerId, gpuId: null }, new Date(updatedAt)), undefined);
    model.seen.add(head.run.state);
    await head.compare(steps[other(this.at)].send);
  }

  toString(): string {
    return `claim(${this.at}, ${this.worker})`;
  }
}

class Report implements Command {
  constructor(
    readonly at: Side,
    readonly pick: number,
    readonly event: ReportedEvent,
    readonly fence: Fence,
  ) {}

  check({ runs }: Readonly<Model>): boolean {
    return runs.length > 0;
  }

  async run(model: Model, { steps, prefix }: Processes): Promise<void> {
    const target = chosen(model.runs, this.pick);
    const { id, attempt, workerId } = target.run;
    const { type, msg, payload = {} } = this.event;
    const holder = workerId ?? prefix + REGISTERED;
    const nameOf = (name: string): string => (name === HOLDER ? holder : prefix + name);
    const { worker_id: starter } = payload;
    const named = typeof starter === 'string' ? { ...payload, worker_id: nameOf(starter) } : payload;
    const sent: ReportedEvent = { type, msg, payload: named };
    const reporter =
      this.fence === 'silent'
        ? {}
        : {
            workerId: this.fence === 'other worker' ? `${prefix}nobody` : holder,
            attempt: this.fence === 'other attempt' ? attempt + 1 : attempt,
          };
    const answer = await steps[this.at].report(id, sent, {
      ...(reporter.workerId === undefined ? {} : { worker: reporter.workerId }),
      ...(reporter.attempt === undefined ? {} : { attempt: reporter.attempt }),
    });
    const event = readEvent(sent);
    assert.ok(!('problems' in event));
    await answered(model, target, { type: 'event', event, reporter }, answer);
    await target.compare(steps[other(this.at)].send);
  }

  toString(): string {
    return `report(${this.at}, run ${this.pick}, ${JSON.stringify(this.event)}, ${this.fence})`;
  }
}

class Endpoint implements Command {
  constructor(
    readonly at: Side,
    readonly pick: number,
    readonly action: Action,
  ) {}

  check({ runs }: Readonly<Model>): boolean {
    return runs.length > 0;
  }

  async run(model: Model, { steps }: Processes): Promise<void> {
    const { breaking } = model.edges;
    const isAboutEnd = this.action.setsRight && breaking.length > 0;
    const target = chosen(isAboutEnd ? breaking : model.runs, this.pick);
    const { method, path, body, command } = this.action;
    const answer = await steps[this.at].send(method, `/runs/${target.run.id}${path}`, {
      ...(body && { body }),
    });
    await answered(model, target, command, answer);
    await target.compare(steps[other(this.at)].send);
  }

  toString(): string {
    return `endpoint(${this.at}, run ${this.pick}, ${JSON.stringify(this.action)})`;
  }
}

/** Carries out a command that a service has answered, and what its end does to those that wait for it. */
async function answered(
  { edges, seen }: Model,
  target: ModelRun,
  command: RunCommand,
  answer: TestAnswer,
): Promise<void> {
  const before = target.run.state;
  seen.add(target.answered(command, answer));
  await edges.follow(target, before, command);
}

function other(at: Side): Side {
  return at === 0 ? 1 : 0;
}

function chosen(runs: readonly ModelRun[], pick: number): ModelRun {
  return runs[pick % runs.length] ?? assert.fail('there is a run to choose');
}

/**
 * The pending run that a claim has to get: priority descending, then age, then id; none that avoids the worker. It may also
 * get `late`, whose avoidance is over: the service ends it a moment later.
 */
function headsOfQueue(
  runs: readonly ModelRun[],
  workerId: string,
  now: Date,
): { readonly first: ModelRun | undefined; readonly late: ModelRun | undefined } {
  const pending = runs
    .filter(({ run }) => isClaimable(run))
    .toSorted(
      ({ run: a }, { run: b }) =>
        b.priority - a.priority || a.createdAt.getTime() - b.createdAt.getTime() || (a.id < b.id ? -1 : 1),
    );
  const avoids = ({ run }: ModelRun): boolean => run.avoidedWorker === workerId;
  const isOver = ({ run }: ModelRun): boolean => (avoidanceEnd(run) ?? now) <= now;
  return {
    first: pending.find((one) => !avoids(one)),
    late: pending.find((one) => !avoids(one) || isOver(one)),
  };
}
