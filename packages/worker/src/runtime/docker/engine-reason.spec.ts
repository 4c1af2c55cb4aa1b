import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { ANY_IMAGE, containerSpec, MemoryLog } from '../../testing/container-spec.js';
import { FakeDockerEngine, refuse } from '../../testing/fake-docker-engine.js';
import { DockerRuntime } from './docker.runtime.js';

describe('a container that does not start', () => {
  let engine: FakeDockerEngine;

  beforeEach(async () => {
    engine = await FakeDockerEngine.start();
  });
  afterEach(() => engine.stop());

  const badCommand = 'its command cannot be executed';
  for (const [title, status, words, name, reason] of [
    [
      'a command that is not in the image against the run',
      400,
      'exec: "/x": not there',
      'RunFault',
      badCommand,
    ],
    [
      'the same in the words of older engines',
      500,
      'exec: "x": executable file not found',
      'RunFault',
      badCommand,
    ],
    [
      'an image for other processors against the run',
      500,
      'exec /x: exec format error',
      'RunFault',
      badCommand,
    ],
    [
      'a full disk against the engine',
      500,
      'write /var/lib/docker/x: no space left on device',
      'EngineFault',
      "the engine's disk is full",
    ],
    [
      'a missing network against the engine',
      500,
      'failed to create endpoint x on network bridge: adding interface veth1 to bridge docker0 failed',
      'EngineFault',
      'the container engine answered 500',
    ],
    [
      'a missing GPU against this machine alone',
      500,
      'could not select device driver "" with capabilities: [[gpu]]',
      'Error',
      'the machine cannot provide the GPU',
    ],
    [
      'an engine that shuts down against itself',
      503,
      'shutting down',
      'EngineFault',
      'the container engine answered 503',
    ],
  ] as const) {
    it(`counts ${title}`, async () => {
      const env = { DOCKER_HOST: engine.host };
      const runtime = new DockerRuntime({
        env,
        workerId: 'w-1',
        instance: '1f3a90cc',
        log: new MemoryLog(),
        policy: ANY_IMAGE,
      });
      engine.answerNext('POST /containers/ID/start', refuse(status, words));
      await assert.rejects(runtime.start(containerSpec('tool')), {
        name,
        message: `The container could not be started: ${reason}`,
      });
    });
  }
});
