import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, test, vi } from 'vitest';
import type { FetchedSource } from '@longshore/worker/runtime/runtime';
import type { EngineJob } from '../launcher/engine.js';
import { fetchAddresses } from '@longshore/worker/artifacts/download';
import { FileCache } from '@longshore/worker/artifacts/file-cache';
import { NO_VOLUMES, parseVolumes } from '@longshore/worker/settings/volumes';
import { MemoryLog } from '@longshore/worker/testing/container-spec';
import { jobSpec } from '../testing/job-spec.js';
import { SlurmEngine, type SlurmEngineOptions } from './slurm.engine.js';
import { readSettings } from '@longshore/worker/settings/setting-table';
import { SLURM_SETTINGS } from '@longshore/worker/settings/slurm-settings';
import { parseOutputs } from '@longshore/worker/runtime/outputs';

const MINUTE = 60_000;
const LIVE_JOB = '41|RUNNING|1|10M|N/A|test.other.1|longshore:w|None\n';
const SPEC = jobSpec();

const RUNNING_JOB = '7|RUNNING|1|10M|N/A|test.r1.2|longshore:w|None\n';

/** The capabilities of an engine for mounts. */
function mountable({ capabilities }: SlurmEngine): string[] {
  return capabilities.filter((name) => name === 'scratch' || name.startsWith('volume:'));
}

/** What was fetched for a run, and cannot be written. */
function failing(code: string): FetchedSource {
  const entries = () => assert.fail(Object.assign(new Error('not written'), { code }));
  return { path: '/in', kind: 'file', entries };
}

describe('the engine of Slurm', () => {
  let base: string;
  let engine: SlurmEngine;
  let options: SlurmEngineOptions;

  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    base = mkdtempSync(join(tmpdir(), 'longshore-slurm-engine-'));
    mkdirSync(join(base, 'bin'));
    jobs('');
    writeFileSync(join(base, 'refusal'), 'sbatch: error: Job violates accounting/QOS policy\n');
    for (const [name, script] of [
      ['sbatch', `/bin/cat >/dev/null; /bin/cat '${base}/refusal' >&2 2>/dev/null && exit 1; echo 7`],
      ['squeue', `/bin/cat '${base}/jobs'`],
      ['sinfo', "echo 'main*'"],
      ['scontrol', ':'],
      ['scancel', `: >'${base}/jobs'; exit 229`],
    ] as const)
      writeFileSync(join(base, 'bin', name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const settings = readSettings(SLURM_SETTINGS, {
      SERVICE_WORKER_SLURM_DIR: join(base, 'shared'),
      SERVICE_WORKER_SLURM_CONTAINER: '/container',
      SERVICE_WORKER_SLURM_POLL: '300',
    });
    // Without a Slurm of this machine.
    const env = { PATH: join(base, 'bin') };
    const files = { cache: new FileCache(join(base, 'files'), 0), addresses: fetchAddresses(null) };
    const log = new MemoryLog();
    options = { settings, volumes: NO_VOLUMES, workerId: 'w', deployment: 'test', log, env, files };
    engine = new SlurmEngine(options);
    await engine.open();
  });
  afterEach(async () => {
    await engine.close();
    vi.useRealTimers();
    rmSync(base, { recursive: true });
  });

  function jobs(lines: string): void {
    writeFileSync(join(base, 'jobs'), lines);
  }

  test('tries a job that a limit without a name refuses again for five minutes, and then fails its run', async () => {
    await assert.rejects(engine.submit(SPEC), { name: 'EngineFault' });
    vi.advanceTimersByTime(5 * MINUTE - 1);
    await assert.rejects(engine.submit(SPEC), { name: 'EngineFault' });
    vi.advanceTimersByTime(1);
    await assert.rejects(engine.submit(SPEC), { name: 'RunFault', message: /violates accounting/ });
    await engine.remove(SPEC);
    assert.deepEqual(readdirSync(join(base, 'shared', 'test')), []);
  });

  test('tries it again for as long as other jobs of the deployment may be what fills the limit', async () => {
    jobs(LIVE_JOB);
    await assert.rejects(engine.submit(SPEC), { name: 'EngineFault' });
    vi.advanceTimersByTime(9 * MINUTE);
    await assert.rejects(engine.submit(SPEC), { name: 'EngineFault' });
    jobs('');
    await assert.rejects(engine.submit(SPEC), { name: 'RunFault' });
  });

  /** Submits the job, which then runs. */
  async function submitted(): Promise<EngineJob> {
    rmSync(join(base, 'refusal'));
    const job = await engine.submit(SPEC);
    jobs(RUNNING_JOB);
    await engine.probe();
    return job;
  }

  test('waits for outputs while the shared folder cannot be read', async () => {
    const job = await submitted();
    const io = join(base, 'shared', 'test', 'r1.2', 'io');
    renameSync(io, `${io}.away`);
    writeFileSync(io, '');
    const outputs = engine.readOutputs(job, AbortSignal.timeout(10_000));
    await sleep(100);
    rmSync(io);
    renameSync(`${io}.away`, io);
    writeFileSync(join(io, 'output.json'), '{"n":1}');
    assert.deepEqual(parseOutputs(await outputs)?.outputs, { n: 1 });
  });

  test('lists the other attempts beside a damaged folder, and keeps a live job with such a folder for its worker', async () => {
    await submitted();
    const root = join(base, 'shared', 'test');
    writeFileSync(join(root, 'r1.2', 'submission'), '');
    writeFileSync(join(root, 'stray.1'), '');
    mkdirSync(join(root, 'damaged.1'));
    writeFileSync(join(root, 'damaged.1', 'submission'), '');
    const another = new SlurmEngine(options);
    await another.open();
    assert.deepEqual(
      another.list().map(({ runId, workerId }) => [runId, workerId]),
      [['r1', 'w']],
    );
    await another.close();
    assert.deepEqual(readdirSync(root).toSorted(), ['r1.2', 'stray.1']);
  });

  test('has the values of secrets and what the next process must know until the job is removed, also when there are none', async () => {
    const job = await submitted();
    const none = { signedQueries: [], notes: [] };
    assert.deepEqual([await engine.readSecrets(job), await engine.readMemo(job)], [{}, none]);
    await engine.remove(job);
    assert.deepEqual([await engine.readSecrets(job), await engine.readMemo(job)], [null, null]);
  });

  test('announces the volumes that it is given, and empty folders where nodes have a place for them', () => {
    assert.deepEqual(mountable(engine), []);
    const volumes = parseVolumes('in=/in:ro,out=/out') ?? NO_VOLUMES;
    const settings = { ...options.settings, scratchDir: 'TMPDIR' };
    assert.deepEqual(mountable(new SlurmEngine({ ...options, volumes, settings })), [
      'scratch',
      'volume:in',
      'volume:out',
      'volume:out:rw',
    ]);
  });

  test('announces files and artifacts, and of a script only when that makes mounts', () => {
    const hasFiles = (more: Partial<SlurmEngineOptions>): boolean => {
      const { capabilities } = new SlurmEngine({ ...options, ...more });
      assert.equal(capabilities.includes('artifacts'), capabilities.includes('files'));
      return capabilities.includes('files');
    };
    const volumes = parseVolumes('in=/in:ro') ?? NO_VOLUMES;
    const { settings } = options;
    assert.deepEqual(
      [
        {},
        { volumes },
        { settings: { ...settings, scratchDir: '/scratch' } },
        { settings: { ...settings, container: 'charliecloud' } as const },
      ].map(hasFiles),
      [false, true, true, true],
    );
  });

  test('fails a run with a volume that it does not offer any more, and submits nothing', async () => {
    const mounts = [{ volume: 'gone', path: '/data' }];
    await assert.rejects(engine.submit(jobSpec({ mounts })), {
      name: 'Error',
      message: "This worker does not offer the volume 'gone'",
    });
    assert.deepEqual(readdirSync(join(base, 'shared', 'test')), []);
  });

  for (const [what, code, fault] of [
    ['as infrastructure where the shared folder has no space for its files', 'ENOSPC', 'Error'],
    ['whose files cannot be at their path', 'ELOOP', 'RunFault'],
  ] as const)
    test(`fails a run ${what}, and submits nothing`, async () => {
      const spec = jobSpec({ artifacts: { fetched: [failing(code)], folders: [] } });
      await assert.rejects(engine.submit(spec), { name: fault, message: /'\/in' could not be put/ });
      assert.deepEqual(readdirSync(join(base, 'shared', 'test')), []);
    });

  test('keeps what the next process must know of a job, and reads what it has left, as long as its folder is there', async () => {
    rmSync(join(base, 'refusal'));
    const memo = { signedQueries: ['signature=1'], notes: ['fetched'] };
    const job = await engine.submit(jobSpec({ memo, artifacts: { fetched: [], folders: ['/out'] } }));
    const folder = join(base, 'shared', 'test', 'r1.2');
    const out = join(folder, 'artifacts', 'out');
    assert.equal(statSync(out).mode & 0o777, 0o777);
    writeFileSync(join(out, 'a'), 'left');
    symlinkSync('/etc/passwd', join(out, 'link'));
    symlinkSync('/etc', join(out, 'etc'));
    const next = new SlurmEngine({ ...options, workerId: 'next' });
    assert.deepEqual(await next.readMemo(job), memo);
    const { signal } = new AbortController();
    const files = next.files.ended(job, signal);
    const names: string[] = [];
    for await (const name of files.list('/out')) names.push(name);
    assert.deepEqual(names, ['a']);
    const left = await files.open('/out/a');
    assert.equal(left && (await text(left.content)), 'left');
    for (const path of ['/out/link', '/out/etc/passwd', '/out/none'])
      assert.equal(await files.open(path), null, path);
    await engine.remove(job);
    assert.equal(existsSync(folder), false);
    assert.equal(await next.readMemo(job), null);
    await assert.rejects(files.open('/out/a'), { name: 'EngineFault', message: /is gone/ });
  });

  test('removes a job that ends while it is cancelled', async () => {
    await engine.remove(await submitted());
    assert.deepEqual(engine.list(), []);
  });

  test('keeps the folder of an attempt that has ended until its job has left Slurm, and ends what keeps it there', async () => {
    const job = await submitted();
    const folder = join(base, 'shared', 'test', 'r1.2');
    symlinkSync('7.node.1.1', join(folder, 'taken'));
    writeFileSync(join(folder, 'started'), `${Date.now()}\n`);
    writeFileSync(join(folder, 'exit'), `exited 0 0 0 ${Date.now()}\n`);
    jobs(RUNNING_JOB.replace('RUNNING', 'COMPLETING'));
    // The first signal is for what the program has left, at the end of the grace.
    const scancel = `#!/bin/sh\n[ -d '${folder}' ] && echo there >'${base}/seen'; : >'${base}/jobs'\n`;
    writeFileSync(join(base, 'bin', 'scancel'), scancel);
    const impatient = new SlurmEngine({ ...options, graceSeconds: 0 });
    await impatient.open();
    await impatient.remove(job);
    await impatient.close();
    assert.equal(readFileSync(join(base, 'seen'), 'utf8'), 'there\n');
    assert.equal(existsSync(folder), false);
  });

  test('warns when its tool leaves processes to Slurm, and Slurm does not find all of them', async () => {
    const own =
      'a process that a program leaves can outlive its job: the ProctrackType of Slurm is not proctrack/cgroup';
    const asRoot = 'jobs run as root: what isolates runs from their nodes is the container tool alone';
    for (const [type, container, isRoot, expected] of [
      ['linuxproc', { script: '/container' }, false, [own]],
      ['linuxproc', 'enroot', false, [own]],
      ['linuxproc', 'apptainer', false, []],
      ['linuxproc', { script: '/container' }, true, [asRoot]],
      ['cgroup', { script: '/container' }, false, []],
    ] as const) {
      const shown = `#!/bin/sh\necho 'ProctrackType           = proctrack/${type}'\n`;
      writeFileSync(join(base, 'bin', 'scontrol'), shown);
      const log = new MemoryLog();
      const settings = { ...options.settings, container };
      const another = new SlurmEngine({ ...options, settings, log, isRoot });
      await another.open();
      await another.close();
      assert.deepEqual(
        log.warnings.map(({ message }) => message),
        expected,
      );
    }
  });

  test('waits for a command of Slurm that is being replaced', async () => {
    renameSync(join(base, 'bin', 'squeue'), join(base, 'bin', 'squeue.old'));
    await assert.rejects(engine.submit(SPEC), { name: 'EngineFault', message: /squeue.*not installed/ });
  });
});
