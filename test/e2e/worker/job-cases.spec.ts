import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { Schemas } from '@longshore/client';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { startDockerWorker } from '../../support/images/docker-runtime.js';
import {
  makeDataDir,
  startService,
  until,
  type ServiceProcess,
  type TestProcess,
} from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

const ADMIN_KEY = 'e2e-admin-key-of-the-tests';
const WORKER_KEY = 'e2e-worker-key-of-the-tests';

/** Six GPUs of two kinds, as nvidia-smi lists them. */
const GPUS = [
  ...[0, 1, 2, 3].map((id) => `${id}, 24564, NVIDIA GeForce RTX 4090`),
  ...[4, 5].map((id) => `${id}, 81920, NVIDIA A100-SXM4-80GB`),
];

/** Reports its arguments, GPUs, share of a core in thousandths and megabytes of shared memory; $MORE is more of the JSON. */
const REPORT = `
quota=$(cat /sys/fs/cgroup/cpu.max 2>/dev/null || echo "$(cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us) $(cat /sys/fs/cgroup/cpu/cpu.cfs_period_us)")
report() {
  all=
  for word; do all="$all|$word"; done
  printf '{"words":"%s","gpus":"%s","cpu":%s,"shm":%s%s}' "\${all#|}" "$NVIDIA_VISIBLE_DEVICES" \\
    "$(echo $quota | awk '{ print $1 * 1000 / $2 }')" "$(df -m /dev/shm | awk 'END { print $2 }')" "$MORE" >"$SERVICE_OUTPUT_PATH"
}`;

/** As many cores as the job wants, if this machine has them: an engine refuses more. */
const cores = (wanted: number): number => Math.min(wanted, availableParallelism());

type Attempt = Schemas['OpAttempt'];

const forTests = await startTestEngine({ hasGpus: true });

describe('jobs that people published for other systems run as they are meant', skipFor(forTests.skip), () => {
  let service: ServiceProcess;
  let worker: TestProcess;
  let send: Send;
  let folder: string;

  beforeAll(async () => {
    folder = await makeDataDir();
    for (const name of ['bin', 'nas', 'archive', 'projects']) mkdirSync(join(folder, name));
    writeFileSync(join(folder, 'archive', 'slides'), 'slides of 2026');
    const smi = join(folder, 'bin', 'nvidia-smi');
    writeFileSync(smi, `#!/bin/sh\ncat <<'END'\n${GPUS.join('\n')}\nEND\n`);
    chmodSync(smi, 0o755);
    service = await startService({
      env: {
        SERVICE_API_KEYS: `admin:${ADMIN_KEY},worker:${WORKER_KEY}`,
        SERVICE_SECRETS_KEY: randomBytes(32).toString('base64'),
        SERVICE_SCHEDULER: 'fit',
      },
    });
    send = senderTo(service.url, ADMIN_KEY);
    worker = await startDockerWorker(
      forTests.engine.host,
      {
        url: service.url,
        key: WORKER_KEY,
        id: 'e2e-jobs',
        env: {
          PATH: `${join(folder, 'bin')}:${process.env['PATH'] ?? ''}`,
          SERVICE_WORKER_RAM_MB: '200000',
          SERVICE_WORKER_TAGS: 'x86_64,gpu',
          SERVICE_WORKER_VOLUMES: ['nas', 'archive', 'projects']
            .map((name) => `${name}=${join(folder, name)}${name === 'archive' ? ':ro' : ''}`)
            .join(','),
        },
      },
      folder,
    );
  });

  afterAll(async () => {
    worker.signal('SIGTERM');
    assert.deepEqual(await worker.exited, { code: 0, signal: null }, worker.output);
    assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null }, service.output);
  });

  async function ok(method: string, path: string, body: unknown): Promise<Awaited<ReturnType<Send>>['body']> {
    const answer = await send(method, path, { body });
    assert.ok([200, 201].includes(answer.status), answer.text);
    return answer.body;
  }

  // oxlint-disable-next-line typescript/no-explicit-any -- a run as it comes
  async function endOf(id: string): Promise<any> {
    let run: Awaited<ReturnType<Send>>['body'];
    await until(async () => {
      run = (await send('GET', `/runs/${id}?wait=30`)).body;
      return ['COMPLETED', 'FAILED', 'CANCELLED'].includes(run.state);
    }, `run ${id} has ended`);
    return run;
  }

  // oxlint-disable-next-line typescript/no-explicit-any -- outputs as they come
  async function outputsOf(path: string, body: unknown): Promise<any> {
    const run = await endOf((await ok('POST', path, body)).id);
    assert.equal(run.state, 'COMPLETED', JSON.stringify(run));
    return run.outputs;
  }

  test('an AWS Batch definition: inputs become flags, a GPU of its own, shared memory, a variable', async () => {
    const image = await publish('predict', 'MORE=",\\"cache\\":\\"$HF_HOME\\""; report "$@"');
    await ok('POST', '/definitions', {
      id: 'predict',
      version: '1',
      image,
      description: 'predicts protein structures from a FASTA file in a bucket',
      input_specs: {
        input_url: { type: 'string', required: true },
        output_url: { type: 'string', required: true },
        model: { type: 'string', default: 'fast' },
        num_loops: { type: 'integer', default: 3 },
        sampling_steps: { type: 'integer', default: 50 },
      },
      args: [
        { flag: '--input', input: 'input_url' },
        { flag: '--output', input: 'output_url' },
        { flag: '--model', input: 'model' },
        { flag: '--loops', input: 'num_loops' },
        { flag: '--steps', input: 'sampling_steps' },
      ],
      env: { HF_HOME: '/tmp/hf_cache' },
      constraints: { cpu: cores(8), ram_mb: 30_000, gpus: 1, shm_mb: 8192 },
      retry_policy: { max_attempts: 1 },
      timeouts: { attempt_s: 10_800 },
    });
    const inputs = { input_url: 's3://bucket/a b.fasta', output_url: 's3://bucket/out', sampling_steps: 75 };
    assert.deepEqual(await outputsOf('/definitions/predict/runs', { inputs }), {
      words: '--input|s3://bucket/a b.fasta|--output|s3://bucket/out|--model|fast|--loops|3|--steps|75',
      gpus: '0',
      cpu: cores(8) * 1000,
      shm: 8192,
      cache: '/tmp/hf_cache',
    });
  });

  test('an AWS Batch job with tags: they are searched by, and the container has them', async () => {
    const labels = {
      environment: 'prod',
      team: 'assess',
      owner: 'someone@example.com',
      cost_centre: 'cc-1234',
      product: 'coding',
    };
    const image = await publish('assess', '[ -e /tmp ] && sleep 600');
    const { id } = await ok('POST', '/runs', {
      image,
      name: 'nightly assessment',
      labels,
      selector: ['x86_64'],
      constraints: { cpu: cores(2), ram_mb: 4096 },
      timeouts: { attempt_s: 2400 },
    });
    const started = (await send('GET', `/runs/${id}?wait=60&until=started`)).body;
    assert.equal(started.state, 'RUNNING', JSON.stringify(started));
    const found = await send('GET', '/runs?label=team=assess&label=environment=prod&label=owner');
    assert.deepEqual(
      found.body.data.map((run: { id: string }) => run.id),
      [id],
    );
    let container = '';
    await until(async () => {
      [container = ''] = await forTests.engine.containerIds();
      return container !== '';
    }, 'the container is there');
    const { Config } = await forTests.engine.docker.getContainer(container).inspect();
    for (const [key, value] of Object.entries(labels))
      assert.equal(Config.Labels[`longshore.label.${key}`], value);
    await ok('POST', `/runs/${id}/cancel`, { reason: 'the revision was replaced' });
    assert.equal((await endOf(id)).execution_summary.cancel_reason, 'the revision was replaced');
  });

  test('a parameterized Nomad job: an optional flag, a file of credentials, a third of a core', async () => {
    await ok('PUT', '/secrets/cloud', { kind: 'opaque', value: '{"client":"x-1"}' });
    const script = `MORE=",\\"key\\":\\"$(stat -c '%a %u' "$CLOUD_KEY") $CLOUD_KEY $(wc -c <"$CLOUD_KEY")\\""; report "$@"`;
    await ok('POST', '/definitions', {
      id: 'inundation',
      version: '1',
      image: await publish('inundation', script),
      input_specs: {
        catchment: { type: 'string', required: true },
        forecast: { type: 'string', required: true },
        output: { type: 'string', required: true },
        window_size: { type: 'integer' },
      },
      args: [
        '--catchment',
        '${inputs.catchment}',
        '--forecast',
        '${inputs.forecast}',
        '--output',
        '${inputs.output}',
        { flag: '--window-size', input: 'window_size' },
      ],
      files: { '/root/.cloud/key.json': { secret: 'cloud', mode: '0400', env: 'CLOUD_KEY' } },
      constraints: { cpu_millis: 300, ram_mb: 2048 },
    });
    const inputs = { catchment: 'upper rhine', forecast: '2026-11-27T06', output: '/tmp/map' };
    const words = '--catchment|upper rhine|--forecast|2026-11-27T06|--output|/tmp/map';
    const run = (more: object) =>
      outputsOf('/definitions/inundation/runs', { inputs: { ...inputs, ...more } });
    const { shm: _, ...without } = await run({});
    const key = '400 0 /root/.cloud/key.json 16';
    assert.deepEqual(without, { words, gpus: '', cpu: 300, key });
    assert.equal((await run({ window_size: 7 })).words, `${words}|--window-size|7`);
  });

  test('a Kubernetes job: two GPUs, shared memory, a share with a folder that is made first, its author', async () => {
    const body = {
      image: await publish('evaluate', 'report "$@"; cp "$SERVICE_OUTPUT_PATH" /nas-data/result.json'),
      labels: { 'job-type': 'gpu', author: 'someone@example.com' },
      selector: ['gpu'],
      constraints: { gpus: 2, vram_mb: 40_000, ram_mb: 16_384, shm_mb: 16_384 },
      mounts: [{ volume: 'nas', path: '/nas-data', sub_path: 'evaluations/${run.id}' }],
      retry_policy: { max_attempts: 2 },
    };
    const created = await ok('POST', '/runs', body);
    const run = await endOf(created.id);
    assert.deepEqual(
      [run.state, run.outputs.gpus, run.outputs.shm],
      ['COMPLETED', '4,5', 16_384],
      JSON.stringify(run),
    );
    assert.deepEqual(run.execution_summary.gpu_ids, [4, 5]);
    const stored = readFileSync(join(folder, 'nas', 'evaluations', run.id, 'result.json'), 'utf8');
    assert.deepEqual(JSON.parse(stored), run.outputs);
  });

  test('a Slurm script: an archive that is only read, results that stay, scratch that goes, a token', async () => {
    await ok('PUT', '/secrets/hub', { kind: 'opaque', value: 'hf_of_the_tests' });
    const script = `
touch /data/archive/x 2>/dev/null && ro=false || ro=true
cp /data/archive/slides /scratch/work && cp /scratch/work /data/projects/features
MORE=",\\"read_only\\":$ro,\\"token\\":\${#HF_TOKEN},\\"scratch\\":\\"$(ls /scratch)\\""
report "$@"`;
    const outputs = await outputsOf('/runs', {
      image: await publish('features', script),
      name: 'features part 2',
      constraints: { cpu: cores(8), ram_mb: 61_440, gpus: 2 },
      timeouts: { attempt_s: 604_800 },
      mounts: [
        { volume: 'archive', path: '/data/archive', read_only: true },
        { volume: 'projects', path: '/data/projects' },
        { scratch_mb: 500_000, path: '/scratch' },
      ],
      secrets: { HF_TOKEN: 'hub' },
    });
    assert.deepEqual(
      [outputs.gpus, outputs.read_only, outputs.token, outputs.scratch],
      ['0,1', true, 15, 'work'],
    );
    assert.equal(readFileSync(join(folder, 'projects', 'features'), 'utf8'), 'slides of 2026');
    assert.deepEqual(readdirSync(join(folder, 'archive')), ['slides']);
    const { docker } = forTests.engine;
    await until(
      async () => (await docker.listVolumes()).Volumes.length === 0,
      'the scratch of the run is gone',
    );
  });

  test('a Nextflow process: after an attempt that is killed for its memory, the next one really has more', async () => {
    const script = `
awk 'BEGIN { text = sprintf("%1048576s", ""); for (n = 0; n < 70; n++) all[n] = text n }' || exit $?
MORE=",\\"limit\\":$(cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes)"
report "$@"`;
    const failures = ['oom', 'exit:104', 'exit:130-145', 'exit:175'];
    await ok('POST', '/definitions', {
      id: 'align',
      version: '1',
      image: await publish('align', script),
      constraints: { cpu: cores(12), ram_mb: 50 },
      retry_policy: {
        max_attempts: 2,
        retry_on: failures,
        grow: { ram_mb: { factor: 2, max: 73_728, on: failures } },
      },
      timeouts: { attempt_s: 57_600 },
    });
    const run = await endOf((await ok('POST', '/definitions/align/runs', {})).id);
    const { body: attempts } = await send('GET', `/runs/${run.id}/attempts`);
    const ended = attempts.map(
      ({ state, constraints, execution_summary: { cause, exit_code: code } }: Attempt) => [
        state,
        constraints.ram_mb,
        cause,
        code,
      ],
    );
    assert.deepEqual(
      ended,
      [
        ['FAILED', 50, 'oom', 137],
        ['COMPLETED', 100, undefined, undefined],
      ],
      JSON.stringify(attempts),
    );
    const { cpu, shm, limit } = run.outputs;
    assert.deepEqual([cpu, shm, limit], [cores(12) * 1000, 100, 100 * 1024 * 1024]);
    assert.deepEqual([run.constraints.ram_mb, run.execution_summary.asked_ram_mb], [100, 50]);
  });
});

function publish(name: string, script: string): Promise<string> {
  return forTests.engine.publishScript(name, `${REPORT}\n${script}`);
}
