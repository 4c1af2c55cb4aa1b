import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { Cli, type CliEnd } from '../../support/programs/cli.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';

const ADMIN = 'e2e-admin-key-of-the-tests';

describe('jobs in files', () => {
  let service: ServiceProcess;
  let send: Send;
  let cli: Cli;

  beforeAll(async () => {
    service = await startService({ env: { SERVICE_API_KEYS: `admin:${ADMIN}` } });
    send = senderTo(service.url, ADMIN);
    cli = await Cli.make({ SERVICE_URL: service.url, SERVICE_API_KEY: ADMIN });
  });
  afterAll(async () => {
    assert.equal(await service.stop(), 0, service.output);
  });

  const file = (name: string, text: string): Promise<void> => writeFile(join(cli.folder, name), text);
  const ok = async (...args: readonly string[]): Promise<CliEnd> => {
    const end = await cli.run(...args);
    assert.equal(end.code, 0, end.output);
    return end;
  };
  const count = async (image: string): Promise<number> =>
    (await send('GET', `/runs?image=${image}`)).body.data.length;

  test('run create -f creates the run of a file in YAML, with what flags and arguments override', async () => {
    await file('job.yaml', 'image: one\ninputs:\n  version: 1.10\nenv: {A: "1", B: "2"}\nargs: [x]\n');
    const { stdout } = await ok('run', 'create', '-f', 'job.yaml', '-e', 'B=3', '--json', '--', 'y', 'z');
    const run = JSON.parse(stdout);
    assert.deepEqual([run.image, run.env, run.args], ['one', { A: '1', B: '3' }, ['y', 'z']]);
    assert.match(stdout, /"inputs":\{"version":1\.10\}/);
    const other = JSON.parse((await ok('run', 'create', 'two', '-f', 'job.yaml', '--json')).stdout);
    assert.deepEqual([other.image, other.args], ['two', ['x']]);
  });

  test('run create -f creates all runs of a list, once for an idempotency key, and names the lines of the refused', async () => {
    const runs = Array.from({ length: 120 }, (_, n) => ({ image: 'many', inputs: { n } }));
    await file('runs.json', JSON.stringify(runs));
    const first = await ok('run', 'create', '-f', 'runs.json', '--idempotency-key', 'all');
    const ids = first.stdout.trimEnd().split('\n');
    assert.equal(new Set(ids).size, 120);
    const again = await ok('run', 'create', '-f', 'runs.json', '--idempotency-key', 'all');
    assert.equal(again.stdout, first.stdout);
    assert.equal(JSON.parse((await ok('run', 'get', '@last', '--json')).stdout).inputs.n, 119);
    const some = await cli.shell(
      `printf -- '- image: some\n- image: some\n  constraints:\n    ram_mb: x\n- image: some\n' | longshore run create -f -`,
    );
    assert.equal(some.code, 1, some.output);
    assert.match(some.stderr, /^standard input:4: constraints\.ram_mb must be [^\n]*\n$/);
    assert.equal(some.stdout.trimEnd().split('\n').length, 2);
    assert.equal(await count('some'), 2);
  });

  test('warnings of the service name the line of the run or definition that they are about, of several in a file', async () => {
    const runs = Array.from({ length: 102 }, (_, n) => ({
      image: 'warned',
      ...([1, 101].includes(n) && { args: ['x', 'Ref::model'] }),
    }));
    await file('warned.yaml', runs.map((run) => `- ${JSON.stringify(run)}\n`).join(''));
    const created = await ok('run', 'create', '-f', 'warned.yaml');
    assert.equal(created.stdout.trimEnd().split('\n').length, 102);
    const told = created.stderr.trimEnd().split('\n');
    assert.deepEqual(
      told.map(
        (text) => /^longshore: warning: (warned\.yaml:\d+: args\.1: Ref::model) is plain/.exec(text)?.[1],
      ),
      ['warned.yaml:2: args.1: Ref::model', 'warned.yaml:102: args.1: Ref::model'],
    );
    const shown = await ok('run', 'create', '-f', 'warned.yaml', '--dry-run');
    assert.deepEqual(shown.stderr.trimEnd().split('\n'), told);
    await file(
      'warned-defs.yaml',
      'id: w1\nversion: "1"\nimage: i\n---\nid: w2\nversion: "1"\nimage: i\nargs:\n  - x\n  - Ref::model\n',
    );
    const applied = await ok('def', 'apply', '-f', 'warned-defs.yaml');
    assert.match(applied.stderr, /^longshore: warning: warned-defs\.yaml:10: args\.1: Ref::model [^\n]+\n$/);
  });

  test('errors of the service stand at the lines of the file, and nothing is created', async () => {
    await file('bad.yaml', 'image: bad\nresources:\n  memory: 1\nmounts:\n  - volume: v\n    path: data\n');
    const end = await cli.run('run', 'create', '-f', 'bad.yaml');
    assert.equal(end.code, 1, end.output);
    assert.match(end.stderr, /^bad\.yaml:2: resources [^\n]*$/m);
    assert.match(end.stderr, /^bad\.yaml:6: mounts\[0\]\.path [^\n]*$/m);
    assert.match(end.stderr, /^longshore: the service refuses bad\.yaml\n$/m);
    assert.equal(await count('bad'), 0);
  });

  test('--dry-run shows the runs and creates none', async () => {
    await file('two.yaml', 'image: dry\nargs: [a b]\n---\nimage: dry\nargs: [c]\n');
    const { stdout } = await ok('run', 'create', '-f', 'two.yaml', '--dry-run');
    assert.match(stdout, /^image +dry\n[^]*^args +'a b'\n[^]*^image +dry\n[^]*^args +c\n/m);
    const [shown] = (await ok('run', 'create', 'dry', '--dry-run', '--json')).stdout.split('\n');
    assert.equal(JSON.parse(String(shown)).image, 'dry');
    assert.equal(await count('dry'), 0);
  });

  test('def apply -f stores all definitions of a file, or none, and none with --dry-run', async () => {
    await file('defs.yaml', 'id: d1\nversion: "1"\nimage: i\n---\nid: d2\nversion: "1"\nimage: i\n');
    await file('bad-defs.yaml', 'id: d3\nversion: "1"\nimage: i\n---\nid: d4\nversion: 1\nimage: i\n');
    const trial = await ok('def', 'apply', '-f', 'defs.yaml', '--dry-run');
    assert.equal(trial.stdout, 'd1/1 can be stored\nd2/1 can be stored\n');
    assert.equal((await send('GET', '/definitions/d1')).status, 404);
    assert.equal((await ok('def', 'apply', '-f', 'defs.yaml')).stdout, 'd1/1 created\nd2/1 created\n');
    const bad = await cli.run('def', 'apply', '-f', 'bad-defs.yaml');
    assert.deepEqual([bad.code, bad.stdout], [1, '']);
    assert.match(bad.stderr, /^bad-defs\.yaml:6: version must be a string\b/);
    assert.equal((await send('GET', '/definitions/d3')).status, 404);
  });

  test('wrong uses are refused before anything is sent', async () => {
    await file('list.json', '[{"image": "x"}, {"image": "x"}]');
    for (const [args, said] of [
      [['run', 'create'], /give the image of the run, or -f with a file/],
      [['run', 'create', '-f', 'list.json', '--wait'], /--wait follows one run, not 2/],
      [['run', 'create', '-f', 'none.yaml'], /cannot read none\.yaml/],
      [['run', 'create', 'x', '--dry-run', '--wait'], /cannot be used with/],
    ] as const) {
      const end = await cli.run(...args);
      assert.deepEqual([end.code, end.stdout], [2, ''], end.output);
      assert.match(end.stderr, said);
    }
    assert.equal(await count('x'), 0);
  });
});
