import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { containerSpec } from '../container-spec.js';
import type { FakeContainer } from '../fake-runtime.js';
import type { FakeRun } from '../fake-run.js';
import { DOWN, errorMessage, eventTypes, PLAIN } from '../fake-service.js';
import { makeHarness, type HarnessOptions, type WorkerHarness } from '../worker-harness.js';

const WORKER = 'rack/7:a';

interface Scene extends Omit<WorkerHarness, 'container'> {
  readonly harness: WorkerHarness;
  readonly run: FakeRun;
  readonly container: FakeContainer;
}

/** A run whose container an earlier process of the worker has left. */
function leftRun(fields: Partial<FakeRun> = {}, options: HarnessOptions = {}): Scene {
  const harness = makeHarness({ isSuccessor: true, ...options });
  const run = harness.service.add('run-1', { state: 'RUNNING', workerId: WORKER, ...fields });
  const container = harness.runtime.leave({ ...containerSpec('example/image:1'), runId: run.id, attempt: 1 });
  return { ...harness, harness, run, container };
}

/** Prints a line that ends after so many bytes of its stream. */
function printAt(container: FakeContainer, text: string, line: number, end: number): void {
  container.printLine({ stream: 'stdout', text, bytes: { line, end } });
}

/** Starts the worker; the container has printed the lines one, two and tre, and ends. */
async function endWithThreeLines({ harness, run, container }: Pick<Scene, 'harness' | 'run' | 'container'>) {
  for (const [index, text] of ['one', 'two', 'tre'].entries())
    printAt(container, text, 4 * index, 4 * index + 4);
  await harness.start();
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
}

const noteOf = (msg: string): string => JSON.stringify({ type: 'NOTE', msg });

describe('a container of an earlier process', () => {
  test('is gone on with, and its run is in the first heartbeat and not started again', async () => {
    const { harness, run, container, service, runtime } = leftRun();
    await harness.start();
    const [first] = service.callsOf('heartbeat');
    assert.deepEqual(
      first?.report?.runningOps.map(({ id, attempt }) => [id, attempt]),
      [['run-1', 1]],
    );
    container.writeOutputs('{"x": 1}');
    container.ranAt = { startedAt: '2026-01-02T03:04:05.000Z', finishedAt: '2026-01-02T03:05:06.000Z' };
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
    assert.deepEqual(eventTypes(run), ['COMPLETED']);
    const payload = run.timeline.at(-1)?.payload;
    assert.deepEqual(JSON.parse(JSON.stringify(payload)), {
      outputs: { x: 1 },
      started_at: '2026-01-02T03:04:05.000Z',
      finished_at: '2026-01-02T03:05:06.000Z',
    });
    await harness.clock.until('the container is removed', () => container.removed, 50);
    assert.equal(runtime.containers.length, 1);
    assert.equal(await harness.end(), 0);
  });

  test('goes on while the service does not answer, and is neither removed nor is another run claimed', async () => {
    const { harness, run, container, service, runtime } = leftRun();
    service.onCall = ({ what }) => (what === 'getRun' || what === 'listHeld' ? DOWN : undefined);
    const started = harness.start();
    await harness.clock.pass(60_000);
    assert.equal(container.removed, false);
    assert.equal(runtime.leftoversRemoved, 0);
    assert.deepEqual(service.callsOf('claim'), []);
    service.onCall = () => undefined;
    await harness.clock.pass(10_000);
    await started;
    container.end(3);
    await harness.untilState(run, 'FAILED');
    assert.equal(run.timeline.at(-1)?.payload?.['exit_code'], 3);
  });

  test('is named in heartbeats while another one cannot be removed, and no run is claimed then', async () => {
    const { harness, run, container, service, runtime } = leftRun();
    const held: { remove?: () => void } = {};
    runtime.onRemoveLeftovers = () => new Promise((resolve) => (held.remove = resolve));
    await harness.start();
    await harness.clock.pass(120_000);
    const named = service.callsOf('heartbeat').slice(-1)[0]?.report?.runningOps;
    assert.deepEqual(
      named?.map(({ id }) => id),
      ['run-1'],
    );
    assert.deepEqual(service.callsOf('claim'), []);
    held.remove?.();
    await harness.clock.until('a claim', () => service.callsOf('claim').length > 0, 100);
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
  });

  test('that the engine does not show is removed before its attempt is given up', async () => {
    const { harness, run, container, service, runtime } = leftRun();
    runtime.onAdopt = () => Promise.reject(new Error('the engine does not show the container'));
    let isRemovedFirst: boolean | null = null;
    service.onCall = ({ event }) => {
      if (event?.type === 'FAILED') isRemovedFirst ??= container.removed;
      return undefined;
    };
    await harness.start();
    await harness.untilState(run, 'FAILED');
    assert.equal(isRemovedFirst, true);
    assert.equal(run.timeline.at(-1)?.payload?.['cause'], 'infrastructure');
  });

  test('keeps its absence when the worker is stopped before the engine shows its containers', async () => {
    const { harness, run, service, runtime } = leftRun();
    runtime.onFind = () => Promise.reject(new Error('the engine is away'));
    // There is no first heartbeat to wait for.
    harness.start().catch(() => undefined);
    await harness.clock.pass(5_000);
    assert.equal(await harness.end(), 0);
    assert.deepEqual(
      [service.callsOf('heartbeat'), service.callsOf('removeWorker'), run.timeline],
      [[], [], []],
    );
  });

  test('of a lost attempt is removed before the worker claims, and nothing of it is reported', async () => {
    for (const lost of [
      { attempt: 2, workerId: 'other' },
      { workerId: 'other' },
      { state: 'CANCELLED' },
    ] as const) {
      const { harness, run, container, service } = leftRun(lost);
      let isRemovedFirst: boolean | null = null;
      service.onCall = ({ what }) => {
        if (what === 'claim') isRemovedFirst ??= container.removed;
        return undefined;
      };
      await harness.start();
      await harness.clock.until('a claim', () => service.callsOf('claim').length > 0, 100);
      assert.equal(isRemovedFirst, true);
      assert.deepEqual([run.timeline.length, service.callsOf('putLogChunk').length], [0, 0]);
    }
  });

  test('whose lines are stored in part ships the others, under the next numbers', async () => {
    const { harness, run, container, service } = leftRun();
    const line = { atMs: 0, stream: 'stdout', isContinued: false } as const;
    const lines = [
      { ...line, text: 'one' },
      { ...line, text: 'two' },
    ];
    const address = { runId: run.id, attempt: 1, workerId: WORKER, number: 0 };
    service.logs.store(address, { firstLine: 0, lines, skippedBytes: 0, isLast: false, cursor: '8' });
    await endWithThreeLines({ harness, run, container });
    assert.deepEqual(service.logs.texts('run-1'), ['one', 'two', 'tre', '<end>']);
    assert.deepEqual(harness.runtime.adoptions, [{ mounts: [], folders: [], secretFiles: [], cursor: '8' }]);
    assert.deepEqual(
      service.callsOf('putLogChunk').map(({ address: sent, chunk }) => [sent?.number, chunk?.cursor]),
      [[1, '12']],
    );
  });

  test('keeps each line once when the last chunk of the earlier process arrives after its end', async () => {
    const { harness, run, container, service } = leftRun();
    const line = { atMs: 0, stream: 'stdout', isContinued: false, text: 'one' } as const;
    const late = { firstLine: 0, lines: [line], skippedBytes: 0, isLast: false, cursor: '4' };
    service.onCall = ({ what, address }) => {
      const held = { runId: run.id, attempt: 1, workerId: WORKER, number: 0 };
      if (what === 'putLogChunk' && address?.number === 0) service.logs.store(held, late);
      return undefined;
    };
    await endWithThreeLines({ harness, run, container });
    assert.deepEqual(service.logs.texts('run-1'), ['one', 'two', 'tre', '<end>']);
  });

  test('has a cursor with each half of a chunk that is too large, so that a later process repeats neither', async () => {
    const { harness, run, container, service } = leftRun();
    service.onCall = ({ chunk }) =>
      chunk !== undefined && chunk.lines.length > 1
        ? { kind: 'refused', status: 413, detail: 'too large' }
        : undefined;
    await endWithThreeLines({ harness, run, container });
    assert.deepEqual(
      service
        .callsOf('putLogChunk')
        .filter(({ chunk }) => chunk?.lines.length === 1)
        .map(({ chunk }) => [chunk?.lines[0]?.text, chunk?.cursor]),
      [
        ['one', '4'],
        ['two', '8'],
        ['tre', '12'],
      ],
    );
  });

  test('has each of its events on the timeline once, whether the earlier process got an answer or not', async () => {
    const { harness, run, container, service } = leftRun();
    const reporter = { workerId: WORKER, attempt: 1, trace: null };
    for (const [msg, line] of [
      ['a', 0],
      ['b', 27],
    ] as const)
      await service.postEvent(
        run.id,
        { type: 'NOTE', msg },
        { ...reporter, idempotencyKey: `id of run-1:stdout:${line}` },
      );
    for (const [index, msg] of ['a', 'b', 'b', 'c'].entries())
      printAt(container, noteOf(msg), index * 27, (index + 1) * 27);
    await harness.start();
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
    assert.deepEqual(
      run.timeline.map(({ msg }) => msg),
      ['a', 'b', 'b', 'c', 'The container ended with exit code 0'],
    );
    assert.equal(service.callsOf('postEvent').at(-1)?.key, 'id of run-1:end');
  });

  test('counts as used capacity before the first claim', async () => {
    const { harness, container, service } = leftRun({}, { resources: { cpuCores: 1 } });
    const next = service.add('run-2');
    await harness.start();
    await harness.clock.pass(30_000);
    assert.equal(next.state, 'PENDING');
    container.end(0);
    await harness.untilState(next, 'RUNNING');
  });

  test('is stopped when its run is cancelled', async () => {
    const { harness, run, container } = leftRun();
    await harness.start();
    run.state = 'CANCELLED';
    await harness.clock.until('the container is removed', () => container.stopped && container.removed, 100);
  });

  test('keeps its outputs until the end of its run is reported', async () => {
    const { harness, run, container, service } = leftRun();
    service.onCall = ({ event }) => (event?.type === 'COMPLETED' ? DOWN : undefined);
    await harness.start();
    container.end(0);
    await harness.clock.pass(60_000);
    assert.equal(container.removed, false);
    service.onCall = () => undefined;
    await harness.untilState(run, 'COMPLETED');
    await harness.clock.until('the container is removed', () => container.removed, 50);
  });
});

describe('the secrets of a run whose container an earlier process started', () => {
  const container = { ...PLAIN, secrets: { TOKEN: 'token' }, files: { '/key': { secret: 'key' } } };

  test('are masked as the container got them and as they are now', async () => {
    const scene = leftRun({ container });
    scene.runtime.leftSecrets = { TOKEN: 'first-value' };
    scene.service.secrets = {
      env: { TOKEN: 'second-value' },
      files: { '/key': 'third-value' },
      registry: null,
    };
    await scene.harness.start();
    scene.container.print('x first-value', 'y second-value', 'z third-value');
    scene.container.end(0);
    await scene.harness.untilState(scene.run, 'COMPLETED');
    assert.deepEqual(scene.service.logs.texts('run-1'), ['x ***', 'y ***', 'z ***', '<end>']);
  });

  test('hold back all texts where one is not known, and no secret ends the run', async () => {
    const scene = leftRun({ container });
    scene.runtime.leftSecrets = { TOKEN: 'first-value' };
    scene.service.onCall = ({ what }) =>
      what === 'getSecrets' ? { kind: 'refused', status: 404, detail: "Secret 'key' not found" } : undefined;
    await scene.harness.start();
    scene.container.print('x third-value');
    scene.container.end(3);
    await scene.harness.untilState(scene.run, 'FAILED');
    assert.match(errorMessage(scene.run), /exit code 3.*held back/);
    assert.equal(scene.service.logs.texts('run-1')[0], '***');
    assert.doesNotMatch(JSON.stringify(scene.service.calls), /third-value/);
  });
});

describe('an attempt that the worker holds and that has no container', () => {
  for (const [state, message] of [
    ['ASSIGNED', 'The worker was restarted before the container was started'],
    ['RUNNING', 'The worker was restarted, and the container of the attempt is not on its machine any more'],
  ] as const) {
    test(`is reported at once as a loss of the infrastructure when it is ${state}`, async () => {
      const harness = makeHarness({ isSuccessor: true });
      const run = harness.service.add('run-1', { state, workerId: WORKER });
      await harness.start();
      await harness.untilState(run, 'FAILED');
      assert.equal(errorMessage(run), message);
      assert.equal(run.timeline.at(-1)?.payload?.['cause'], 'infrastructure');
      assert.ok(harness.clock.nowMs() < 5_000);
    });
  }

  test('is left alone when no earlier process had the id on this machine', async () => {
    const harness = makeHarness();
    const run = harness.service.add('run-1', { state: 'RUNNING', workerId: WORKER });
    await harness.start();
    await harness.clock.pass(30_000);
    assert.deepEqual([run.state, run.timeline], ['RUNNING', []]);
  });
});

describe('SERVICE_WORKER_ON_STOP=leave', () => {
  test('leaves the containers and what is to be said of them to the next process', async () => {
    const scene = leftRun({}, { env: { SERVICE_WORKER_ON_STOP: 'leave', SERVICE_WORKER_DRAIN: '0' } });
    await scene.harness.start();
    await scene.harness.clock.pass(1_000);
    assert.equal(await scene.harness.end(), 0);
    const { stopped, removed } = scene.container;
    assert.deepEqual([stopped, removed, scene.run.timeline], [false, false, []]);
  });
});
