import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { ContainerLimits } from '../../runtime.js';
import { containerSpec, runtimeOn } from '../../../testing/container-spec.js';
import { FakeDockerEngine, refuse, type Answer } from '../../../testing/fake-docker-engine.js';

describe('a container that does not start', () => {
  const engine = FakeDockerEngine.forEachTest();

  const runtime = () => runtimeOn(engine);

  const CREATE = 'POST /containers/create';
  const PUT = 'PUT /containers/ID/archive';
  const START = 'POST /containers/ID/start';

  describe('whose fault is known by the answer of the engine', () => {
    const badCommand = 'its command cannot be executed';
    const cases: [string, number, string, Partial<ContainerLimits>, string, string][] = [
      ['a command that is not there', 400, 'exec: "/x": not there', {}, 'RunFault', badCommand],
      [
        'a full disk',
        500,
        'write /x: no space left on device',
        {},
        'EngineFault',
        "the engine's disk is full",
      ],
      ['a missing GPU', 500, NO_GPU, { gpuIds: [0] }, 'Error', 'the machine cannot provide the GPU'],
      [
        'an engine that shuts down',
        503,
        'shutting down',
        {},
        'EngineFault',
        'the container engine answered 503',
      ],
      [
        'an image that was removed',
        404,
        'No such image: tool',
        {},
        'Error',
        'the worker does not have the image',
      ],
    ];
    for (const [title, status, words, limits, name, reason] of cases) {
      it(`is counted at once: ${title}`, async () => {
        engine.answerNext(START, refuse(status, words));
        await assert.rejects(runtime().start(containerSpec('tool', {}, limits)), {
          name,
          message: `The container could not be started: ${reason}`,
        });
        assert.equal(engine.routes().filter((route) => route === CREATE).length, 1);
        assert.equal(engine.containers.size, 0);
      });
    }
  });

  describe('whose fault is not known by the answer of the engine', () => {
    const volume = 'a volume of the image is where the container needs something else';
    for (const [title, route, words, reason] of [
      ['a volume over a file', CREATE, 'cannot mount volume over existing file, file exists /x', volume],
      [
        'a volume over /proc',
        START,
        'error mounting "/v" to rootfs at "/proc": not of type proc: unknown',
        volume,
      ],
      ['a volume over the output file', PUT, 'Error processing tar file(exit status 1): unlinkat /x', volume],
      [
        'a user that does not exist',
        START,
        'unable to find user no space left on device: no matching entries in passwd file',
        "the image's user does not exist",
      ],
      [
        'a working folder below a file, named like a missing GPU',
        CREATE,
        'lstat /etc/passwd/nvidia gpu: not a directory',
        "the image's working directory is no folder",
      ],
      [
        'a command, in the words of older engines',
        START,
        'exec: "x": executable file not found',
        'its command cannot be executed',
      ],
      ['words that nobody knows', START, 'strange', 'the container engine answered 500'],
    ] as const) {
      it(`is the run’s fault when the engine starts another container and fails again: ${title}`, async () => {
        const answer = refuse(500, words);
        // The probe starts before the second try.
        engine.answerNext(route, answer, ...(route === PUT ? [] : [GO_ON]), answer);
        const what = route === CREATE ? 'created' : 'started';
        await assert.rejects(runtime().start(containerSpec('tool')), {
          name: 'RunFault',
          reported: 'error',
          message: `The container could not be ${what}: ${reason}`,
        });
        assert.deepEqual([engine.containers.size, engine.images.list()], [0, []]);
      });
    }

    it('is the engine’s fault when it starts no other container either', async () => {
      engine.answerNext(
        START,
        refuse(500, 'network bridge not found'),
        refuse(500, 'network bridge not found'),
      );
      await assert.rejects(runtime().start(containerSpec('tool')), { name: 'EngineFault' });
    });

    it('does no harm when it has passed', async () => {
      engine.answerNext(START, refuse(500, 'adding interface veth1 to bridge docker0 failed'));
      const container = await runtime().start(containerSpec('tool'));
      engine.end(3);
      assert.equal((await container.exit).exitCode, 3);
    });
  });
});

const NO_GPU = 'could not select device driver "" with capabilities: [[gpu]]';

const GO_ON: Answer = (_response, _call, goOn) => goOn();
