import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, mock, test } from 'node:test';
import { SettingsReader } from '@longshore/common/settings/settings-reader';
import { MemoryLog } from '../../testing/container-spec.js';
import { jobSpec } from '../../testing/job-spec.js';
import { SlurmEngine } from './slurm.engine.js';
import { readSlurmSettings, SLURM_SETTINGS } from './slurm-settings.js';

const MINUTE = 60_000;
const LIVE_JOB = '41|RUNNING|1|10M|N/A|test.other.1|longshore:w|None\n';
const SPEC = jobSpec();

describe('a job that Slurm refuses for a limit without a name', () => {
  let base: string;
  let engine: SlurmEngine;

  beforeEach(async () => {
    mock.timers.enable({ apis: ['Date'], now: Date.now() });
    base = mkdtempSync(join(tmpdir(), 'longshore-slurm-engine-'));
    mkdirSync(join(base, 'bin'));
    jobs('');
    for (const [name, script] of [
      ['sbatch', 'cat >/dev/null; echo "sbatch: error: Job violates accounting/QOS policy" >&2; exit 1'],
      ['squeue', `cat '${base}/jobs'`],
      ['sinfo', "echo 'main*'"],
      ['scontrol', ':'],
    ] as const)
      writeFileSync(join(base, 'bin', name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const settings = readSlurmSettings(
      new SettingsReader(SLURM_SETTINGS, [], {
        SERVICE_WORKER_SLURM_DIR: join(base, 'shared'),
        SERVICE_WORKER_SLURM_CONTAINER: '/container',
        SERVICE_WORKER_SLURM_POLL: '300',
      }),
    );
    const env = { PATH: `${base}/bin:/usr/bin:/bin` };
    engine = new SlurmEngine({ settings, workerId: 'w', deployment: 'test', log: new MemoryLog(), env });
    await engine.open();
  });
  afterEach(async () => {
    await engine.close();
    mock.timers.reset();
    rmSync(base, { recursive: true });
  });

  function jobs(lines: string): void {
    writeFileSync(join(base, 'jobs'), lines);
  }

  test('is tried again for five minutes, and then fails its run', async () => {
    await assert.rejects(engine.submit(SPEC), { name: 'EngineFault' });
    mock.timers.tick(5 * MINUTE - 1);
    await assert.rejects(engine.submit(SPEC), { name: 'EngineFault' });
    mock.timers.tick(1);
    await assert.rejects(engine.submit(SPEC), { name: 'RunFault', message: /violates accounting/ });
    await engine.remove(SPEC, 0);
    assert.deepEqual(readdirSync(join(base, 'shared', 'test')), []);
  });

  test('is tried again for as long as other jobs of the deployment may be what fills the limit', async () => {
    jobs(LIVE_JOB);
    await assert.rejects(engine.submit(SPEC), { name: 'EngineFault' });
    mock.timers.tick(9 * MINUTE);
    await assert.rejects(engine.submit(SPEC), { name: 'EngineFault' });
    jobs('');
    await assert.rejects(engine.submit(SPEC), { name: 'RunFault' });
  });
});
