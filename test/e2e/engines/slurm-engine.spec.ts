import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import type { SlurmEngine } from '@longshore/launchers/slurm/slurm.engine';
import type { JobSpec } from '@longshore/launchers/launcher/engine';
import { NO_CONSTRAINTS } from '@longshore/worker/service-api/constraints';
import { makeImageFolder } from '../../support/images/image-folders.js';
import { until } from '../../support/service-process.js';
import { NODE_CPUS, skipWithoutSlurm, type SlurmCluster } from '../../support/workers/slurm-cluster.js';
import { linesOf, SlurmEngines, untilKind } from '../../support/workers/slurm-engines.js';
import { parseOutputs } from '@longshore/worker/runtime/outputs';
import { skipFor } from '../../support/skip.js';

const NEVER = new AbortController().signal;
const SCRIPT = `
trap 'echo TERM; exit 9' TERM
echo "$GREETING|$TOKEN|$FROM_IMAGE|$#|$1"
case $1 in
  outputs) cat "$SERVICE_INPUT_PATH" >"$SERVICE_OUTPUT_PATH" ;;
  wait) while :; do sleep 0.1; done ;;
  stubborn) trap '' TERM; while :; do sleep 0.1; done ;;
  *) exit 7 ;;
esac`;

const skip = skipWithoutSlurm();

describe('the Slurm engine on a real Slurm', skipFor(skip), () => {
  let engines: SlurmEngines;
  let cluster: SlurmCluster;
  let shared: string;

  beforeAll(async () => {
    engines = await SlurmEngines.start();
    ({ cluster, shared } = engines);
    makeImageFolder(join(cluster.folder, 'images'), 'tool', SCRIPT);
  });
  afterEach(() => engines.clear());
  afterAll(() => engines?.stop());

  function open(
    tool: string,
    env: Readonly<Record<string, string>> = {},
    workerId = 'launcher-1',
    graceSeconds = 10,
  ): Promise<SlurmEngine> {
    return engines.open(tool, { env, workerId, graceSeconds });
  }

  function spec(fields: Partial<JobSpec> = {}): JobSpec {
    return engines.spec({
      env: { GREETING: `it's "quoted" $HOME` },
      secrets: { TOKEN: 'line 1\nline 2' },
      ...fields,
    });
  }

  for (const tool of ['charliecloud', 'runc']) {
    describe(tool, () => {
      test('passes on inputs, variables, secrets and arguments, and gives outputs and lines back', async () => {
        const engine = await open(tool);
        const job = await engine.submit(spec({ inputs: { value: 3 }, args: ['outputs'] }));
        const { status } = await untilKind(engine, job, 'exited', 'failed');
        assert.deepEqual(status, { kind: 'exited', exitCode: 0, outOfMemory: false });
        assert.deepEqual(parseOutputs(await engine.readOutputs(job, NEVER))?.outputs, { value: 3 });
        const lines = ['it\'s "quoted" $HOME|line 1', 'line 2|yes|1|outputs'];
        assert.deepEqual(await linesOf(engine, job), lines);
        assert.deepEqual(await linesOf(engine, job), lines, 'the same lines again');
      });

      test('gives the exit code as it is, and replaces the entrypoint', async () => {
        const engine = await open(tool);
        const one = await engine.submit(spec());
        const other = await engine.submit(
          spec({ command: ['/bin/sh', '-c', 'echo "$0 $1 $#"; exit 200'], args: ['a b', ''] }),
        );
        assert.deepEqual((await untilKind(engine, one, 'exited', 'failed')).status, {
          kind: 'exited',
          exitCode: 7,
          outOfMemory: false,
        });
        assert.deepEqual((await untilKind(engine, other, 'exited', 'failed')).status, {
          kind: 'exited',
          exitCode: 200,
          outOfMemory: false,
        });
        assert.deepEqual(await linesOf(engine, other), ['a b  1']);
      });

      test('ends a program with SIGTERM, and with SIGKILL after the grace', async () => {
        const engine = await open(tool, {}, 'launcher-1', 600);
        const polite = await engine.submit(spec({ args: ['wait'] }));
        await untilKind(engine, polite, 'running');
        const log = join(shared, 'test', `${polite.runId}.1`, 'log');
        await until(() => readFileSync(log, 'utf8').includes('wait'), 'the program works');
        // The program ends by itself: the grace outlasts the test.
        await engine.remove(polite);
        assert.equal(engine.list().length, 0);
        const hasty = await open(tool, {}, 'launcher-2', 1);
        const stubborn = await hasty.submit(spec({ args: ['stubborn'] }));
        await untilKind(hasty, stubborn, 'running');
        await hasty.remove(stubborn);
        assert.equal(hasty.list().length, 0);
      });

      test('reports an image that is not there', async () => {
        const engine = await open(tool);
        await assert.rejects(engine.submit(spec({ image: 'other:1' })), {
          name: 'RunFault',
          reported: 'image',
        });
      });
    });
  }

  test('submits an attempt once, also when two launchers do it at the same time', async () => {
    const [one, other] = [await open('charliecloud'), await open('charliecloud', {}, 'launcher-2')];
    for (let round = 0; round < 5; round += 1) {
      const attempt = spec({ args: ['outputs'] });
      const jobs = await Promise.all([one.submit(attempt), other.submit(attempt), one.submit(attempt)]);
      const ended = await Promise.all(
        jobs.map((job, index) => untilKind(index === 1 ? other : one, job, 'exited', 'failed')),
      );
      assert.equal(new Set(ended.map(({ engineId }) => engineId)).size, 1, JSON.stringify(ended));
      const [job] = ended;
      assert.ok(job !== undefined && job.status.kind === 'exited', JSON.stringify(ended));
      assert.equal((await linesOf(one, job)).length, 2, 'one container ran');
      assert.equal(
        (await one.submit(attempt)).engineId,
        job.engineId,
        'an ended attempt is not submitted again',
      );
      await one.remove(attempt);
    }
  });

  test('calls a job lost that somebody else cancelled', async () => {
    const engine = await open('charliecloud');
    const cancelled = await engine.submit(spec({ args: ['wait'] }));
    await untilKind(engine, cancelled, 'running');
    await cluster.command('scancel', cancelled.engineId);
    const { status } = await untilKind(engine, cancelled, 'exited', 'failed');
    assert.ok(status.kind === 'failed' && status.cause === 'infrastructure', JSON.stringify(status));
    assert.match(status.message, /it was cancelled in Slurm \(CANCELLED\)/);
  });

  test('hands its jobs to another process, whatever it did last', async () => {
    const first = await open('charliecloud');
    const job = await first.submit(spec({ args: ['wait'] }));
    await untilKind(first, job, 'running');
    const held = first.list();
    await first.close();
    const second = await open('charliecloud');
    assert.deepEqual(second.list(), held);
    await second.remove(job);
    assert.deepEqual(second.list(), []);
  });

  test('gives jobs the GPUs and the node that they ask for', async () => {
    const settings = {
      SERVICE_WORKER_SLURM_GPUS: 'a100=80000',
      SERVICE_WORKER_SLURM_FEATURES: 'rare=special',
    };
    const engine = await open('charliecloud', settings);
    assert.deepEqual([engine.capacity().gpus.length, engine.tags], [4, ['rare']]);
    const constraints = { ...NO_CONSTRAINTS, cpuMillis: 1000, ramMb: 50, vramMb: 40_000, gpuIds: [0] };
    const job = await engine.submit(spec({ constraints, selector: ['rare'], args: ['wait'] }));
    await untilKind(engine, job, 'running');
    const described = await cluster.command('squeue', '-h', '-j', job.engineId, '-o', '%N %b %m');
    assert.equal(described.trim(), 'two gres:gpu:a100:1 50M');
    const whole = { ...NO_CONSTRAINTS, cpuMillis: 500, ramMb: 50, gpus: 2, gpuSelector: ['a100'] };
    const several = await engine.submit(spec({ constraints: whole, args: ['wait'] }));
    await untilKind(engine, several, 'running');
    const shown = await cluster.command('squeue', '-h', '-j', several.engineId, '-o', '%C %b');
    assert.equal(shown.trim(), '1 gres:gpu:a100:2');
    await assert.rejects(engine.submit(spec({ constraints: { ...constraints, vramMb: 90_000 } })), {
      name: 'RunFault',
    });
  });

  test('keeps the values of secrets in one file for the masking, once the job has begun, and gives them to the next process', async () => {
    for (const tool of ['charliecloud', 'runc']) {
      const engine = await open(tool);
      const job = await engine.submit(spec({ secrets: { TOKEN: 'a-secret-value' }, args: ['wait'] }));
      await untilKind(engine, job, 'running');
      const path = join(shared, 'test', `${job.runId}.1`);
      await until(
        () => readFileSync(join(path, 'log'), 'utf8').includes('a-secret-value'),
        'the program has it',
      );
      for (const entry of readdirSync(path, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || entry.name === 'log') continue;
        if (entry.name === 'secrets') {
          assert.equal(statSync(join(entry.parentPath, entry.name)).mode & 0o777, 0o600);
          continue;
        }
        const text = readFileSync(join(entry.parentPath, entry.name), 'utf8');
        assert.ok(!text.includes('a-secret-value'), `${entry.name} holds the secret`);
      }
      const script = await cluster.command('scontrol', 'write', 'batch_script', job.engineId, '-');
      assert.ok(!script.includes('a-secret-value'), 'nor does the job script');
      const next = await open(tool);
      assert.deepEqual(await next.readSecrets(job), { TOKEN: 'a-secret-value' });
      await engine.remove(job);
      assert.equal(await next.readSecrets(job), null);
    }
  });

  test('does not open without commands, folder or partition', async () => {
    for (const [env, problem] of [
      [
        { SERVICE_WORKER_SLURM_PARTITIONS: 'main,none' },
        /that Slurm does not have: none; there are main, short/,
      ],
      [
        { SERVICE_WORKER_SLURM_DIR: '/dev/null/folder' },
        /SERVICE_WORKER_SLURM_DIR must be a folder that can be written/,
      ],
      [{ SERVICE_WORKER_SLURM_DIR: '' }, /SERVICE_WORKER_SLURM_DIR must be set for the runtime slurm/],
      [
        { SERVICE_WORKER_SLURM_IMAGES: '' },
        /SERVICE_WORKER_SLURM_IMAGES must be set for charliecloud and runc/,
      ],
    ] as const) {
      await assert.rejects(open('charliecloud', env), { name: 'SettingsError', message: problem });
    }
  });

  test('waits with the reason of Slurm, and tells a refusal that is about the run from others', async () => {
    const engine = await open('charliecloud');
    const big = { ...NO_CONSTRAINTS, cpuMillis: NODE_CPUS * 1000, ramMb: 100 };
    const holders = [await engine.submit(spec({ constraints: big, args: ['wait'] }))];
    holders.push(await engine.submit(spec({ constraints: big, args: ['wait'] })));
    for (const job of holders) await untilKind(engine, job, 'running');
    const waiting = await engine.submit(spec({ constraints: big }));
    await until(() => {
      const status = engine.list().find(({ runId }) => runId === waiting.runId)?.status;
      return status?.kind === 'pending' && /^(?:Resources|Priority)$/.test(status.reason);
    }, 'the job waits with a reason');
    const later = await open('charliecloud');
    assert.equal(later.capacity().cpuCores, 2 * NODE_CPUS, 'what its jobs hold counts');
    const stranger = await open('charliecloud', {}, 'launcher-2');
    assert.equal(stranger.capacity().cpuCores, 0, 'what jobs of others hold does not');
    const huge = { ...NO_CONSTRAINTS, cpuMillis: 1000, ramMb: 10 ** 6 };
    await assert.rejects(engine.submit(spec({ constraints: huge })), { name: 'RunFault' });
    const wrong = await open('charliecloud', { SERVICE_WORKER_SLURM_ARGS: '--licenses=nothing' });
    const refused = spec();
    await assert.rejects(wrong.submit(refused), { name: 'EngineFault' });
    await wrong.remove(refused);
  });
});
