import assert from 'node:assert/strict';
import { Command, CommanderError } from 'commander';
import { test } from 'vitest';
import { given, readConstraints, takesResourceFlags, type ResourceFlags } from './new-run.js';

/** What a command line asks for. */
function constraintsOf(...argv: readonly string[]): unknown {
  const command = takesResourceFlags(new Command()).exitOverride();
  command.configureOutput({ writeErr: () => undefined }).action(() => undefined);
  command.parse(argv, { from: 'user' });
  return given('constraints', readConstraints(command.opts<ResourceFlags>()));
}

test('the flags of resources give every constraint that a run may have', () => {
  const flags =
    '--cpu 0.5 --cpu-limit 1.25 --ram-mb 512 --shm-mb 64 --vram-mb 40000 --gpus 8 --gpu-tag a100,nvlink --gpu-tag sxm';
  assert.deepEqual(constraintsOf(...flags.split(' ')), {
    constraints: {
      cpu_millis: 500,
      cpu_limit_millis: 1250,
      ram_mb: 512,
      shm_mb: 64,
      vram_mb: 40_000,
      gpus: 8,
      gpu_selector: ['a100', 'nvlink', 'sxm'],
    },
  });
});

test('no flag of resources asks for nothing, and whole cores are asked for as every service knows them', () => {
  assert.deepEqual(constraintsOf(), {});
  assert.deepEqual(constraintsOf('--cpu', '2', '--cpu-limit', '0'), {
    constraints: { cpu: 2, cpu_limit_millis: 0 },
  });
  assert.deepEqual(constraintsOf('--cpu', '2.0'), { constraints: { cpu: 2 } });
  assert.deepEqual(constraintsOf('--cpu', '0.001'), { constraints: { cpu_millis: 1 } });
});

test('a number of cores that no run can have is refused', () => {
  for (const cpu of ['-1', '0.0001', '1e3', '.5', '500m', '2147484', '']) {
    assert.throws(() => constraintsOf('--cpu', cpu), CommanderError, cpu);
  }
});
