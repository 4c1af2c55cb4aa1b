import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { Cli, ended } from '../../support/programs/cli.js';
import { RunViews } from '../../support/runs/run-views.js';
import {
  makeDataDir,
  startService,
  type ServiceProcess,
  type TestProcess,
} from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { endWorker, ScriptImages, untilFile } from '../../support/workers/worker-process.js';
import { skipFor } from '../../support/skip.js';

const ADMIN = 'e2e-admin-key-of-the-tests';
const WORKER = 'e2e-worker-key-of-the-tests';
const NO_SCRIPT = spawnSync('script', ['--version']).error !== undefined && 'script(1) is not installed';

describe('following a run on the command line', () => {
  let service: ServiceProcess;
  let runs: RunViews;
  let cli: Cli;
  let images: ScriptImages;
  let worker: TestProcess;
  const env: Record<string, string> = { SERVICE_API_KEYS: `admin:${ADMIN},worker:${WORKER}` };

  beforeAll(async () => {
    service = await startService({ dataDir: await makeDataDir(), env });
    runs = new RunViews(senderTo(service.url, ADMIN));
    cli = await Cli.make({ SERVICE_URL: service.url, SERVICE_API_KEY: ADMIN });
    images = await ScriptImages.make();
    await images.add('fine', `echo one; echo '{"type": "PROGRESS", "msg": 50}'; echo two >&2`);
    await images.add('bad', 'echo oops; exit 4');
    await images.add('flaky', 'echo "try"; exit 1');
    // By the command line too, so that its worker is the one that is tested with.
    worker = await cli.startShell(
      `SERVICE_API_KEY=${WORKER} exec longshore worker --id watched --runtime process --images-dir '${images.folder}' --tick 0.2`,
    );
    await worker.untilOutput(/registered at the service/);
  });
  afterAll(async () => {
    await endWorker(worker);
    assert.equal(await service.stop(), 0, service.output);
  });

  test('prints its log, tells its events, and ends with 0 when it is completed', async () => {
    const { code, stdout, stderr } = await cli.run('run', 'create', 'fine', '--wait');
    assert.equal(code, 0, stderr);
    assert.deepEqual(
      stdout.split('\n').toSorted(),
      ['', 'one', 'two', '{"type": "PROGRESS", "msg": 50}'].toSorted(),
    );
    assert.match(stderr, /^run \S+\n[^]*STARTED[^]*PROGRESS {3}50 %[^]*is COMPLETED after [\d.]+s\n$/);
    assert.ok(!stderr.includes('\u001b'), 'no control characters in a pipe');
  });

  test('ends with 1 when it has failed, after every attempt, or was cancelled', async () => {
    const failed = await cli.run('run', 'create', 'bad', '--wait');
    assert.equal(failed.code, 1);
    assert.equal(failed.stdout, 'oops\n');
    const retried = await cli.run('run', 'create', 'flaky', '--max-attempts', '3', '--wait');
    assert.equal(retried.code, 1, retried.output);
    assert.equal(retried.stdout, 'try\ntry\ntry\n');
    assert.match(retried.stderr, /^attempt 3 of run /m);
    const id = await runs.create('never-held', { constraints: { cpu: 9999 } });
    await cli.run('run', 'cancel', id);
    assert.equal((await cli.run('run', 'watch', id)).code, 1);
  });

  test('prints JSON lines of the API for programs, the run last', async () => {
    const { code, stdout } = await cli.run('run', 'create', 'fine', '--wait', '--json');
    assert.equal(code, 0);
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.equal(lines.at(-1).state, 'COMPLETED');
    const events = lines.filter(({ type }) => type !== undefined).map(({ type }) => type);
    assert.deepEqual(events, ['STARTED', 'PROGRESS', 'COMPLETED']);
    assert.deepEqual(
      lines.filter(({ stream }) => stream !== undefined).map(({ line }) => line),
      [0, 1, 2],
    );
  });

  test('leaves the run at Ctrl-C and says so', async () => {
    const gate = images.gate('left');
    await images.add('left', `echo begun; ${untilFile(gate.path)}`);
    const watch = await cli.start('run', 'create', 'left', '--wait');
    await watch.untilOutput(/begun/);
    watch.signal('SIGINT');
    const { code, stderr } = await ended(watch);
    assert.equal(code, 130);
    const [, id = ''] = /left run (\S+), which goes on/.exec(stderr) ?? assert.fail(stderr);
    assert.equal((await runs.get(id)).state, 'RUNNING');
    await gate.open();
    assert.equal((await cli.run('run', 'watch', id)).code, 0);
  });

  test('reads logs afterwards: all, the end, what holds a text, with times, as JSON', async () => {
    await images.add('lines', 'seq 1 6000');
    const { code, stdout } = await cli.run('run', 'create', 'lines', '--wait', '--json', '--no-logs');
    assert.equal(code, 0);
    const { id } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
    const all = Array.from({ length: 6000 }, (_, n) => `${n + 1}\n`).join('');
    assert.equal((await cli.run('run', 'logs', id, '--follow')).stdout, all);
    assert.equal((await cli.run('run', 'logs', id)).stdout, all);
    assert.equal((await cli.run('run', 'logs', id, '-n', '2')).stdout, '5999\n6000\n');
    assert.equal((await cli.run('run', 'logs', id, '-n', '2', '-f')).stdout, '5999\n6000\n');
    assert.equal((await cli.run('run', 'logs', id, '--grep', '599', '-n', '2')).stdout, '5998\n5999\n');
    assert.match((await cli.run('run', 'logs', id, '-n', '1', '--timestamps')).stdout, /^\d{4}-\S+Z 6000\n$/);
    assert.equal(JSON.parse((await cli.run('run', 'logs', id, '-n', '1', '--json')).stdout).line, 5999);
    assert.equal(
      (await cli.shell(`set -o pipefail; longshore run logs ${id} | head -1 || true`)).stdout,
      '1\n',
    );
  });

  test('misses and doubles no line when the service is killed and comes back', async () => {
    const count = 1500;
    await images.add(
      'steady',
      `n=0; while [ $n -lt ${count} ]; do echo "line $n"; n=$((n+1)); sleep 0.002; done`,
    );
    const watch = await cli.start('run', 'create', 'steady', '--wait');
    await watch.untilOutput(/line 200\n/);
    const { port } = new URL(service.url);
    const { dataDir } = service;
    await service.kill('SIGKILL');
    service = await startService({ dataDir, env: { ...env, SERVICE_PORT: port } });
    const { code, stdout, stderr } = await ended(watch);
    assert.equal(code, 0, stderr);
    assert.equal(stdout, Array.from({ length: count }, (_, n) => `line ${n}\n`).join(''));
    assert.equal(stderr.match(/STARTED/g)?.length, 1, stderr);
  });

  test('ends with 3 when the service stays away', async () => {
    const gate = images.gate('away');
    await images.add('away', `echo begun; ${untilFile(gate.path)}`);
    const watch = await cli.start('run', 'create', 'away', '--wait', '--patience', '1');
    await watch.untilOutput(/begun/);
    const { port } = new URL(service.url);
    const { dataDir } = service;
    await service.kill('SIGKILL');
    const { code, stderr } = await ended(watch);
    assert.equal(code, 3, stderr);
    assert.match(stderr, /cannot reach the service at /);
    await gate.open();
    service = await startService({ dataDir, env: { ...env, SERVICE_PORT: port } });
  });

  /** What a terminal gets of a run and of a list, ESC as `^[`. */
  const typed = async (name: string, first: string): Promise<string> => {
    const gate = images.gate(name);
    await images.add(name, `echo '{"type": "PROGRESS", "msg": 50}'; ${untilFile(gate.path)}`);
    const command = `${first} longshore run create ${name} --wait; longshore run list -n 1`;
    const shell = await cli.startShell(
      `unset CI; TERM=xterm script -qec 'stty cols 120; ${command}' /dev/null </dev/null`,
    );
    await shell.untilOutput(/50 %/);
    await gate.open();
    const { code, stdout } = await ended(shell);
    assert.equal(code, 0, stdout);
    return stdout.replaceAll('\u001b', '^[');
  };

  test('draws a bar and colours on a terminal, and none with NO_COLOR', skipFor(NO_SCRIPT), async () => {
    const coloured = await typed('coloured', '');
    assert.match(coloured, /\r\^\[\[2K[^\n]*#{12}\^\[\[0m\^\[\[2m\.{12}\^\[\[0m {2}50 % {2}on watched/);
    assert.match(coloured, /\^\[\[32mCOMPLETED/);
    const plain = await typed('plain', 'export NO_COLOR=1;');
    assert.match(plain, /#{12}\.{12} {2}50 % {2}on watched/);
    assert.doesNotMatch(plain, /\^\[\[\d+m/);
  });
});
