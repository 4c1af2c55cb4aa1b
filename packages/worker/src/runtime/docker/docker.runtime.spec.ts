import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'vitest';
import { FakeDockerEngine } from '../../testing/fake-docker-engine.js';
import { asCreate, cut, frame, refuse } from '../../testing/fake-engine-answers.js';
import {
  MemoryLog,
  QUICK_TIMING,
  containerSpec,
  readToEnd,
  runtimeOn,
  until,
} from '../../testing/container-spec.js';
import { GAP_LINE } from './container/container-output.js';
import type { ContainerTiming } from './container/docker.container.js';
import type { DockerRuntime } from './docker.runtime.js';

describe('DockerRuntime', () => {
  const engine = FakeDockerEngine.forEachTest();
  let log: MemoryLog;

  beforeEach(() => {
    log = new MemoryLog();
  });

  function runtime(
    timing: Partial<ContainerTiming> = {},
    instance = '1f3a90cc',
    pids: number | null = null,
  ): DockerRuntime {
    return runtimeOn(engine, { instance, log, timing: { ...QUICK_TIMING, ...timing }, pids });
  }

  async function limitsOf(info: object, pids: number | null = null): Promise<object> {
    engine.info = info;
    await runtime({}, '1f3a90cc', pids).start(containerSpec('tool'));
    const { PidsLimit, Init } = Object(hostConfig(engine));
    engine.calls.length = 0;
    return { PidsLimit, Init };
  }

  describe('create', () => {
    it('sends exactly this create request', async () => {
      const cpu = { cpuMillis: 2000, cpuLimitMillis: 2000 };
      const limits = { ...cpu, ramMb: 256, gpuIds: [1, 3], vramMb: 1000 };
      const spec = containerSpec('sha256:0123', {}, limits);
      await runtime().start({ ...spec, attempt: 3 });
      const call = engine.calls.find(({ route }) => route === 'POST /containers/create');
      assert.ok(call);
      assert.deepEqual(call.query, {});
      assert.deepEqual(call.body, {
        Image: 'sha256:0123',
        AttachStdin: false,
        AttachStdout: true,
        AttachStderr: true,
        OpenStdin: false,
        Tty: false,
        Env: [
          'SERVICE_INPUT_PATH=/longshore/input.json',
          'SERVICE_OUTPUT_PATH=/longshore/output.json',
          `SERVICE_RUN_ID=${spec.runId}`,
          'SERVICE_RUN_ATTEMPT=3',
          'SERVICE_CPU=2',
          'SERVICE_RAM_MB=256',
          'NVIDIA_VISIBLE_DEVICES=1,3',
        ],
        StopTimeout: 10,
        Healthcheck: { Test: ['NONE'] },
        StopSignal: 'SIGTERM',
        Labels: {
          'longshore.worker': 'w-1',
          'longshore.instance': '1f3a90cc',
          'longshore.run': spec.runId,
          'longshore.attempt': '3',
        },
        HostConfig: {
          CapDrop: ['ALL'],
          SecurityOpt: ['no-new-privileges'],
          RestartPolicy: { Name: 'no' },
          PidsLimit: 1536,
          Init: true,
          LogConfig: {
            Type: 'local',
            Config: { 'max-size': '16m', 'max-file': '4', compress: 'false' },
          },
          Memory: 268435456,
          MemorySwap: 268435456,
          ShmSize: 268435456,
          CpuShares: 2048,
          NanoCpus: 2000000000,
          DeviceRequests: [{ Driver: '', Capabilities: [['gpu']], DeviceIDs: ['1', '3'] }],
        },
      });
    });

    it('limits processes by the cores of the engine, or by the setting, and needs no first process', async () => {
      assert.deepEqual(await limitsOf({ NCPU: 64, InitBinary: 'docker-init' }), {
        PidsLimit: 17_408,
        Init: true,
      });
      assert.deepEqual(await limitsOf({ InitBinary: '' }), { PidsLimit: 1280, Init: undefined });
      assert.deepEqual(await limitsOf({ NCPU: 64 }, 100), { PidsLimit: 100, Init: undefined });
    });

    it('sets the user of the worker in place of that of the run', async () => {
      await runtimeOn(engine, { user: '1000:1000' }).start({ ...containerSpec('tool'), user: '0' });
      const created = engine.calls.findLast(({ route }) => route === 'POST /containers/create');
      assert.equal(Object(created?.body).User, '1000:1000');
    });

    it('sets no limit that the run does not have', async () => {
      await runtime().start(containerSpec('tool'));
      assert.deepEqual(Object.keys(hostConfig(engine)), [
        'CapDrop',
        'SecurityOpt',
        'RestartPolicy',
        'PidsLimit',
        'Init',
        'LogConfig',
      ]);
    });

    it('attaches before it starts, and waits after', async () => {
      const container = await runtime().start(containerSpec('tool'));
      engine.end(0);
      await container.exit;
      assert.deepEqual(engine.routes(), [
        'GET /info',
        'GET /images/tool/json',
        'POST /containers/create',
        ...Array.from({ length: 5 }, () => 'HEAD /containers/ID/archive'),
        'PUT /containers/ID/archive',
        'POST /containers/ID/attach',
        'POST /containers/ID/start',
        'POST /containers/ID/wait',
        'GET /containers/ID/json',
      ]);
    });

    it('removes the container when it cannot be started, and logs the words of the engine', async () => {
      engine.answerNext('POST /containers/ID/start', refuse(400, 'no such\nfile: /program'));
      await assert.rejects(runtime().start(containerSpec('tool')), {
        name: 'RunFault',
        message: 'The container could not be started: the container engine answered 400',
      });
      assert.match(JSON.stringify(log.warnings), /no such file: \/program/);
      assert.equal(engine.containers.size, 0);
    });

    it('logs no piece of a variable that the words of the engine repeat', async () => {
      const value = 'first  part\nother part';
      engine.answerNext(
        'POST /containers/create',
        refuse(400, `refused: ${value}`),
        refuse(400, `${'x'.repeat(990)} ${value}`),
      );
      const spec = { ...containerSpec('tool'), env: { TOKEN: value } };
      for (let i = 0; i < 2; i++) await assert.rejects(runtime().start(spec), { name: 'RunFault' });
      const printed = JSON.stringify(log.warnings);
      assert.match(printed, /refused: \*\*\*/);
      assert.doesNotMatch(printed, /first|part/);
    });

    it('starts nothing after the run was cancelled during the create call, and leaves nothing', async () => {
      for (const route of ['POST /containers/create', 'PUT /containers/ID/archive']) {
        const cancel = new AbortController();
        engine.answerNext(route, (_response, _call, goOn) => {
          cancel.abort(new Error('cancelled'));
          goOn();
        });
        await assert.rejects(runtime().start(containerSpec('tool'), cancel.signal), /cancelled/);
        assert.equal(engine.containers.size, 0);
      }
      assert.ok(!engine.routes().includes('POST /containers/ID/start'));
    });

    it('creates nothing for a run that was cancelled before', async () => {
      await assert.rejects(runtime().start(containerSpec('tool'), AbortSignal.abort()));
      assert.deepEqual(engine.routes(), []);
    });

    it('finds a container that was created although the answer was lost, beside one that runs', async () => {
      const own = runtime();
      await own.start(containerSpec('tool'));
      const spec = containerSpec('tool');
      engine.answerNext('POST /containers/create', (response, { body }) => {
        engine.containers.set('c9', {
          id: 'c9',
          create: asCreate(body),
          state: { Running: false, ExitCode: 0, OOMKilled: false },
          files: Buffer.alloc(0),
        });
        response.destroy();
      });
      await assert.rejects(own.start(spec), /could not be created/);
      assert.equal(await own.removeLeftovers(), 1);
      assert.deepEqual([...engine.containers.keys()], ['c1']);
    });

    it('says what of the limits cannot be had, and believes it only of a run with such a limit', async () => {
      const words = refuse(400, 'Range of CPUs is from 0.01 to 2.00');
      engine.answerNext('POST /containers/create', words, words);
      await assert.rejects(runtime().start(containerSpec('tool', {}, { cpuLimitMillis: 3000 })), {
        name: 'Error',
        message: 'The container could not be created: the machine does not have so many CPUs',
      });
      await assert.rejects(runtime().start(containerSpec('tool')), { name: 'RunFault' });
    });
  });

  describe('output', () => {
    it('yields the lines of both streams', async () => {
      const container = await runtime().start(containerSpec('tool'));
      engine.send(Buffer.concat([frame(1, 'one\n'), frame(2, 'warning\n'), frame(1, 'two\nthree\n')]));
      engine.end(0);
      assert.deepEqual((await readToEnd(container)).lines, [
        { stream: 'stdout', text: 'one' },
        { stream: 'stderr', text: 'warning' },
        { stream: 'stdout', text: 'two' },
        { stream: 'stdout', text: 'three' },
      ]);
    });

    it('survives output without frames', async () => {
      const container = await runtime().start(containerSpec('tool'));
      engine.send(Buffer.from('plain text, as with a terminal\n'));
      const reading = readToEnd(container);
      await until(() => log.warnings.length > 0);
      engine.end(0);
      assert.deepEqual(await reading, {
        lines: [{ stream: 'stderr', text: GAP_LINE }],
        exit: { exitCode: 0, outOfMemory: false },
      });
    });
  });

  describe('stop and remove', () => {
    it('sends one stop with the grace period', async () => {
      const container = await runtime({ retryMs: 500 }).start(containerSpec('tool'));
      await container.stop(7.2);
      assert.deepEqual(
        engine.calls.filter(({ route }) => route.endsWith('/stop')).map(({ query }) => query),
        [{ t: '8' }],
      );
      assert.equal((await container.exit).exitCode, 143);
      await container.stop(1);
      assert.equal(engine.routes().filter((route) => /stop|kill/.test(route)).length, 1);
    });

    it('asks again, with what is left of the grace period, when the engine breaks the request to stop', async () => {
      engine.answerNext('POST /containers/ID/stop', cut, refuse(500, 'busy'));
      const container = await runtime().start(containerSpec('tool'));
      await container.stop(600);
      assert.equal((await container.exit).exitCode, 143);
      const asked = engine.calls.filter(({ route }) => /stop|kill/.test(route));
      assert.deepEqual(
        asked.map(({ route, query }) => [route, query['t']]),
        Array.from({ length: 3 }, () => ['POST /containers/ID/stop', '600']),
      );
    });

    it('kills repeatedly when the engine fails to stop', async () => {
      engine.answerNext('POST /containers/ID/stop', refuse(500, 'busy'));
      engine.answerNext('POST /containers/ID/kill', cut, refuse(500, 'still busy'));
      const container = await runtime().start(containerSpec('tool'));
      await container.stop(0);
      assert.equal((await container.exit).exitCode, 137);
    });

    it('gives up stopping after the outage limit', async () => {
      const container = await runtime({ outageMs: 50 }).start(containerSpec('tool'));
      engine.answerNext('POST /containers/ID/stop', refuse(500, 'busy'));
      engine.answerNext(
        'POST /containers/ID/kill',
        ...Array.from({ length: 100 }, () => refuse(500, 'busy')),
      );
      await assert.rejects(container.stop(0), /could not be stopped/);
    });

    it('treats a missing container, or one being removed, as removed', async () => {
      const container = await runtime().start(containerSpec('tool'));
      engine.answerNext(
        'DELETE /containers/ID',
        refuse(409, 'removal already in progress'),
        refuse(404, 'gone'),
      );
      await container.remove();
      const { query } = engine.calls.find(({ route }) => route === 'DELETE /containers/ID') ?? {};
      assert.deepEqual(query, { force: 'true', v: 'true' });
    });

    it('fails when the engine keeps refusing to remove', async () => {
      const container = await runtime().start(containerSpec('tool'));
      engine.answerNext(
        'DELETE /containers/ID',
        ...Array.from({ length: 6 }, () => refuse(500, 'device busy')),
      );
      await assert.rejects(container.remove(), { message: 'container not removed: device busy' });
    });

    it('removes a container of another lock only when its attempt is lost', async () => {
      await runtime({}, '00000000').start({ ...containerSpec('tool'), runId: 'held', attempt: 1 });
      await runtime({}, '00000000').start({ ...containerSpec('tool'), runId: 'lost', attempt: 3 });
      await runtime().start({ ...containerSpec('tool'), runId: 'own', attempt: 3 });
      const remaining = await runtime().removeAbandoned(
        async (id, attempt) => id !== 'held' && attempt === 3,
      );
      assert.equal(remaining, 1);
      assert.deepEqual([...engine.containers.keys()], ['c1', 'c3']);
      assert.equal(await runtime().removeLeftovers(), 1);
      assert.deepEqual([...engine.containers.keys()], ['c1']);
    });

    it('removes only the leftovers of its own worker id', async () => {
      await runtime().start(containerSpec('tool'));
      await runtime().start(containerSpec('tool'));
      const other = runtimeOn(engine, { workerId: 'w-10', log });
      await other.start(containerSpec('tool'));
      assert.equal(await runtime().removeLeftovers(), 2);
      assert.deepEqual([...engine.containers.keys()], ['c3']);
    });
  });
});

/** The limits of the first create call. */
function hostConfig({ calls }: FakeDockerEngine): object {
  const { body } = calls.find(({ route }) => route === 'POST /containers/create') ?? {};
  return Object(Reflect.get(Object(body), 'HostConfig'));
}
