import assert from 'node:assert/strict';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { Cli, ended, type CliEnd } from '../../support/programs/cli.js';
import { RunViews } from '../../support/runs/run-views.js';
import { startService, until, type ServiceProcess } from '../../support/service-process.js';
import { TcpProxy } from '../../support/postgres/tcp-proxy.js';
import { senderTo, type Send } from '../../support/app/test-app.js';

const ADMIN = 'e2e-admin-key-of-the-tests';
const NOWHERE = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

/* oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape */
const jsonLines = ({ stdout }: CliEnd): any[] =>
  stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

const heartbeat = (id: string) => ({
  worker_id: id,
  resources: { cpu_cores: 2, ram_mb: 4096, gpus: [] },
  tags: ['fast'],
});

describe('the command line', () => {
  let service: ServiceProcess;
  let send: Send;
  let runs: RunViews;
  let cli: Cli;

  beforeAll(async () => {
    service = await startService({
      env: { SERVICE_API_KEYS: `admin:${ADMIN},worker:e2e-worker-key-of-the-tests` },
    });
    send = senderTo(service.url, ADMIN);
    runs = new RunViews(send);
    cli = await Cli.make({ SERVICE_URL: service.url, SERVICE_API_KEY: ADMIN });
  });
  afterAll(async () => {
    assert.equal(await service.stop(), 0, service.output);
  });

  const ok = async (...args: readonly string[]): Promise<CliEnd> => {
    const end = await cli.run(...args);
    assert.equal(end.code, 0, end.output);
    return end;
  };

  test('creates a run with everything that the flags say, and prints its id alone', async () => {
    await writeFile(join(cli.folder, 'inputs.json'), '{"a": 1, "b": 2}');
    const flags = '-p 7 --cpu 1 --ram-mb 64 --vram-mb 0 --max-attempts 3 --backoff 5 --start-within 60';
    const { stdout } = await ok(
      ...`run create busybox --inputs inputs.json -i b=text -i c=[1] ${flags}`.split(' '),
      ...'--attempt-timeout 90 -t orders --attribute team=blue'.split(' '),
    );
    const run = await runs.get(stdout.trim());
    assert.deepEqual(run.inputs, { a: 1, b: 'text', c: [1] });
    assert.equal(run.priority, 7);
    assert.deepEqual([run.constraints.cpu, run.constraints.ram_mb], [1, 64]);
    assert.deepEqual([run.retry_policy.max_attempts, run.retry_policy.backoff_s], [3, 5]);
    assert.deepEqual(run.timeouts, { start_within_s: 60, attempt_s: 90 });
    assert.deepEqual(run.event_delivery, { topic: 'orders', attributes: { team: 'blue' } });
  });

  test('prints the JSON of the API for programs: of a run, of lists a line each, of the explanation', async () => {
    const [created] = jsonLines(await ok('run', 'create', 'json-image', '--json'));
    assert.equal(created.image, 'json-image');
    const { body } = await send('GET', `/runs/${created.id}`);
    assert.deepEqual(jsonLines(await ok('run', 'get', created.id, '--json')), [body]);
    const listed = jsonLines(await ok('run', 'list', '--image', 'json-image', '--json'));
    assert.deepEqual(
      listed.map(({ id }) => id),
      [created.id],
    );
    const [explained] = jsonLines(await ok('run', 'explain', created.id, '--json'));
    assert.deepEqual([explained.run_id, explained.state], [created.id, 'PENDING']);
  });

  test('lists runs as a table, over pages, within a time and a state', async () => {
    const body = { runs: Array.from({ length: 65 }, () => ({ image: 'many', priority: -1 })) };
    for (let n = 0; n < 2; n += 1) assert.equal((await send('POST', '/runs/batch', { body })).status, 200);
    const all = jsonLines(await ok('run', 'list', '--image', 'many', '--all', '--json'));
    assert.equal(new Set(all.map(({ id }) => id)).size, 130);
    const { stdout } = await ok(
      'run',
      'list',
      '--image',
      'many',
      '-n',
      '120',
      '--state',
      'pending',
      '--since',
      '1h',
    );
    const [head = '', ...rows] = stdout.trimEnd().split('\n');
    assert.match(head, /^ID +STATE +REASON +DONE +ATTEMPT +AGE +NAME +DEFINITION +IMAGE$/);
    assert.equal(rows.length, 120);
    assert.match(rows[0] ?? '', /^[0-9a-f-]{36} {2}PENDING {2}no_worker {2}0 % +1\/1 +\d+s +- +- +many$/);
    const none = await ok('run', 'list', '--image', 'many', '--until', '1h');
    assert.deepEqual([none.stdout, none.stderr], ['', 'no runs\n']);
  });

  test('shows and explains a run, cancels and retries runs one by one', async () => {
    const id = await runs.create('shown', { priority: 3 });
    assert.match((await ok('run', 'get', id)).stdout, /^state +PENDING$[^]*^priority +3$/m);
    assert.match((await ok('run', 'explain', id)).stdout, /^Number \d+ in the queue[^]*^strategy +direct$/m);
    const cancelled = await cli.run('run', 'cancel', id, NOWHERE);
    assert.equal(cancelled.code, 1);
    assert.equal(cancelled.stdout, `${id} cancelled\n`);
    assert.equal(cancelled.stderr, `${NOWHERE} not cancelled: run '${NOWHERE}' not found\n`);
    assert.equal((await runs.get(id)).state, 'CANCELLED');
    assert.equal((await ok('run', 'retry', id)).stdout, `${id} retried\n`);
    assert.equal((await runs.get(id)).state, 'PENDING');
    assert.equal((await ok('run', 'logs', id)).stdout, '');
  });

  test('stores definitions from a file and standard input, lists and prints them, and makes runs of them', async () => {
    const first = {
      id: 'words',
      version: '1',
      image: 'one',
      input_specs: { text: { type: 'string', required: true } },
    };
    const second = { id: 'words', version: '2', image: 'two' };
    await writeFile(join(cli.folder, 'words.json'), JSON.stringify([first, second]));
    assert.equal((await ok('def', 'apply', '-f', 'words.json')).stdout, 'words/1 created\nwords/2 created\n');
    const again = await cli.shell('longshore def get words --version 1 | longshore def apply -f -');
    assert.deepEqual([again.code, again.stdout], [0, 'words/1 replaced\n'], again.output);
    assert.match((await ok('def', 'list')).stdout, /^words +1 +\d+s +text +one$/m);
    assert.equal(jsonLines(await ok('def', 'list', '--json')).length, 2);
    const [made] = jsonLines(await ok('def', 'run', 'words', '--version', '1', '-i', 'text=5 a', '--json'));
    assert.deepEqual([made.image, made.op_definition_version, made.inputs], ['one', '1', { text: '5 a' }]);
    assert.equal((await runs.get((await ok('def', 'run', 'words')).stdout.trim())).image, 'two');
    const refused = await cli.run('def', 'run', 'words', '--version', '1');
    assert.equal(refused.code, 1);
    assert.equal(refused.stderr, 'longshore: Invalid inputs: inputs.text is required\n');
    for (const flags of [[], ['--version', '1', '--all']]) {
      assert.equal((await cli.run('def', 'delete', 'words', ...flags)).code, 2);
    }
    assert.equal((await ok('def', 'delete', 'words', '--version', '1')).stdout, 'words/1 deleted\n');
    assert.equal(jsonLines(await ok('def', 'list', '--json')).length, 1);
    assert.equal((await ok('def', 'delete', 'words', '--all')).stdout, 'words deleted\n');
    assert.equal(jsonLines(await ok('def', 'list', '--json')).length, 0);
  });

  test('lists, drains and resumes workers', async () => {
    assert.equal((await send('POST', '/workers/heartbeat', { body: heartbeat('w-1') })).status, 200);
    assert.match(
      (await ok('workers')).stdout,
      /^w-1 +active +\d+s +2\/2 +4096\/4096 +0\/0 +0 +- +- +- +fast +-$/m,
    );
    assert.equal((await ok('workers', 'drain', 'w-1')).stdout, 'w-1 drains\n');
    assert.match((await ok('workers')).stdout, /^w-1 +draining /m);
    assert.equal((await ok('workers', 'resume', 'w-1')).stdout, 'w-1 claims again\n');
    assert.equal(jsonLines(await ok('workers', '--json'))[0].draining, false);
  });

  test('shows the jobs of launchers, and of a run where its job waits and why', async () => {
    const engine = { name: 'slurm', pending: 2, running: 1 };
    const launcher = { ...heartbeat('slurm-1'), engine };
    assert.equal((await send('POST', '/workers/heartbeat', { body: launcher })).status, 200);
    assert.match((await ok('workers')).stdout, /^slurm-1 .* slurm: 2 pending, 1 running /m);
    assert.match(
      (await ok('capacity')).stdout,
      /^engines +slurm: 2 jobs pending, 1 running \(1 launcher\)$/m,
    );
    const id = await runs.create('waits', { priority: 1000 });
    assert.equal((await send('POST', '/workers/slurm-1/claim')).body.ops[0].id, id);
    const payload = { engine: 'slurm', engine_id: '42', reason: 'Priority' };
    await send('POST', `/runs/${id}/events`, { body: { type: 'SUBMITTED', msg: 'Submitted', payload } });
    const { stdout } = await ok('run', 'explain', id);
    assert.match(stdout, /which submitted it to slurm as 42; it waits there: Priority\.$/m);
    assert.match(stdout, /^job +slurm 42$/m);
    assert.match(stdout, /^it waits there +Priority$/m);
    await ok('run', 'cancel', id);
    await send('DELETE', '/workers/slurm-1');
  });

  test('shows what runs ask for and what workers have', async () => {
    await runs.create('large', { constraints: { cpu: 77, ram_mb: 5000 } });
    const { stdout } = await ok('capacity');
    assert.match(stdout, /^pending +\d+ \(\d+ ready, 0 waiting\)$/m);
    assert.match(stdout, /^77 +5000 +0 +0 +1 +0 +0 +0 +no$/m);
    assert.match(stdout, /^1 +1 +2 +4096 +-$/m);
    const [report] = jsonLines(await ok('capacity', '--json'));
    assert.equal(report.supply.workers.idle, 1);
    assert.ok(report.demand.shapes.some(({ cpu }: { cpu: number }) => cpu === 77));
    assert.match((await ok('capacity', 'wanted', '--selector', 'none', '--min', '3')).stdout, /^3: .+\n$/);
    const [wanted] = jsonLines(await ok('capacity', 'wanted', '--max', '0', '--json'));
    assert.equal(wanted.wanted, 0);
  });

  test('prints a feed, follows it, and says where to go on', async () => {
    const [id, next] = [await runs.create('fed', { event_delivery: { topic: 'tail' } }), 'later'];
    assert.equal((await send('POST', `/runs/${id}/cancel`)).status, 200);
    const [event] = jsonLines(await ok('feed', 'tail', 'tail', '--no-follow', '--json'));
    assert.deepEqual([event.run_id, event.type], [id, 'CANCELLED']);
    assert.match(
      (await ok('feed', 'tail', 'tail', '--no-follow')).stdout,
      /Z {2}\S{36} {2}1 {2}CANCELLED {2}CANCELLED/,
    );
    const tail = await cli.start('feed', 'tail', 'tail', '--after', event.cursor);
    const later = await runs.create(next, { event_delivery: { topic: 'tail' } });
    assert.equal((await send('POST', `/runs/${later}/cancel`)).status, 200);
    await tail.untilOutput(new RegExp(later));
    tail.signal('SIGINT');
    const { code, stdout, stderr } = await ended(tail);
    assert.equal(code, 130);
    assert.ok(!stdout.includes(id), stdout);
    assert.match(stderr, /^continue with --after \S+\n$/);
  });

  test('makes keys that work, lists them, and revokes them', async () => {
    const made = await ok('keys', 'create', 'ci', '--scope', 'client', '-s', 'worker', '--expires', '90d');
    const key = made.stdout.trim();
    assert.equal((await senderTo(service.url, key)('GET', '/whoami')).body.name, 'ci');
    const [listed] = jsonLines(await ok('keys', 'list', '--json'));
    assert.deepEqual([listed.name, listed.scopes], ['ci', ['client', 'worker']]);
    assert.match((await ok('keys', 'list')).stdout, /^\S{36} +ci +\S+ +client,worker .* valid$/m);
    const bound = ['--scope', 'worker', '--worker', 'w-1', 'gpu-*', '--tag', 'a', 'b', '--capability', ''];
    await ok('keys', 'create', 'pool', ...bound);
    const [{ worker_ids: ids, worker_tags: tags, worker_capabilities: capabilities }] = jsonLines(
      await ok('keys', 'list', '--json'),
    );
    assert.deepEqual([ids, tags, capabilities], [['w-1', 'gpu-*'], ['a', 'b'], []]);
    assert.match((await ok('keys', 'list')).stdout, / w-1,gpu-\*,tag:a,tag:b,capability: +\S+/);
    assert.equal((await ok('keys', 'revoke', listed.id)).stdout, `${listed.id} revoked\n`);
    assert.match((await ok('keys', 'list')).stdout, / revoked$/m);
    assert.equal((await cli.run('run', 'list', '--key', key)).code, 3);
  });

  test('keeps a login that was checked, for this user alone, until logout', async () => {
    const person = await Cli.make();
    await writeFile(join(person.folder, 'key'), `${ADMIN}\n`);
    const nobody = await person.run('run', 'list');
    assert.equal(nobody.code, 2);
    assert.match(
      nobody.stderr,
      /^longshore: no API key for http:\/\/127\.0\.0\.1:5555: run "longshore login"/,
    );
    const wrong = await person.run('login', '--url', service.url, '--key', 'wrong');
    assert.equal(wrong.code, 3);
    assert.equal((await person.run('run', 'list')).code, 2);
    const login = await person.shell(`longshore login --url ${service.url}/ --key - < key`);
    assert.equal(login.code, 0, login.output);
    const path = join(person.configHome, 'longshore', 'config.json');
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    assert.deepEqual(JSON.parse(await readFile(path, 'utf8')), { url: service.url, api_key: ADMIN });
    assert.equal((await person.run('run', 'list')).code, 0);
    // The environment wins, and the kept key stays with its service.
    assert.equal((await person.shell('SERVICE_API_KEY=wrong longshore run list')).code, 3);
    assert.equal((await person.shell('SERVICE_URL=http://127.0.0.1:9 longshore run list')).code, 2);
    assert.equal((await person.run('logout')).code, 0);
    assert.equal((await person.run('run', 'list')).code, 2);
  });

  test('ends with 2 for wrong arguments, 1 for a refusal, 3 for a wrong key and for nobody there', async () => {
    const cases: readonly (readonly [number, RegExp, readonly string[]])[] = [
      [
        2,
        /^longshore: unknown command 'creat': the commands are create, list, [a-z, ]+\. Did you mean 'longshore run create'\?\n$/,
        ['run', 'creat'],
      ],
      [
        2,
        /^longshore: unknown command 'patch': the commands are create, list, [a-z, ]+\. Did you mean 'longshore run watch'\?\n$/,
        ['run', 'patch', '--help'],
      ],
      [
        2,
        /^longshore: option '-p, --priority <n>' argument '1\.5' is invalid/,
        ['run', 'create', 'x', '-p', '1.5'],
      ],
      [2, /^longshore: expected name=value, got "text"\n$/, ['run', 'create', 'x', '-i', 'text']],
      [2, /^longshore: cannot read none\.json: /, ['run', 'create', 'x', '--inputs', 'none.json']],
      [1, /^longshore: run '.*' not found\n$/, ['run', 'watch', NOWHERE]],
      [
        1,
        /^longshore: Request validation failed: image must be [^\n]*\n$/,
        ['run', 'create', 'not an image'],
      ],
      [3, /refuses the API key: Invalid API key\n$/, ['workers', '--key', 'wrong']],
      [3, /refuses the API key: /, ['keys', 'list', '--key', 'e2e-worker-key-of-the-tests']],
      [
        3,
        /^longshore: cannot reach the service at http:\/\/127\.0\.0\.1:9: /m,
        ['workers', '--url', 'http://127.0.0.1:9'],
      ],
    ];
    for (const [code, said, args] of cases) {
      const end = await cli.run(...args);
      assert.deepEqual([end.code, end.stdout], [code, ''], `${args.join(' ')}: ${end.output}`);
      assert.match(end.stderr, said);
    }
  });

  const listed = async () => (await send('GET', '/runs?image=once')).body.data;

  test('creates one run though the answer was lost', async () => {
    const proxy = await TcpProxy.start();
    const route = await proxy.open({ port: Number(new URL(service.url).port) });
    await route.misbehave({ cutAfter: 100 });
    const create = await cli.start('run', 'create', 'once', '--url', `http://127.0.0.1:${route.port}`);
    await until(async () => (await listed()).length > 0, 'the service has the run');
    await route.misbehave({});
    const { code, stdout, output } = await ended(create);
    assert.equal(code, 0, output);
    assert.deepEqual(
      (await listed()).map(({ id }: { id: string }) => id),
      [stdout.trim()],
    );
    await proxy.close();
  });

  const words = async (...typed: string[]): Promise<string[]> =>
    (await ok('complete', '--', ...typed)).stdout.split('\n').map((line) => line.split('\t')[0] ?? '');

  test('helps with every command, and completes words in bash, zsh and fish', async () => {
    for (const command of [
      'serve',
      'worker',
      'run create',
      'def run',
      'workers drain',
      'feed tail',
      'login',
    ]) {
      const { code, stdout } = await cli.run(...command.split(' '), '--help');
      assert.equal(code, 0);
      assert.match(stdout, new RegExp(`^Usage: longshore ${command}[^]*^Examples:\\n  longshore `, 'm'));
    }
    assert.deepEqual((await words('run', 'c')).slice(0, 2), ['create', 'cancel']);
    assert.ok((await words('run', 'create', 'x', '--inp')).includes('--inputs'));
    assert.ok((await words('run', 'list', '--state', '')).includes('FAILED'));
    for (const shell of ['bash', 'zsh', 'fish']) {
      assert.match((await ok('completion', shell)).stdout, /longshore complete --/);
    }
    const loaded = await cli.shell('source <(longshore completion bash); complete -p longshore');
    assert.match(loaded.stdout, /-F __longshore_complete longshore/, loaded.output);
  });
});
