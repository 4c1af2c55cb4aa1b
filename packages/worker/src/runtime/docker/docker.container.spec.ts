import assert from 'node:assert/strict';
import { onTestFinished, test } from 'vitest';
import { ANY_IMAGE, containerSpec, MemoryLog } from '../../testing/container-spec.js';
import { FakeDockerEngine } from '../../testing/fake-docker-engine.js';
import { DockerRuntime } from './docker.runtime.js';

test('a container has the times of the engine, to the millisecond, and none that the engine does not know', async () => {
  const engine = await FakeDockerEngine.start();
  onTestFinished(() => engine.stop());
  const runtime = new DockerRuntime({
    env: { DOCKER_HOST: engine.host },
    workerId: 'w-1',
    instance: '1f3a90cc',
    log: new MemoryLog(),
    policy: ANY_IMAGE,
    timing: { callMs: 5_000, waitMs: 5_000, outageMs: 3_000, retryMs: 5 },
  });
  for (const [StartedAt, FinishedAt, startedAt, finishedAt] of [
    [
      '2026-05-04T10:00:00.123456789Z',
      '2026-05-04T12:00:01.9999+02:00',
      '2026-05-04T10:00:00.123Z',
      '2026-05-04T10:00:01.999Z',
    ],
    ['2026-05-04T10:00:00Z', '0001-01-01T00:00:00Z', '2026-05-04T10:00:00.000Z', null],
  ] as const) {
    const container = await runtime.start(containerSpec('tool'));
    assert.deepEqual(container.times(), { startedAt: null, finishedAt: null });
    engine.container().state = { Running: false, ExitCode: 0, OOMKilled: false, StartedAt, FinishedAt };
    engine.cutConnections();
    await container.exit;
    assert.deepEqual(container.times(), { startedAt, finishedAt });
    await container.remove();
  }
});
