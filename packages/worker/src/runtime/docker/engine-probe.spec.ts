import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { ANY_IMAGE, MemoryLog } from '../../testing/container-spec.js';
import { FakeDockerEngine, refuse } from '../../testing/fake-docker-engine.js';
import { imageId } from '../../testing/fake-images.js';
import { DockerRuntime } from './docker.runtime.js';

const START = 'POST /containers/ID/start';

describe('a probe of the engine', { timeout: 30_000 }, () => {
  let engine: FakeDockerEngine;

  beforeEach(async () => {
    engine = await FakeDockerEngine.start();
  });
  afterEach(() => engine.stop());

  function runtime(): DockerRuntime {
    const env = { DOCKER_HOST: engine.host };
    const instance = '1f3a90cc';
    return new DockerRuntime({ env, workerId: 'w-1', instance, log: new MemoryLog(), policy: ANY_IMAGE });
  }

  it('starts the image that failed, with a command that no image has, and leaves nothing', async () => {
    engine.images.add('team/tool:latest');
    engine.answerNext(START, refuse(400, 'exec: "longshore-probe": executable file not found in $PATH'));
    await runtime().probe('team/tool');
    const { body } = engine.calls.find(({ route }) => route === 'POST /containers/create') ?? {};
    const { Image, Entrypoint, User, WorkingDir } = Object(body);
    assert.deepEqual(
      [Image, Entrypoint, User, WorkingDir],
      ['team/tool:latest', ['longshore-probe'], '0', '/'],
    );
    assert.equal(engine.containers.size, 0);
    assert.ok(!engine.routes().includes('POST /images/create'), 'nothing is pulled');
  });

  it('uses any other local image when that one is not there, and without one asks only for a sign of life', async () => {
    await runtime().probe('away');
    assert.ok(!engine.routes().includes('POST /containers/create'));
    engine.images.add('other:1');
    await runtime().probe('away');
    const { body } = engine.calls.find(({ route }) => route === 'POST /containers/create') ?? {};
    assert.equal(Object(body).Image, imageId('other:1'));
  });

  it('fails with what the engine says, and removes its container', async () => {
    engine.images.add('tool:latest');
    engine.answerNext(START, refuse(500, 'network bridge not found'));
    await assert.rejects(runtime().probe('tool'), { message: 'network bridge not found' });
    assert.equal(engine.containers.size, 0);
    engine.answerNext('GET /_ping', refuse(500, 'shutting down'));
    await assert.rejects(runtime().probe('tool'), { message: 'shutting down' });
  });
});
