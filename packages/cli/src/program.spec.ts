import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { PassThrough, Readable } from 'node:stream';
import { describe, test } from 'vitest';
import type { Command } from 'commander';
import type { CliContext } from './command-kit.js';
import { FOREIGN_WORDS } from '@longshore/common/foreign-words';
import { EXIT } from './cli-error.js';
import { unknownWordError } from './runs/operands.js';
import { Output } from './terminal/output.js';
import { checkCommandNames, makeProgram } from './program.js';

/** The commands that do something. `serve` and `worker` start programs for their help, `complete` is for shells. */
function leaves(command: Command): readonly Command[] {
  const { commands } = command;
  if (commands.length > 0) return commands.flatMap(leaves);
  return ['serve', 'worker', 'complete'].includes(command.name()) ? [] : [command];
}

const neverStopped = (): AbortSignal => new AbortController().signal;

function contextOf(): CliContext {
  return {
    env: {},
    stdin: process.stdin,
    output: new Output(new PassThrough(), new PassThrough(), {}),
    argv: [],
    stop: neverStopped,
    end: () => undefined,
  };
}

test('every example of a help is a command line that starts with the program', () => {
  const context = contextOf();
  let count = 0;
  for (const command of leaves(makeProgram(context))) {
    let help = '';
    command.configureOutput({ writeOut: (text) => (help += text) });
    command.outputHelp();
    const [, examples = ''] = help.split('\nExamples:\n');
    for (const example of examples.split('\n').filter((text) => text !== '')) {
      count += 1;
      assert.equal(example.match(/longshore(?= )/g)?.length, 1, example);
      assert.match(example, /^ {2}longshore /);
    }
  }
  assert.ok(count > 20, `${count} examples`);
});

/** Runs a command line against a service whose clock shows another time. @returns the requests that it got */
async function requestsOf(serviceTime: string, ...argv: readonly string[]): Promise<readonly string[]> {
  return (await runAgainst({ Date: new Date(serviceTime).toUTCString() }, argv)).requests;
}

/** Runs a command line against a service. @returns the requests that it got, and the standard error of the command */
async function runAgainst(
  headers: Readonly<Record<string, string | string[]>>,
  argv: readonly string[],
  stdin = '',
): Promise<{ readonly requests: readonly string[]; readonly notes: string }> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      requests.push(`${request.method} ${request.url} ${Buffer.concat(chunks).toString()}`.trimEnd());
      response.writeHead(200, { 'Content-Type': 'application/json', ...headers });
      response.end('{"id": "1", "data": [], "has_more": false, "scopes": []}');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  try {
    const env = { SERVICE_URL: url, SERVICE_API_KEY: 'k' };
    const error = new PassThrough();
    const output = new Output(new PassThrough(), error, {});
    const program = makeProgram({ ...contextOf(), argv, env, output, stdin: Readable.from([stdin]) });
    await program.parseAsync(argv, { from: 'user' });
    return { requests, notes: String(error.read() ?? '') };
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

test('def apply shows what the service warns of', async () => {
  const headers = { Warning: ['299 - "a \\"b\\" is none"', '299 - "c, too"'] };
  const { notes } = await runAgainst(headers, ['def', 'apply', '-f', '-'], '{}');
  assert.equal(
    notes,
    'longshore: warning: standard input:1: a "b" is none\nlongshore: warning: standard input:1: c, too\n',
  );
  assert.equal((await runAgainst({}, ['def', 'apply', '-f', '-'], '{}')).notes, '');
});

describe('a command with a span', () => {
  const SERVICE_TIME = '2031-05-06T07:08:09Z';

  test('lists runs by the clock of the service, not by its own', async () => {
    const requests = await requestsOf(SERVICE_TIME, 'run', 'list', '--since', '2h', '--until', '90s');
    const seconds = Date.parse(SERVICE_TIME) / 1000;
    assert.deepEqual(requests, [
      'GET /whoami',
      `GET /runs?include_events=false&created[gte]=${seconds - 7200}&created[lte]=${seconds - 90}&limit=20`,
    ]);
  });

  test('lists the runs of a worker by their ends, by the clock of the service', async () => {
    const flags = ['--worker', 'gpu-1', '--ended-since', '2h', '--ended-until', '90s'];
    const requests = await requestsOf(SERVICE_TIME, 'run', 'list', ...flags);
    const seconds = Date.parse(SERVICE_TIME) / 1000;
    assert.deepEqual(requests, [
      'GET /whoami',
      `GET /runs?include_events=false&worker_id=gpu-1&ended[gte]=${seconds - 7200}&ended[lte]=${seconds - 90}&limit=20`,
    ]);
  });

  test('lists the runs that its key has created, and those that repeat a run', async () => {
    const requests = await requestsOf(SERVICE_TIME, 'run', 'list', '--mine', '--rerun-of', 'r');
    assert.deepEqual(requests, ['GET /runs?include_events=false&created_by=me&rerun_of=r&limit=20']);
  });

  test('asks for no time where none is needed', async () => {
    const requests = await requestsOf(SERVICE_TIME, 'run', 'list', '--since', '2027-06-01T02:00:00+02:00');
    assert.deepEqual(requests, ['GET /runs?include_events=false&created[gte]=1811808000&limit=20']);
  });

  test('sends the start of a run, and the end of a key, for the service to count', async () => {
    const create = ['run', 'create', 'i', '--start-at', '10m', '--idempotency-key', 'k'];
    const first = await requestsOf(SERVICE_TIME, ...create);
    assert.deepEqual(first, ['POST /runs {"image":"i","start_at":"10m","inputs":{}}']);
    assert.deepEqual(await requestsOf('2032-01-01T00:00:00Z', ...create), first);
    assert.deepEqual(
      await requestsOf(SERVICE_TIME, 'keys', 'create', 'y', '-s', 'client', '--expires', '90d'),
      ['POST /api-keys {"name":"y","scopes":["client"],"expires_at":"90d"}'],
    );
  });
});

describe('run rerun', () => {
  const ID = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
  const sent = (...flags: readonly string[]) =>
    requestsOf('2031-05-06T07:08:09Z', 'run', 'rerun', ID, ...flags);

  test('sends what the flags say as changes, and nothing else', async () => {
    assert.deepEqual(await sent(), [`POST /runs/${ID}/rerun {}`]);
    assert.deepEqual(
      await sent('--definition-version', 'latest', '--ram-mb', '400', '-i', 'n=1', '-l', 'a=b', '--', '-x'),
      [
        `POST /runs/${ID}/rerun {"definition_version":"latest","changes":{"inputs":{"n":1},"args":["-x"],"labels":{"a":"b"},"constraints":{"ram_mb":400}}}`,
      ],
    );
    assert.deepEqual(await sent('--image', 'j', '--max-attempts', '3', '--topic', 't'), [
      `POST /runs/${ID}/rerun {"changes":{"image":"j","retry_policy":{"max_attempts":3},"event_delivery":{"topic":"t","attributes":{}}}}`,
    ]);
  });

  test('finds the run by its name, and refuses an unknown flag and a word without --', async () => {
    await assert.rejects(sent('--ram', '400'), /unknown option '--ram'/);
    await assert.rejects(sent('word'), /put arguments of the container after --/);
    await assert.rejects(
      requestsOf('2031-05-06T07:08:09Z', 'run', 'rerun', 'nightly'),
      /no run has the id or the name/,
    );
  });
});

for (const option of [
  ['run', 'create', 'i', '--start-at'],
  ['keys', 'create', 'y', '--scope', 'client', '--expires'],
  ['run', 'list', '--since'],
  ['run', 'list', '--until'],
  ['run', 'list', '--ended-since'],
  ['run', 'list', '--ended-until'],
]) {
  test(`${option.join(' ')} takes ISO 8601 with a zone or a span, and no other time`, async () => {
    // All that the parser refuses: packages/common/src/json/read-time.spec.ts.
    for (const time of ['90', 'tomorrow', '2027-02-30T09:00:00Z', '2027-06-01T00:00', '+10m']) {
      const program = makeProgram(contextOf());
      for (const command of leaves(program)) command.configureOutput({ writeErr: () => undefined });
      await assert.rejects(program.parseAsync([...option, time], { from: 'user' }), {
        code: 'commander.invalidArgument',
        message:
          /It must be an ISO 8601 date and time with a zone .* or a span such as 90s, 15m, 2h or 3d\.$/,
      });
    }
  });
}

const TOP =
  'serve, worker, run, bulk, def, group, schedule, apply, workers, capacity, pause, feed, keys, secrets, webhook, login, logout, completion';

for (const [words, names, meant] of [
  [
    ['run', 'submit'],
    'create, list, diff, get, explain, watch, logs, files, download, cancel, retry, label, rerun',
    'run create',
  ],
  [
    ['run', 'canecl'],
    'create, list, diff, get, explain, watch, logs, files, download, cancel, retry, label, rerun',
    'run cancel',
  ],
  [['ps'], TOP, 'run list'],
  [['runs'], TOP, 'run list'],
  [['logs'], TOP, 'run logs'],
  [['worker-s'], TOP, 'workers'],
  [['help'], TOP],
  [['bulk', 'delete'], 'cancel, retry, label, priority, show, stop'],
  [['bulk', 'kill'], 'cancel, retry, label, priority, show, stop', 'bulk cancel'],
  [['workers', 'ls'], 'list, drain, resume', 'workers list'],
] as const) {
  test(`${words.join(' ')} is refused with the commands there are and the one that was meant, also with --help`, () => {
    for (const more of [[], ['--help'], ['x', '-h']]) {
      const program = makeProgram(contextOf());
      let said = '';
      program.configureOutput({ writeErr: (text) => (said += text) });
      for (const one of program.commands) one.configureOutput({ writeErr: (text) => (said += text) });
      assert.throws(() => checkCommandNames(program, [...words, ...more]), {
        code: 'commander.unknownCommand',
        exitCode: 1,
      });
      const hint = meant === undefined ? '' : `\\. Did you mean 'longshore ${meant}'\\?`;
      assert.match(said, new RegExp(`unknown command '${words.at(-1)}': the commands are ${names}${hint}\n`));
    }
  });
}

test('--help of every command shows the help of that command', async () => {
  const paths = leaves(makeProgram(contextOf())).map(pathOf);
  assert.ok(paths.length > 20, `${paths.length} commands`);
  for (const [index, path] of paths.entries()) {
    const program = makeProgram(contextOf());
    let help = '';
    leaves(program)[index]?.configureOutput({ writeOut: (text) => (help += text) });
    const argv = [...path, '--help'];
    checkCommandNames(program, argv);
    await assert.rejects(program.parseAsync(argv, { from: 'user' }), { code: 'commander.helpDisplayed' });
    assert.ok(help.startsWith(`Usage: longshore ${path.join(' ')} `), help);
  }
});

/** The words that name a command. */
function pathOf(command: Command): readonly string[] {
  return command.parent === null ? [] : [...pathOf(command.parent), command.name()];
}

for (const [words, said] of [
  [
    ['img', '--epochs', '4'],
    /^unknown option '--epochs': .* after --, as in: run create IMAGE -- --epochs 4$/,
  ],
  [['img', '--wiat'], /^unknown option '--wiat': did you mean --wait\?$/],
  [['img', '--gpu', '1'], /^unknown option '--gpu': here it is --gpus$/],
  [['img', '--memory=4g'], /^unknown option '--memory': here it is --ram-mb \(in MB\)$/],
  [['img', '--cpus', '2'], /^unknown option '--cpus': here it is --cpu$/],
  [['img', '--retries', '2'], /^unknown option '--retries': here it is --max-attempts /],
  [['img', '--timeout', '2'], /^unknown option '--timeout': here it is --attempt-timeout /],
  [['img', '--dependency=afterok:1'], /^unknown option '--dependency': here it is --after$/],
  [['img', '--array', '1-3'], /^unknown option '--array': array is in the body of POST \/groups$/],
  [['img', '--env-from', 's'], /^unknown option '--env-from': here it is --secrets-from /],
  [
    ['img', '-v', '/data:/data'],
    /^unknown option '-v': here it is --mount volume=NAME,path=\/data \(volumes by the names /,
  ],
  [['img', '--privileged'], /^unknown option '--privileged': privileged is refused on purpose/],
  [['img', '--file', '/app=@.'], /^\. is a folder: name one file each, or mount a volume with the folder$/],
  [['img', 'a', '--', 'b'], /^unexpected "a": put arguments of the container after --$/],
  [['img', '--nothing', '--', 'b'], /^unknown option '--nothing': flags of the program/],
  [['--nothing', 'img'], /^unknown option '--nothing': flags of the program/],
] as const) {
  test(`run create ${words.join(' ')} is refused with what was meant`, async () => {
    const argv = ['run', 'create', ...words];
    const program = makeProgram({ ...contextOf(), argv });
    await assert.rejects(program.parseAsync(argv, { from: 'user' }), { exitCode: EXIT.usage, message: said });
  });
}

test('every field of the words of other systems has a flag of run create', () => {
  const create = leaves(makeProgram(contextOf())).find((one) => pathOf(one).join(' ') === 'run create');
  assert.ok(create);
  const flags = new Set(create.options.map(({ long }) => long));
  for (const { there, field } of FOREIGN_WORDS) {
    const said = unknownWordError(`--${there[0]}`, create, { names: [], hint: 'none' }).message;
    if (field === null || field === 'args' || field === 'image') continue;
    const [, flag] = /(?:here it is|did you mean) (--[a-z-]+)/.exec(said) ?? [];
    assert.ok(flags.has(flag), said);
  }
});
