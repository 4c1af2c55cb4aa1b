import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { Cli, type CliEnd } from '../../support/programs/cli.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';

const ADMIN = 'e2e-admin-key-of-the-tests';

describe('inputs and keys on the command line', () => {
  let service: ServiceProcess;
  let send: Send;
  let cli: Cli;

  beforeAll(async () => {
    service = await startService({ env: { SERVICE_API_KEYS: `admin:${ADMIN}` } });
    send = senderTo(service.url, ADMIN);
    cli = await Cli.make({ SERVICE_URL: service.url, SERVICE_API_KEY: ADMIN });
    const input_specs = {
      commit: { type: 'String' },
      lr: { type: 'number', required: true },
      batch_size: { type: 'integer' },
      verbose: { type: 'boolean' },
      user: { type: 'string' },
    };
    const body = { id: 'train', version: '1', image: 'trainer', input_specs };
    assert.equal((await send('POST', '/definitions', { body })).status, 201);
  });
  afterAll(async () => {
    assert.equal(await service.stop(), 0, service.output);
  });

  /** The inputs of the run that a command creates, in exact JSON. */
  const inputsOf = async (...args: readonly string[]): Promise<string> => {
    const end = await cli.run(...args, '--json');
    assert.equal(end.code, 0, end.output);
    return /"inputs":(\{[^}]*\})/.exec(end.stdout)?.[1] ?? end.stdout;
  };
  const refused = async (...args: readonly string[]): Promise<CliEnd> => {
    const end = await cli.run(...args);
    assert.deepEqual([end.code, end.stdout], [2, ''], end.output);
    return end;
  };

  test('def run reads an input that is declared as a string as text', async () => {
    for (const [text, value] of [
      ['6063e25', '"6063e25"'],
      ['1.10', '"1.10"'],
      ['null', '"null"'],
      ['"3"', '"3"'],
      ['{"a": 1}', String.raw`"{\"a\": 1}"`],
    ] as const) {
      const end = await cli.run('def', 'run', 'train', '-i', `commit=${text}`, '-i', 'lr=1.10', '--json');
      assert.equal(end.code, 0, end.output);
      assert.ok(end.stdout.includes(`"inputs":{"commit":${value},"lr":1.10}`), end.stdout);
    }
  });

  test('--input-text is text, and a number that may be meant as text is told', async () => {
    assert.equal(
      await inputsOf('run', 'create', 'i', '--input-text', 'v=1.10', '-i', 'w=1.10'),
      '{"w":1.10,"v":"1.10"}',
    );
    const end = await cli.run('run', 'create', 'i', '--input', 'commit=6063e25');
    assert.equal(
      end.stderr,
      'longshore: input commit is the number 6063e25; --input-text commit=6063e25 is the text\n',
    );
  });

  test('def run takes declared inputs as flags', async () => {
    assert.equal(
      await inputsOf('def', 'run', 'train', '--lr', '0.3', '--batch-size=8', '--verbose', '--commit', '1e5'),
      '{"lr":0.3,"batch_size":8,"verbose":true,"commit":"1e5"}',
    );
    assert.equal(
      await inputsOf('def', 'run', 'train', '--no-verbose', '-i', 'lr=1', '--lr', '-2'),
      '{"lr":-2,"verbose":false}',
    );
    const { stdout } = await cli.run('def', 'run', 'train', '--lr', '1', '--json', '--', '--lr', '5');
    assert.deepEqual(JSON.parse(stdout).args, ['--lr', '5']);
    // A flag of the command is none of the definition.
    const user = JSON.parse((await cli.run('def', 'run', 'train', '--lr=1', '--user', '7', '--json')).stdout);
    assert.deepEqual([user.user, user.inputs], ['7', { lr: 1 }]);
  });

  test('def run refuses a flag that is neither its own nor an input, and names the inputs', async () => {
    const unknown = await refused('def', 'run', 'train', '--momentum', '1');
    assert.equal(
      unknown.stderr,
      "longshore: unknown option '--momentum': its inputs are commit, lr, batch_size, verbose, user\n",
    );
    const near = await refused('def', 'run', 'train', '--comit', '1');
    assert.match(near.stderr, /^longshore: unknown option '--comit': did you mean --commit\?$/m);
    assert.match((await refused('def', 'run', 'train', '--lr')).stderr, /--lr needs a value/);
    assert.match((await refused('def', 'run', '--lr', '1', 'train')).stderr, /the definition comes first/);
  });

  test('completion has runs by id and name, definitions, and inputs as flags, and ends without the service', async () => {
    const words = async (...typed: readonly string[]): Promise<readonly string[]> => {
      const end = await cli.run('complete', '--', ...typed);
      assert.equal(end.code, 0, end.output);
      return end.stdout.split('\n').map((line) => line.split('\t')[0] ?? '');
    };
    const { body: run } = await send('POST', '/runs', { body: { image: 'i', name: 'completed-run' } });
    assert.deepEqual(await words('run', 'logs', 'compl'), ['completed-run', ':4', '']);
    assert.deepEqual(await words('run', 'cancel', 'x', run.id.slice(0, 23)), [run.id, ':4', '']);
    assert.ok((await words('run', 'get', '')).includes(run.id));
    assert.deepEqual(await words('def', 'run', 'tr'), ['train', ':4', '']);
    assert.deepEqual(await words('def', 'run', 'train', '--ba'), ['--batch-size', ':4', '']);
    assert.ok((await words('def', 'run', 'train', '--input', '')).includes('lr='));
    const alone = await cli.shell('SERVICE_URL=http://127.0.0.1:9 longshore complete -- run get ""');
    assert.deepEqual([alone.code, alone.stdout, alone.stderr], [0, ':4\n', '']);
  });

  test('a command says when its idempotency key has created a run before', async () => {
    const create = ['run', 'create', 'day', '--idempotency-key', 'day-1'];
    const first = await cli.run(...create);
    assert.equal(first.stderr, '');
    const id = first.stdout.trim();
    const { createdAt } = (await send('GET', `/runs/${id}`)).body;
    await send('PATCH', `/runs/${id}`, { body: { state: 'FAILED' } });
    const again = await cli.run(...create, '--wait', '--no-logs');
    assert.equal(again.code, 1, again.output);
    assert.ok(
      again.stderr.startsWith(
        `an earlier run with this idempotency key, created ${createdAt}, FAILED\nrun ${id}\n`,
      ),
      again.stderr,
    );
  });
});
