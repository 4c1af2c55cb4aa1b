import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { readSettings } from './setting-table.js';
import { placeProblems, SLURM_SETTINGS, type SlurmSettings } from './slurm-settings.js';

function read(env: Readonly<Record<string, string>>): SlurmSettings {
  return readSettings(SLURM_SETTINGS, env);
}

describe('the settings of Slurm', () => {
  test('are all optional for another runtime', () => {
    const { dir, container, scratchDir, partitions, args, pollSeconds } = read({});
    assert.deepEqual(
      [dir, container, scratchDir, partitions, args, pollSeconds],
      [null, null, null, [], [], 2],
    );
  });

  for (const [name, value] of [
    ['SERVICE_WORKER_SLURM_DIR', 'relative/path'],
    ['SERVICE_WORKER_SLURM_DIR', "/it's"],
    ['SERVICE_WORKER_SLURM_CONTAINER', 'docker'],
    ['SERVICE_WORKER_SLURM_CONTAINER', '/a b'],
    ['SERVICE_WORKER_SLURM_SCRATCH', '$TMPDIR'],
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
    assert.deepEqual(placeProblems(read({}), false), [
      'SERVICE_WORKER_SLURM_DIR must be set for the runtime slurm',
      'SERVICE_WORKER_SLURM_CONTAINER must be set for the runtime slurm',
    ]);
    assert.deepEqual(placeProblems(read(place), false), [
      'SERVICE_WORKER_SLURM_IMAGES must be set for charliecloud and runc',
    ]);
    assert.deepEqual(placeProblems(read({ ...place, ...images }), false), []);
  });

  test('of root does not start with a tool whose containers of root are root on the node', () => {
    for (const tool of ['apptainer', 'charliecloud', 'enroot', 'runc', '/a/script']) {
      const settings = read({ ...place, ...images, SERVICE_WORKER_SLURM_CONTAINER: tool });
      assert.deepEqual(placeProblems(settings, false), []);
      assert.deepEqual(
        placeProblems(settings, true),
        ['apptainer', 'charliecloud'].includes(tool)
          ? [
              `SERVICE_WORKER_SLURM_CONTAINER must not be ${tool} for a launcher of root (uid 0), whose jobs would be root on the nodes: start it as another user`,
            ]
          : [],
      );
    }
  });

  test('does not start with GPUs for runc, which gives containers none', () => {
    const gpus = { ...place, ...images, SERVICE_WORKER_SLURM_GPUS: 'l4=24000' };
    assert.deepEqual(placeProblems(read(gpus), false), [
      'SERVICE_WORKER_SLURM_GPUS must not be set for runc, which gives containers no GPU',
    ]);
    assert.deepEqual(
      placeProblems(read({ ...gpus, SERVICE_WORKER_SLURM_CONTAINER: 'charliecloud' }), false),
      [],
    );
  });
});
