import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { SettingsReader } from '@longshore/common/settings/settings-reader';
import type { JobSpec } from '../../launcher/engine.js';
import { jobSpec } from '../../testing/job-spec.js';
import { sbatchArguments } from './sbatch-arguments.js';
import { placeProblems, readSlurmSettings, SLURM_SETTINGS, type SlurmSettings } from './slurm-settings.js';

function read(env: Readonly<Record<string, string>>): SlurmSettings {
  const reader = new SettingsReader(SLURM_SETTINGS, [], env);
  const settings = readSlurmSettings(reader);
  reader.throwIfRefused();
  return settings;
}

function spec(constraints: Partial<JobSpec['constraints']>, selector: readonly string[] = []): JobSpec {
  return jobSpec({ constraints: { cpu: 0, ramMb: 0, vramMb: 0, gpuId: null, ...constraints }, selector });
}

describe('the settings of Slurm', () => {
  test('are all optional for another runtime', () => {
    const { dir, container, partitions, args, pollSeconds } = read({});
    assert.deepEqual([dir, container, partitions, args, pollSeconds], [null, null, [], [], 2]);
  });

  for (const [name, value] of [
    ['SERVICE_WORKER_SLURM_DIR', 'relative/path'],
    ['SERVICE_WORKER_SLURM_DIR', "/it's"],
    ['SERVICE_WORKER_SLURM_CONTAINER', 'docker'],
    ['SERVICE_WORKER_SLURM_CONTAINER', '/a b'],
    ['SERVICE_WORKER_SLURM_PARTITIONS', 'a b'],
    ['SERVICE_WORKER_SLURM_ACCOUNT', '--uid=0'],
    ['SERVICE_WORKER_SLURM_FEATURES', 'tag'],
    ['SERVICE_WORKER_SLURM_FEATURES', 'tag=a|b'],
    ['SERVICE_WORKER_SLURM_GPUS', 'a100=much'],
    ['SERVICE_WORKER_SLURM_ARGS', 'script.sh'],
    ['SERVICE_WORKER_SLURM_ARGS', '-n 4'],
    ['SERVICE_WORKER_SLURM_ARGS', '--array=1-4'],
    ['SERVICE_WORKER_SLURM_ARGS', '--requeue'],
    // getopt_long takes any beginning of an option's name.
    ['SERVICE_WORKER_SLURM_ARGS', '--arra=1-9'],
    ['SERVICE_WORKER_SLURM_ARGS', '--exp=NONE'],
    ['SERVICE_WORKER_SLURM_POLL', '0.1'],
  ] as const) {
    test(`refuse ${name}=${value}`, () => {
      assert.throws(() => read({ [name]: value }), {
        name: 'SettingsError',
        message: new RegExp(`^${name} must be `),
      });
    });
  }
});

describe('a launcher of Slurm', () => {
  const place = { SERVICE_WORKER_SLURM_DIR: '/shared', SERVICE_WORKER_SLURM_CONTAINER: 'runc' };
  const images = { SERVICE_WORKER_SLURM_IMAGES: '/images' };

  test('does not start without a folder, a container tool, and the images of a tool that needs them', () => {
    assert.deepEqual(placeProblems(read({})), [
      'SERVICE_WORKER_SLURM_DIR must be set for the runtime slurm',
      'SERVICE_WORKER_SLURM_CONTAINER must be set for the runtime slurm',
    ]);
    assert.deepEqual(placeProblems(read(place)), [
      'SERVICE_WORKER_SLURM_IMAGES must be set for charliecloud and runc',
    ]);
    assert.deepEqual(placeProblems(read({ ...place, ...images })), []);
  });

  test('does not start with GPUs for runc, which gives containers none', () => {
    const gpus = { ...place, ...images, SERVICE_WORKER_SLURM_GPUS: 'l4=24000' };
    assert.deepEqual(placeProblems(read(gpus)), [
      'SERVICE_WORKER_SLURM_GPUS must not be set for runc, which gives containers no GPU',
    ]);
    assert.deepEqual(placeProblems(read({ ...gpus, SERVICE_WORKER_SLURM_CONTAINER: 'charliecloud' })), []);
  });
});

describe('the arguments of sbatch', () => {
  const settings = read({
    SERVICE_WORKER_SLURM_FEATURES: 'fast=nvme,arm=arm64',
    SERVICE_WORKER_SLURM_GPUS: 'l4=24000,a100=81920',
    SERVICE_WORKER_SLURM_ACCOUNT: 'lab',
    SERVICE_WORKER_SLURM_QOS: 'long',
    SERVICE_WORKER_SLURM_TIME: '90',
    SERVICE_WORKER_SLURM_ARGS: '--exclusive --nice=10',
  });

  test('ask for what the run needs, with the settings', () => {
    const args = sbatchArguments(spec({ cpu: 1.5, ramMb: 300 }, ['fast', 'arm', 'own']), settings, [
      'a',
      'b',
    ]);
    const expected = [
      '--partition=a,b',
      '--cpus-per-task=2',
      '--mem=300M',
      '--constraint=nvme&arm64',
      '--account=lab',
    ];
    for (const arg of [
      ...expected,
      '--qos=long',
      '--time=90',
      '--no-requeue',
      '--export=ALL',
      '--exclusive',
      '--nice=10',
    ])
      assert.ok(args.includes(arg), arg);
    assert.ok(!args.some((arg) => arg.startsWith('--gres')));
  });

  test('ask for a GPU of the smallest type that has the memory', () => {
    assert.ok(sbatchArguments(spec({ gpuId: 0 }), settings, []).includes('--gres=gpu:l4:1'));
    assert.ok(sbatchArguments(spec({ vramMb: 24_001 }), settings, []).includes('--gres=gpu:a100:1'));
    const untyped = read({ SERVICE_WORKER_SLURM_GPUS: 'gpu=16000' });
    assert.ok(sbatchArguments(spec({ vramMb: 1 }), untyped, []).includes('--gres=gpu:1'));
    assert.throws(() => sbatchArguments(spec({ vramMb: 100_000 }), settings, []), { name: 'RunFault' });
  });
});
