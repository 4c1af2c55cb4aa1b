import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { FakeDockerEngine } from '../../../testing/fake-docker-engine.js';
import { cut, reports, silence } from '../../../testing/fake-engine-answers.js';
import { QUICK_TIMING, containerSpec, runtimeOn, until } from '../../../testing/container-spec.js';
import type { RunningContainer } from '../../runtime.js';
import type { ContainerTiming } from './docker.container.js';
import type { DockerRuntime } from '../docker.runtime.js';

describe('the end of a container', () => {
  const engine = FakeDockerEngine.forEachTest();

  function runtime(timing: Partial<ContainerTiming> = {}): DockerRuntime {
    return runtimeOn(engine, { timing: { ...QUICK_TIMING, ...timing } });
  }

  async function endedWhileAway(event: readonly object[], liveRestore = false): Promise<RunningContainer> {
    engine.answerNext('GET /containers/ID/json', cut);
    engine.answerNext('POST /containers/ID/wait', cut);
    engine.answerNext('GET /events', reports(...event));
    const container = await runtime().start(containerSpec('tool'));
    engine.answerNext('GET /info', (response) =>
      response.end(
        JSON.stringify({ LiveRestoreEnabled: liveRestore, SystemTime: '2026-11-26T00:00:00.25Z' }),
      ),
    );
    engine.container().state = { Running: false, ExitCode: 0, OOMKilled: false };
    return container;
  }

  it('is read from the state when the answer to wait is lost', async () => {
    const container = await runtime().start(containerSpec('tool'));
    await until(() => engine.routes().includes('POST /containers/ID/wait'));
    engine.container().state = { Running: false, ExitCode: 5, OOMKilled: false };
    engine.answerNext('GET /events', reports({ Action: 'die' }));
    engine.cutConnections();
    assert.deepEqual(await container.exit, { exitCode: 5, outOfMemory: false });
  });

  it('is noticed although the request to stop gets no answer', async () => {
    const container = await runtime().start(containerSpec('tool'));
    engine.answerNext('POST /containers/ID/stop', () => engine.end(0));
    await container.stop(3_600);
    assert.equal((await container.exit).exitCode, 0);
    assert.ok(!engine.routes().some((route) => route.endsWith('/kill')));
  });

  it('is read from the state when wait is never answered', async () => {
    engine.answerNext('POST /containers/ID/wait', silence);
    const container = await runtime({ waitMs: 50 }).start(containerSpec('tool'));
    engine.answerNext('GET /events', reports({ Action: 'die' }));
    engine.container().state = { Running: false, ExitCode: 6, OOMKilled: false };
    assert.equal((await container.exit).exitCode, 6);
  });

  it('is read after a restart of the engine', async () => {
    const refusals = Array.from({ length: 5 }, () => cut);
    engine.answerNext('GET /containers/ID/json', ...refusals);
    engine.answerNext('POST /containers/ID/wait', ...refusals);
    const container = await runtime().start(containerSpec('tool'));
    engine.answerNext('GET /info', reports({ LiveRestoreEnabled: true, SystemTime: '2026-11-26T00:00:00Z' }));
    engine.container().state = { Running: false, ExitCode: 255, OOMKilled: false };
    assert.equal((await container.exit).exitCode, 255);
  });

  describe('while the engine is away', () => {
    const stopped = { name: 'EngineFault', message: /^The container engine stopped while/ };

    it('counts as the stop of the engine when its events, which begin with its start, have no end', async () => {
      await assert.rejects((await endedWhileAway([])).exit, stopped);
      const { query } = engine.calls.find(({ route }) => route === 'GET /events') ?? {};
      assert.deepEqual([query?.['since'], query?.['until']], ['1', '1795651200.25']);
    });

    it('counts as the stop of the engine when that killed what it found after a crash', async () => {
      const events = [{ Action: 'kill' }, { Action: 'die' }];
      await assert.rejects((await endedWhileAway(events)).exit, stopped);
    });

    it('counts as the stop of the engine also when the engine is back before the worker looks', async () => {
      const container = await runtime().start(containerSpec('tool'));
      await until(() => engine.routes().includes('POST /containers/ID/wait'));
      engine.container().state = { Running: false, ExitCode: 255, OOMKilled: false };
      engine.answerNext('GET /events', reports({ Action: 'kill' }, { Action: 'die' }));
      engine.cutConnections();
      await assert.rejects(container.exit, stopped);
    });

    it('counts as its own when the engine saw it: only the connection was away', async () => {
      assert.equal((await (await endedWhileAway([{ Action: 'die' }])).exit).exitCode, 0);
    });

    it('counts as its own when the engine leaves containers alone while it is stopped', async () => {
      assert.equal((await (await endedWhileAway([], true)).exit).exitCode, 0);
    });
  });

  it('fails when the engine stays unreachable', async () => {
    const container = await runtime({ outageMs: 50 }).start(containerSpec('tool'));
    engine.stop();
    await assert.rejects(container.exit, /engine cannot tell how the container ended/);
  });

  it('fails when another client removed the container', async () => {
    const container = await runtime().start(containerSpec('tool'));
    await until(() => engine.routes().includes('POST /containers/ID/wait'));
    engine.containers.clear();
    engine.cutConnections();
    await assert.rejects(container.exit, /removed externally/);
  });

  it('names the memory limit when the engine reports it late', async () => {
    const container = await runtime().start(containerSpec('tool'));
    engine.answerNext('GET /containers/ID/json', (response) => {
      response.writeHead(200, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify({ State: { Running: false, ExitCode: 137, OOMKilled: false } }));
    });
    engine.end(137, true);
    assert.deepEqual(await container.exit, { exitCode: 137, outOfMemory: true });
  });

  it('ignores an out-of-memory kill when the program succeeded', async () => {
    const container = await runtime().start(containerSpec('tool'));
    engine.end(0, true);
    assert.deepEqual(await container.exit, { exitCode: 0, outOfMemory: false });
  });

  it('has the times of the engine, to the millisecond, and none that the engine does not know', async () => {
    for (const [StartedAt, FinishedAt, startedAt, finishedAt] of [
      [
        '2026-05-04T10:00:00.123456789Z',
        '2026-05-04T12:00:01.9999+02:00',
        '2026-05-04T10:00:00.123Z',
        '2026-05-04T10:00:01.999Z',
      ],
      ['2026-05-04T10:00:00Z', '0001-01-01T00:00:00Z', '2026-05-04T10:00:00.000Z', null],
    ] as const) {
      const container = await runtime().start(containerSpec('tool'));
      assert.deepEqual(container.times(), { startedAt: null, finishedAt: null });
      await until(() => engine.routes().at(-1) === 'POST /containers/ID/wait');
      engine.container().state = { Running: false, ExitCode: 0, OOMKilled: false, StartedAt, FinishedAt };
      engine.answerNext('GET /events', reports({ Action: 'die' }));
      engine.cutConnections();
      await container.exit;
      assert.deepEqual(container.times(), { startedAt, finishedAt });
      await container.remove();
    }
  });
});
