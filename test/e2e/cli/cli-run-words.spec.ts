import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { Cli, type CliEnd } from '../../support/programs/cli.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';

const ADMIN = 'e2e-admin-key-of-the-tests';

describe('what names a run on the command line', () => {
  let service: ServiceProcess;
  let send: Send;
  let steps: RunSteps;
  let cli: Cli;

  beforeAll(async () => {
    service = await startService({ env: { SERVICE_API_KEYS: `admin:${ADMIN}` } });
    send = senderTo(service.url, ADMIN);
    steps = new RunSteps(send);
    cli = await Cli.make({ SERVICE_URL: service.url, SERVICE_API_KEY: ADMIN });
  });
  afterAll(async () => {
    assert.equal(await service.stop(), 0, service.output);
  });

  const idOf = async (word: string): Promise<string> => {
    const end = await cli.run('run', 'get', word, '--json');
    assert.equal(end.code, 0, end.output);
    return JSON.parse(end.stdout).id;
  };
  const list = async (...flags: readonly string[]): Promise<CliEnd> => {
    const end = await cli.run('run', 'list', '-l', 'sweep=list', ...flags);
    assert.equal(end.code, 0, end.output);
    return end;
  };
  const refused = async (...args: readonly string[]): Promise<CliEnd> => {
    const end = await cli.run(...args);
    assert.deepEqual([end.code, end.stdout], [2, ''], end.output);
    return end;
  };

  test('is an id, a beginning that one run has, or a name, whose newest run it is', async () => {
    const { id: older } = await steps.create({ name: 'nightly report' });
    const { id: newer } = await steps.create({ name: 'nightly report' });
    await steps.create({ name: 'nightly report 2' });
    assert.equal(await idOf(older), older);
    assert.equal(await idOf(older.slice(0, 35)), older);
    assert.equal(await idOf(older.slice(0, 35).toUpperCase()), older);
    assert.equal(await idOf('nightly report'), newer);
  });

  test('is a name before it is the beginning of several ids, which an error lists, 10 at most', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 12; n += 1) ids.unshift((await steps.create()).id);
    const beginning = String(ids[0]).slice(0, 4);
    const several = await refused('run', 'logs', beginning);
    const listed = ids.slice(0, 10).map((id) => `${id} \\(PENDING\\)`);
    assert.match(
      several.stderr,
      new RegExp(`^longshore: several ids begin with "${beginning}": ${listed.join(', ')}, and others\n$`),
    );
    const { id } = await steps.create({ name: beginning });
    assert.equal(await idOf(beginning), id);
  });

  test('is refused with the names that begin with it when no run has it', async () => {
    const { id } = await steps.create({ name: 'weekly-7' });
    const near = await refused('run', 'watch', 'weekly');
    assert.equal(
      near.stderr,
      `longshore: no run has the id or the name "weekly", but names begin with it: ${id} (weekly-7, PENDING)\n`,
    );
    const none = await refused('run', 'explain', 'ffffff');
    assert.equal(none.stderr, 'longshore: no run has the id or the name "ffffff"\n');
  });

  test('is taken by every command for runs, which shows the id', async () => {
    const { id } = await steps.create({ name: 'one' });
    const { id: other } = await steps.create({ name: 'two' });
    for (const [args, stdout] of [
      [['run', 'label', 'one', 'a=b'], `${id} a=b\n`],
      [['run', 'cancel', 'one', other, '--reason', 'x'], `${id} cancelled\n${other} cancelled\n`],
      [['run', 'retry', 'two'], `${other} retried\n`],
      [['run', 'logs', 'one'], ''],
    ] as const) {
      const end = await cli.run(...args);
      assert.deepEqual([end.code, end.stdout], [0, stdout], end.output);
    }
    assert.match((await cli.run('run', 'explain', 'two')).stdout, /^state +PENDING$/m);
  });

  test('@last is the last run that was created from here, at this service', async () => {
    const unknown = await refused('run', 'get', '@last');
    assert.match(unknown.stderr, /^longshore: no run was created from here at http/);
    const created = (await cli.run('run', 'create', 'image')).stdout.trim();
    await steps.create();
    assert.equal(await idOf('@last'), created);
    assert.equal((await cli.run('run', 'cancel', '@last')).stdout, `${created} cancelled\n`);
    const elsewhere = await cli.run('run', 'get', '@last', '--url', 'http://127.0.0.1:9');
    assert.equal(elsewhere.code, 2, elsewhere.output);
    const noPlace = await cli.shell('touch file && XDG_STATE_HOME=$PWD/file longshore run create image');
    assert.deepEqual([noPlace.code, noPlace.stderr], [0, ''], noPlace.output);
  });

  test('run list shows chosen fields, sorted, as a table, CSV and JSON', async () => {
    const labels = { sweep: 'list' };
    for (const [name, lr] of [
      ['=a', 0.1],
      ['b', 10],
      ['c', 2],
    ] as const) {
      await steps.create({ name, labels, inputs: { lr } });
    }
    const columns = ['--columns', 'name,inputs.lr,outputs.loss,cause'];
    const table = await list(...columns, '--sort', '-inputs.lr');
    assert.match(
      table.stdout,
      /^NAME +INPUTS\.LR +OUTPUTS\.LOSS +CAUSE\nb +10 +- +-\nc +2 +- +-\n=a +0\.1 +- +-\n$/,
    );
    assert.equal(table.stderr, '');
    const csv = await list(...columns, '--sort', 'inputs.lr', '--limit', '2', '--format', 'csv');
    assert.equal(csv.stdout, 'name,inputs.lr,outputs.loss,cause\nc,2,,\nb,10,,\n');
    assert.match(csv.stderr, /^sorted within the newest 2 runs that match: --limit or --all lists more$/m);
    const all = await list('--columns', 'name', '--format', 'csv');
    assert.equal(all.stdout, "name\nc\nb\n'=a\n");
    const json = await list('--columns', 'name,inputs.lr,outputs.loss', '--format', 'json', '--limit', '1');
    assert.equal(json.stdout, '{"name":"c","inputs.lr":2,"outputs.loss":null}\n');
    const wrong = await refused('run', 'list', '-l', 'sweep=list', '--columns', 'loss');
    assert.match(wrong.stderr, /^longshore: a run has no field "loss": it has /);
  });

  test('run diff shows in what two runs differ', async () => {
    const same = { image: 'diff', env: { A: '1' }, labels: { k: 'v' } };
    const { id: one } = await steps.create({ ...same, inputs: { lr: 0.1, seed: 1 } });
    const { id: two } = await steps.create({ ...same, inputs: { lr: 0.2, seed: 1, epochs: 3 } });
    const { stdout } = await cli.run('run', 'diff', one, two);
    assert.match(stdout, /^FIELD +A +B\ninputs\.lr +0\.1 +0\.2\ninputs\.epochs +- +3\n$/);
    const json = await cli.run('run', 'diff', one, two, '--json');
    assert.equal(
      json.stdout,
      '{"field":"inputs.lr","a":0.1,"b":0.2}\n{"field":"inputs.epochs","a":null,"b":3}\n',
    );
    const equal = await cli.run('run', 'diff', one, one);
    assert.deepEqual([equal.code, equal.stdout, equal.stderr], [0, '', 'no differences\n']);
  });
});
