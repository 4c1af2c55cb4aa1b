import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { Cli, type CliEnd } from '../../support/programs/cli.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';

const ADMIN = 'e2e-admin-key-of-the-tests';

const HEARTBEAT = {
  worker_id: 'holding',
  resources: { cpu_cores: 2, ram_mb: 4096, gpus: [] },
  tags: [],
};

/* oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape */
const jsonLines = ({ stdout }: CliEnd): any[] =>
  stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

describe('options of runs, secrets and bulk operations on the command line', () => {
  let service: ServiceProcess;
  let send: Send;
  let steps: RunSteps;
  let cli: Cli;

  beforeAll(async () => {
    const key = randomBytes(32).toString('base64');
    service = await startService({
      env: { SERVICE_API_KEYS: `admin:${ADMIN}`, SERVICE_SECRETS_KEY: key },
    });
    send = senderTo(service.url, ADMIN);
    steps = new RunSteps(send);
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

  test('shows with --dry-run what a run of a definition would be, and creates none', async () => {
    const body = {
      id: 'dry',
      version: '1',
      image: 'one',
      args: ['${inputs.text}', '-x'],
      env: { T: '${inputs.text}' },
      input_specs: { text: { type: 'string', required: true } },
    };
    assert.equal((await send('POST', '/definitions', { body })).status, 201);
    const flags = ['-i', 'text=5  $(a)\nb', '--dry-run'];
    const { stdout } = await ok('def', 'run', 'dry', ...flags);
    assert.match(stdout, /^image +one$/m);
    assert.match(stdout, /^env +\$'T=5 {2}\$\(a\)\\nb'\nargs +\$'5 {2}\$\(a\)\\nb' -x$/m);
    const [shown] = jsonLines(await ok('def', 'run', 'dry', ...flags, '--json'));
    assert.deepEqual(shown.args, ['5  $(a)\nb', '-x']);
    assert.equal((await send('GET', '/runs?op_definition=dry')).body.data.length, 0);
    const refused = await cli.run('def', 'run', 'dry', '--dry-run');
    assert.equal(refused.stderr, 'longshore: Invalid inputs: inputs.text is required\n');
    assert.equal((await cli.run('def', 'run', 'dry', '--dry-run', '--wait')).code, 2);
  });

  test('creates a run with options for its container, worker, key and start, and shows them', async () => {
    const flags =
      '--env MODE=fast --secret TOKEN=hub --image-pull-secret registry --command sh --selector cli-gpu,eu ' +
      '--concurrency-key cli-disk --start-at 2001-02-03T04:05:06Z --retry-on oom,exit:75 --ram-mb 100 --grow-ram 1.5x:400 -l team=vision -l note=a=b ' +
      '--name nightly --json';
    const [made] = jsonLines(await ok('run', 'create', 'options', ...flags.split(' '), '--', '-c', 'exit 1'));
    const options = {
      env: { MODE: 'fast' },
      command: ['sh'],
      args: ['-c', 'exit 1'],
      secrets: { TOKEN: 'hub' },
      image_pull_secret: 'registry',
      selector: ['cli-gpu', 'eu'],
      concurrency: { key: 'cli-disk', limit: 1 },
      start_at: '2001-02-03T04:05:06.000Z',
      name: 'nightly',
      labels: { team: 'vision', note: 'a=b' },
    };
    for (const [field, value] of Object.entries(options)) assert.deepEqual(made[field], value, field);
    assert.deepEqual(made.retry_policy, {
      max_attempts: 1,
      retry_on: ['oom', 'exit:75'],
      grow: { ram_mb: { factor: 1.5, max: 400 } },
    });
    const { stdout } = await ok('run', 'get', made.id);
    for (const shown of [
      /^name +nightly$/m,
      /^labels +team=vision note=a=b$/m,
      /^env +MODE=fast$/m,
      /^args +-c 'exit 1'$/m,
      /^secrets +TOKEN=hub$/m,
      /^selector +cli-gpu, eu$/m,
      /^concurrency +cli-disk, at most 1$/m,
      /^retries on +oom, exit:75$/m,
      /^grows +RAM x 1.5 after oom, at most 400 MB$/m,
    ]) {
      assert.match(stdout, shown);
    }
    for (const filter of [
      ['--selector', 'eu', '--selector', 'cli-gpu'],
      ['--concurrency-key', 'cli-disk'],
      ['-l', 'team=vision', '-l', 'note', '--name', 'night'],
    ]) {
      assert.deepEqual(
        jsonLines(await ok('run', 'list', ...filter, '--json')).map(({ id }) => id),
        [made.id],
      );
    }
    assert.match(
      (await ok('capacity')).stdout,
      /^cli-gpu,eu +command,env,registry,secrets +1 +0 +0 +0 +0 \(0 idle\)$/m,
    );
    const labelled = await ok('run', 'label', made.id, 'team-', 'stage=b', '--name', '');
    assert.equal(labelled.stdout, `${made.id} note=a=b stage=b\n`);
    assert.deepEqual(jsonLines(await ok('run', 'list', '-l', 'team=vision', '--json')), []);
    assert.equal((await ok('run', 'cancel', made.id)).stdout, `${made.id} cancelled\n`);
  });

  test('names the runs that hold the concurrency key of a run', async () => {
    const { id: holder } = await steps.create({ concurrency: { key: 'held', limit: 1 }, priority: 9 });
    assert.equal((await send('POST', '/workers/heartbeat', { body: HEARTBEAT })).status, 200);
    assert.equal((await send('POST', '/workers/holding/claim')).body.ops[0].id, holder);
    const [id = ''] = (await ok('run', 'create', 'waits', '--concurrency-key', 'held')).stdout.split('\n');
    assert.match((await ok('run', 'get', id)).stdout, new RegExp(`^key held by +${holder}$`, 'm'));
    assert.match((await ok('run', 'explain', id)).stdout, new RegExp(`^key held by +${holder}$`, 'm'));
    assert.equal((await ok('run', 'cancel', id, holder)).code, 0);
  });

  test('sets, replaces, lists and ends pauses, and explains a run by them', async () => {
    const [id = ''] = (await ok('run', 'create', 'paused', '--label', 'part=1')).stdout.split('\n');
    const conditions = ['--label', 'part=1', '--label', 'part=2', '--selector', 'x'];
    const set = await ok('pause', 'set', 'cli', ...conditions, '--reason', 'Why not.', '--until', '2h');
    assert.equal(set.stdout, 'cli set: label part=1 or part=2, selector x\n');
    const replaced = await ok('pause', 'set', 'cli', '--label', 'part', '--reason', 'Why not.');
    assert.equal(replaced.stdout, 'cli replaced: label part\n');
    assert.match((await ok('pause')).stdout, /^cli +label part +- +\S+ +Why not\.$/m);
    const [{ where }] = jsonLines(await ok('pause', 'list', '--json'));
    assert.deepEqual(where, { label: ['part'] });
    assert.match((await ok('run', 'explain', id)).stdout, /the pause 'cli' holds it: Why not\./);
    assert.equal((await cli.run('pause', 'set', 'cli', '--reason', 'r')).code, 2);
    assert.equal((await ok('pause', 'rm', 'cli')).stdout, 'cli ended\n');
    assert.equal((await cli.run('pause', 'rm', 'cli')).code, 1);
    assert.equal((await ok('pause', 'list')).stdout, '');
    assert.equal((await ok('run', 'cancel', id)).code, 0);
  });

  test('stores secrets from standard input and files, and lists, replaces, rotates and deletes them', async () => {
    await writeFile(join(cli.folder, 'key.pem'), 'line 1\nline 2\n');
    const set = await cli.shell('echo "the value" | longshore secrets set cli-token');
    assert.deepEqual([set.code, set.stdout], [0, 'cli-token created\n'], set.output);
    assert.equal((await ok('secrets', 'set', 'cli-key', '--file', 'key.pem')).stdout, 'cli-key created\n');
    const login = await cli.shell(
      'printf password | longshore secrets set cli-registry --server registry.example --username ada',
    );
    assert.equal(login.stdout, 'cli-registry created\n', login.output);
    const again = await cli.shell('echo "another value" | longshore secrets set cli-token');
    assert.equal(again.stdout, 'cli-token replaced\n', again.output);
    const { stdout } = await ok('secrets', 'list');
    assert.match(stdout, /^cli-registry +registry +\d+s +\d+s$/m);
    assert.doesNotMatch(stdout + set.output + again.output, /value|password|line/);
    const [{ remaining }] = jsonLines(await ok('secrets', 'rotate', '--json'));
    assert.equal(remaining, 0);
    assert.equal((await ok('secrets', 'delete', 'cli-key')).stdout, 'cli-key deleted\n');
    assert.equal((await cli.run('secrets', 'delete', 'cli-key')).code, 1);
    assert.equal((await cli.shell('longshore secrets set cli-token --server x < key.pem')).code, 2);
    assert.equal((await cli.shell('longshore secrets set cli-token < /dev/null')).code, 2);
    await writeFile(join(cli.folder, 'key.der'), Buffer.from([0x30, 0x82, 0xff]));
    for (const source of ['--file key.der', '< key.der']) {
      const stored = await cli.shell(`longshore secrets set cli-token ${source}`);
      assert.equal(stored.stdout, 'cli-token replaced\n', stored.output);
    }
    for (const kind of ['--map', '--server r --username u']) {
      const refused = await cli.shell(`longshore secrets set cli-token ${kind} < key.der`);
      assert.equal(refused.code, 2, refused.output);
      assert.match(refused.stderr, /not UTF-8 text/);
    }
  });

  test('sends the bytes of a file that is no text, and shows their number', async () => {
    await writeFile(join(cli.folder, 'k.p12'), Buffer.from([0x30, 0x82, 0xff, 0]));
    const create = ['run', 'create', 'keeps', '--selector', 'none', '--file', '/k.p12=@k.p12'];
    const shown = /^files +'\/k\.p12=\{"content_base64":"binary, 4 bytes"\}'$/m;
    const [id = ''] = (await ok(...create)).stdout.split('\n');
    assert.match((await ok('run', 'get', id)).stdout, shown);
    const { files } = await steps.get(id);
    assert.deepEqual(files, { '/k.p12': { content_base64: 'MIL/AA==' } });
    assert.equal((await ok('run', 'cancel', id)).code, 0);
  });

  test('says at once that a service has no key for secrets', async () => {
    const plain = await startService({ env: { SERVICE_API_KEYS: `admin:${ADMIN}` } });
    try {
      const end = await cli.run('secrets', 'list', '--url', plain.url);
      assert.equal(end.code, 1, end.output);
      assert.match(end.stderr, /^longshore: Secrets are not configured/);
    } finally {
      await plain.stop();
    }
  });

  test('bulk operations show first what matches, and change it when the number is given', async () => {
    const labels = { team: 'vision' };
    const [one, two] = [await steps.create({ labels }), await steps.create({ labels })];
    const neither = await cli.run('bulk', 'cancel', '-l', 'team=vision');
    assert.deepEqual([neither.code, neither.stdout], [2, '']);
    assert.match(neither.stderr, /give --dry-run to see which runs match, then --expect with their number/);
    const shown = await ok('bulk', 'cancel', '-l', 'team=vision', '--dry-run');
    assert.match(shown.stdout, new RegExp(`^ID [^]*${two.id}[^]*${one.id}`));
    assert.equal(shown.stderr, '2 runs match (2 PENDING); nothing was changed\n');
    const other = await cli.run('bulk', 'cancel', '-l', 'team=vision', '--expect', '1');
    assert.deepEqual([other.code, other.stderr], [1, 'longshore: The filter matches 2 runs, not 1\n']);
    const all = await cli.run('bulk', 'cancel', '--dry-run');
    assert.match(all.stderr, /filter has no condition: all must be true/);

    const done = await ok('bulk', 'cancel', '-l', 'team=vision', '--expect', '2', '--reason', 'wrong input');
    assert.equal(done.stdout, 'done: 2 of 2 runs cancelled\n');
    assert.match(done.stderr, /^2 runs match; operation [0-9a-f-]{36} goes on if this command ends\n$/);
    for (const { id } of [one, two]) {
      assert.equal((await steps.get(id)).execution_summary.cancel_reason, 'wrong input');
    }
  });

  test('bulk operations end with 1 and the reasons when runs are refused', async () => {
    const { id } = await steps.inState('COMPLETED', { image: 'ended' });
    const end = await cli.run('bulk', 'cancel', '--image', 'ended', '--expect', '1');
    assert.deepEqual([end.code, end.stdout], [1, 'done: 0 of 1 run cancelled, 1 refused\n']);
    assert.match(end.stderr, new RegExp(`${id} not cancelled: Run is already in terminal state COMPLETED\n`));
  });

  test('bulk operations set labels and priorities, print JSON, and are shown and stopped by their id', async () => {
    const { id } = await steps.create({ image: 'sorted', labels: { draft: 'yes' } });
    await ok('bulk', 'label', 'stage=done', 'draft-', '--image', 'sorted', '--expect', '1');
    await ok('bulk', 'priority', '5', '--image', 'sorted', '--expect', '1');
    const run = await steps.get(id);
    assert.deepEqual([run.labels, run.priority], [{ stage: 'done' }, 5]);
    const started = await ok('bulk', 'retry', '--image', 'no-such', '--expect', '0', '--detach');
    const operation = started.stdout.trim();
    for (const command of ['show', 'stop']) {
      assert.equal((await ok('bulk', command, operation)).stdout, 'done: 0 of 0 runs retried\n');
    }
    const json = JSON.parse((await ok('bulk', 'show', operation, '--json')).stdout);
    assert.deepEqual([json.id, json.state, json.matched], [operation, 'done', 0]);
    const preview = JSON.parse(
      (await ok('bulk', 'retry', '--image', 'sorted', '--dry-run', '--json')).stdout,
    );
    assert.deepEqual([preview.matched, preview.runs], [0, []]);
    await send('POST', `/runs/${id}/cancel`);
    const cancelled = await ok('bulk', 'retry', '--image', 'sorted', '--dry-run');
    assert.equal(cancelled.stderr, '1 run match (1 CANCELLED); nothing was changed\n');
  });
});
