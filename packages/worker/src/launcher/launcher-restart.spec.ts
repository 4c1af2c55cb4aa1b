import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { pino } from 'pino';
import { loadWorkerSettings } from '../load-settings.js';
import type { ServiceApi } from '../service-api/service-api.js';
import { FakeClock } from '../testing/fake-clock.js';
import { FakeCluster, FakeEngine } from '../testing/fake-engine.js';
import { eventTypes, FakeService, type FakeRun } from '../testing/fake-service.js';
import { Worker } from '../worker.js';
import type { Engine } from './engine.js';
import { Launcher } from './launcher.js';

/** When a call of a process is cut off by its end: before the call has an effect, or before its answer. */
type Cut = 'before' | 'after';

/** Kills a process at its n-th call of the service or the engine. */
class Death {
  private readonly killed = new AbortController();
  private calls = 0;

  constructor(
    private readonly at = Infinity,
    private readonly cut: Cut = 'before',
  ) {}

  get isDead(): boolean {
    return this.killed.signal.aborted;
  }

  /** Its connections close. */
  kill(): void {
    this.killed.abort();
  }

  /** The target, whose calls never return after the death. */
  of<T extends object>(target: T, names: readonly (keyof T)[]): T {
    return new Proxy(target, {
      get: (object, name) => {
        const value: unknown = Reflect.get(object, name, object);
        if (typeof value !== 'function') return value;
        const call = (args: unknown[]): unknown => Reflect.apply(value, object, args);
        const isCounted = names.some((counted) => counted === name);
        return (...args: unknown[]) =>
          isCounted ? this.during(() => call(args.map((arg) => this.closing(arg)))) : call(args);
      },
    });
  }

  /** The argument of a call with a signal that the death aborts, too. */
  private closing(arg: unknown): unknown {
    const { signal } = this.killed;
    if (arg instanceof AbortSignal) return AbortSignal.any([arg, signal]);
    return isAbortable(arg) ? { ...arg, signal: AbortSignal.any([arg.signal, signal]) } : arg;
  }

  private async during(call: () => unknown): Promise<unknown> {
    const never = new Promise(() => undefined);
    if (this.isDead) return never;
    this.calls += 1;
    const isLast = this.calls === this.at;
    if (isLast && this.cut === 'before') {
      this.kill();
      return never;
    }
    const answer = await call();
    if (isLast) this.kill();
    return this.isDead ? never : answer;
  }
}

/** Options of a request. */
interface Abortable {
  readonly signal: AbortSignal;
}

function isAbortable(arg: unknown): arg is Abortable {
  return typeof arg === 'object' && arg !== null && 'signal' in arg && arg.signal instanceof AbortSignal;
}

const SERVICE_CALLS = ['heartbeat', 'claim', 'getRun', 'getSecrets', 'postEvent', 'putLogChunk'] as const;
const ENGINE_CALLS = ['nextStatus', 'submit', 'readOutputs', 'remove'] as const;

/** Launchers that share a service, a cluster and a clock. */
class Scene {
  readonly clock = new FakeClock();
  readonly service = new FakeService(this.clock);
  readonly cluster = new FakeCluster();
  /** Exit codes of the launchers that have ended. */
  readonly ended: number[] = [];

  start(workerId = 'k8s-1', death = new Death()): Worker {
    const settings = loadWorkerSettings([], {
      SERVICE_API_KEY: 'key',
      SERVICE_WORKER_ID: workerId,
      SERVICE_WORKER_RUNTIME: 'kubernetes',
    });
    const api = death.of<ServiceApi>(this.service, SERVICE_CALLS);
    const engine = death.of<Engine>(new FakeEngine(this.cluster, workerId), ENGINE_CALLS);
    const worker = new Worker({
      settings,
      workerId,
      api,
      createExecutor: (host) => new Launcher(host, engine, settings),
      clock: this.clock,
      logger: pino({ level: 'silent' }),
      random: () => 0.5,
      tracing: null,
    });
    void worker.run().then((code) => this.ended.push(code));
    return worker;
  }

  untilSubmitted(count = 1): Promise<void> {
    return this.clock.until(`${count} jobs are submitted`, () => this.cluster.submitted.length >= count, 20);
  }

  untilState(run: FakeRun, state: string): Promise<void> {
    return this.clock.until(`the run is ${state}`, () => run.state === state, 20);
  }

  /** What the service does after the worker timeout with a run that no heartbeat lists. */
  reclaim(run: FakeRun): void {
    run.timeline.push({ type: 'RECLAIMED', msg: '', attempt: run.attempt });
    run.state = 'PENDING';
    run.attempt += 1;
    run.workerId = null;
    this.service.wakeClaims();
  }

  /** Whether the newest heartbeat lists the run. */
  isListed({ id }: FakeRun): boolean {
    const newest = this.service.callsOf('heartbeat').at(-1)?.report;
    return newest?.runningOps.some((listed) => listed.id === id) ?? false;
  }

  /** Lets every pending job run and exit with 0. */
  async finishJobs(): Promise<void> {
    for (const job of this.cluster.table.list()) {
      if (job.status.kind === 'pending') this.cluster.set(job, { kind: 'running' });
    }
    await this.clock.pass(1000);
    for (const job of this.cluster.table.list()) {
      const exit = { kind: 'exited', exitCode: 0, outOfMemory: false } as const;
      if (job.status.kind === 'running') this.cluster.set(job, exit);
    }
    await this.clock.pass(5000);
  }
}

describe('a launcher that is killed', () => {
  for (const cut of ['before', 'after'] as const) {
    it(`${cut} any of its requests is followed by one that executes the run once and leaves nothing`, async () => {
      let isOver = false;
      for (let at = 1; !isOver; at += 1) {
        const scene = new Scene();
        scene.cluster.lines = ['{"type":"PROGRESS","msg":50}', 'plain'];
        const run = scene.service.add('run-1');
        const death = new Death(at, cut);
        scene.start('k8s-1', death);
        for (let step = 0; step < 4 && !death.isDead; step += 1) {
          await scene.clock.pass(2000);
          if (!death.isDead) await scene.finishJobs();
        }
        isOver = !death.isDead && run.state === 'COMPLETED';
        if (!isOver) {
          scene.start();
          await scene.clock.pass(3000);
          const isHeld = ['ASSIGNED', 'RUNNING'].includes(run.state);
          if (isHeld && !scene.isListed(run)) scene.reclaim(run);
          for (let step = 0; step < 4 && run.state !== 'COMPLETED'; step += 1) {
            await scene.clock.pass(2000);
            await scene.finishJobs();
          }
          await scene.clock.pass(120_000);
        }
        const what = `killed ${cut} request ${at}: ${eventTypes(run).join(' ')}`;
        assert.equal(run.state, 'COMPLETED', what);
        const count = (type: string): number => eventTypes(run).filter((one) => one === type).length;
        const started = run.timeline.filter(({ type }) => type === 'STARTED').map(({ attempt }) => attempt);
        assert.equal(new Set(started).size, started.length, what);
        assert.equal(count('COMPLETED'), 1, what);
        assert.ok(count('PROGRESS') <= started.length, what);
        assert.equal(scene.cluster.submitted.length, 1, what);
        assert.deepEqual(scene.cluster.table.list(), [], what);
      }
    });
  }
});

describe('a launcher', () => {
  it('at SIGTERM leaves its jobs, reports nothing about them and exits with 0; the next one adopts them', async () => {
    const scene = new Scene();
    const run = scene.service.add('run-1');
    const worker = scene.start();
    await scene.untilSubmitted();
    scene.cluster.set({ runId: 'run-1', attempt: 1 }, { kind: 'running' });
    await scene.untilState(run, 'RUNNING');
    const before = eventTypes(run);
    worker.shutDown();
    await scene.clock.until('the launcher ends', () => scene.ended.length > 0, 20);
    assert.deepEqual([scene.ended, eventTypes(run), scene.cluster.removed], [[0], before, []]);
    scene.start();
    await scene.clock.pass(3000);
    await scene.finishJobs();
    assert.deepEqual(eventTypes(run), [...before, 'COMPLETED']);
    assert.equal(scene.cluster.submitted.length, 1);
    assert.deepEqual(scene.cluster.table.list(), []);
  });

  it('ends the job of an attempt that was reclaimed from another launcher before it submits the next', async () => {
    const scene = new Scene();
    const run = scene.service.add('run-1');
    const gone = new Death();
    scene.start('gone', gone);
    await scene.untilSubmitted();
    scene.cluster.set({ runId: 'run-1', attempt: 1 }, { kind: 'running' });
    await scene.untilState(run, 'RUNNING');
    gone.kill();
    scene.reclaim(run);
    scene.start('other');
    await scene.untilSubmitted(2);
    assert.deepEqual(scene.cluster.removed, ['run-1/1']);
    assert.deepEqual(
      scene.cluster.table.list().map(({ attempt, workerId }) => [attempt, workerId]),
      [[2, 'other']],
    );
  });

  it('leaves the job of a newer attempt alone when its own is lost before it submits', async () => {
    const scene = new Scene();
    const run = scene.service.add('run-1');
    scene.service.onCall = ({ what }) => {
      if (what !== 'getRun') return undefined;
      const newer = { runId: 'run-1', attempt: 2, engineId: 'newer', workerId: 'other' };
      // The first answer still shows the first attempt.
      if (scene.service.callsOf('getRun').length > 1) {
        Object.assign(run, { attempt: 2, state: 'RUNNING', workerId: 'other' });
      } else scene.cluster.table.put({ ...newer, status: { kind: 'running' } });
      return undefined;
    };
    scene.start();
    await scene.clock.pass(60_000);
    assert.equal(run.attempt, 2);
    assert.ok(!scene.cluster.removed.includes('run-1/2'));
    assert.deepEqual(
      scene.cluster.table.list().map(({ engineId }) => engineId),
      ['newer'],
    );
  });

  it('removes a job whose run ended while no launcher was there, also one of another launcher', async () => {
    const scene = new Scene();
    for (const [id, workerId] of [
      ['run-1', 'k8s-1'],
      ['run-2', 'gone'],
    ] as const) {
      scene.service.add(id, { state: 'CANCELLED', workerId });
      const status = { kind: 'running' } as const;
      scene.cluster.table.put({ runId: id, attempt: 1, engineId: `uid-${id}`, workerId, status });
    }
    scene.start();
    await scene.clock.pass(130_000);
    assert.deepEqual(scene.cluster.removed.toSorted(), ['run-1/1', 'run-2/1']);
  });

  it('removes an ended job whose run the service has deleted, and lets one that runs go on', async () => {
    const scene = new Scene();
    for (const [runId, status] of [
      ['run-1', { kind: 'exited', exitCode: 0, outOfMemory: false }],
      ['run-2', { kind: 'running' }],
    ] as const) {
      scene.cluster.table.put({ runId, attempt: 1, engineId: `uid-${runId}`, workerId: 'k8s-1', status });
    }
    scene.start();
    await scene.clock.pass(130_000);
    assert.deepEqual(scene.cluster.removed, ['run-1/1']);
  });

  it('adopts the job of the current attempt and removes that of an earlier one, in whatever order it finds them', async () => {
    for (const attempts of [
      [1, 2],
      [2, 1],
    ]) {
      const scene = new Scene();
      scene.service.add('run-1', { state: 'RUNNING', workerId: 'k8s-1', attempt: 2 });
      for (const attempt of attempts) {
        const status = { kind: 'running' } as const;
        const engineId = `uid-${attempt}`;
        scene.cluster.table.put({ runId: 'run-1', attempt, engineId, workerId: 'k8s-1', status });
      }
      scene.start();
      await scene.clock.pass(130_000);
      assert.deepEqual(scene.cluster.removed, ['run-1/1']);
    }
  });

  it('adopts a thousand jobs well before the worker timeout, though each answer takes its time', async () => {
    const scene = new Scene();
    const jobs = 1000;
    for (let i = 0; i < jobs; i += 1) {
      const runId = `run-${i}`;
      scene.service.add(runId, { state: 'RUNNING', workerId: 'k8s-1' });
      const status = { kind: 'running' } as const;
      scene.cluster.table.put({ runId, attempt: 1, engineId: `uid-${i}`, workerId: 'k8s-1', status });
    }
    const getRun = scene.service.getRun.bind(scene.service);
    scene.service.getRun = async (runId) => {
      await scene.clock.sleep(100);
      return getRun(runId);
    };
    scene.start();
    await scene.clock.pass(10_000);
    const [first] = scene.service.callsOf('heartbeat');
    assert.equal(first?.report?.runningOps.length, jobs);
  });

  it('leaves the running job of another launcher alone', async () => {
    const scene = new Scene();
    scene.service.add('run-1', { state: 'RUNNING', workerId: 'other' });
    const status = { kind: 'running' } as const;
    scene.cluster.table.put({ runId: 'run-1', attempt: 1, engineId: 'uid', workerId: 'other', status });
    scene.start();
    await scene.clock.pass(300_000);
    assert.deepEqual(scene.cluster.removed, []);
  });
});
