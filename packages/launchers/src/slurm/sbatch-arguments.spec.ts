import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { SettingsReader } from '@longshore/common/settings/settings-reader';
import type { JobSpec } from '../launcher/engine.js';
import {
  readSlurmSettings,
  SLURM_SETTINGS,
  type SlurmSettings,
} from '@longshore/worker/settings/slurm-settings';
import { NO_CONSTRAINTS } from '@longshore/worker/service-api/constraints';
import { jobSpec } from '../testing/job-spec.js';
import { sbatchArguments } from './sbatch-arguments.js';

function read(env: Readonly<Record<string, string>>): SlurmSettings {
  return readSlurmSettings(new SettingsReader(SLURM_SETTINGS, [], env));
}

function spec(constraints: Partial<JobSpec['constraints']>, selector: readonly string[] = []): JobSpec {
  return jobSpec({ constraints: { ...NO_CONSTRAINTS, ...constraints }, selector });
}

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
    const args = sbatchArguments(spec({ cpuMillis: 1500, ramMb: 300 }, ['fast', 'arm', 'own']), settings, [
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
    assert.ok(sbatchArguments(spec({ gpuIds: [0] }), settings, []).includes('--gres=gpu:l4:1'));
    assert.ok(sbatchArguments(spec({ vramMb: 24_001 }), settings, []).includes('--gres=gpu:a100:1'));
    const untyped = read({ SERVICE_WORKER_SLURM_GPUS: 'gpu=16000' });
    assert.ok(sbatchArguments(spec({ vramMb: 1 }), untyped, []).includes('--gres=gpu:1'));
    assert.throws(() => sbatchArguments(spec({ vramMb: 100_000 }), settings, []), { name: 'RunFault' });
  });

  const gresOf = (constraints: Partial<JobSpec['constraints']>) =>
    sbatchArguments(spec(constraints), settings, []).find((arg) => arg.startsWith('--gres'));

  test('ask for as many whole GPUs of one type, which has the tags', () => {
    assert.equal(gresOf({ gpus: 8 }), '--gres=gpu:l4:8');
    assert.equal(gresOf({ gpus: 2, vramMb: 40_000 }), '--gres=gpu:a100:2');
    assert.equal(gresOf({ gpus: 2, gpuSelector: ['a100'] }), '--gres=gpu:a100:2');
    assert.throws(() => gresOf({ gpus: 1, vramMb: 40_000, gpuSelector: ['l4'] }), {
      name: 'RunFault',
      message: "No GPU of SERVICE_WORKER_SLURM_GPUS has 40000 MB of memory and the tag 'l4'",
    });
  });
});
