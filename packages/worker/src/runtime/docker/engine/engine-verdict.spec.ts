import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { ContainerLimits } from '../../runtime.js';
import { containerSpec, runtimeOn } from '../../../testing/container-spec.js';
import { FakeDockerEngine } from '../../../testing/fake-docker-engine.js';
import { refuse, type Answer } from '../../../testing/fake-engine-answers.js';

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
      [
        'an image that wants another GPU driver',
        500,
        `${HOOK}nvidia-container-cli: requirement error: unsatisfied condition: cuda>=99.0: unknown`,
        { gpuIds: [0] },
        'Error',
        'the image wants another GPU driver than the machine has',
      ],
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

  for (const [title, words] of [
    ['without a driver of GPUs', NO_GPU],
    [
      'whose hook fails',
      `${HOOK}nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown`,
    ],
    [
      'whose hook of AMD fails',
      'failed to create shim task: OCI runtime create failed: runc create failed: error running hook #1: exit status 1, stdout: , stderr: amd-container-runtime: no device: unknown',
    ],
    ['that knows no such device', 'setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=0'],
  ] as const) {
    it(`is the machine’s fault when the worker’s own container gets no GPU either: an engine ${title}`, async () => {
      // The run's, then the probe's.
      engine.answerNext(START, refuse(500, words), refuse(500, words));
      await assert.rejects(runtime().start(containerSpec('tool', {}, { gpuIds: [0] })), {
        ability: 'gpus',
        message: 'The container could not be started: the machine cannot provide the GPU',
        words: words.replace(HOOK, '').replace(/^.*stderr: |: unknown$/g, ''),
      });
      assert.deepEqual([engine.containers.size, engine.images.list()], [0, []]);
    });
  }

  for (const [title, words, limits] of [
    ['a working folder named like a GPU', 'lstat /etc/passwd/nvidia gpu: not a directory', { gpuIds: [0] }],
    [
      'a user named like the words of a hook',
      `unable to find user error running hook #0: stderr: nvidia-container-cli: x: no matching entries in passwd file`,
      { gpuIds: [0] },
    ],
    [
      'a working folder named like a limit of CPUs',
      'mkdir /etc/passwd/range of cpus nanocpus: not a directory',
      { cpuLimitMillis: 100 },
    ],
  ] as const) {
    it(`is the run’s fault whatever words it has chosen: ${title}`, async () => {
      const answer: Answer = (response, call, goOn) => {
        const isOwn = engine.container().create.Labels['longshore.run'] === '';
        (isOwn ? GO_ON : refuse(500, words))(response, call, goOn);
      };
      engine.answerNext(START, ...Array.from({ length: 8 }, () => answer));
      await assert.rejects(runtime().start(containerSpec('tool', {}, limits)), { name: 'RunFault' });
    });
  }

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

const HOOK =
  'failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error running hook #0: error running hook: exit status 1, stdout: , stderr: ';

const NO_GPU = 'could not select device driver "" with capabilities: [[gpu]]';

const GO_ON: Answer = (_response, _call, goOn) => goOn();
