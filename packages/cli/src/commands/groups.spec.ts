import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { describe, test, vi } from 'vitest';
import { EXIT } from '../cli-error.js';
import { makeProgram } from '../program.js';
import { Session } from '../service/session.js';
import { Output } from '../terminal/output.js';

const RUN = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
const COUNTS = { uncreated: 0, pending: 0, assigned: 0, running: 0, completed: 0, failed: 0, cancelled: 0 };

/** A group of three runs as the service shows it. */
function group(fields: object = {}, counts: object = {}): object {
  return {
    id: 'g',
    name: 'nightly',
    labels: { team: 'vision' },
    state: 'open',
    reason: null,
    size: 3,
    array: null,
    max_parallel: null,
    max_failed: null,
    on_failure: 'cancel_dependents',
    counts: { ...COUNTS, ...counts },
    progress: 0,
    failed_indexes: null,
    failed_refs: [],
    waiting_for: [],
    schedule: null,
    created_at: '2026-01-02T03:04:05.678Z',
    updated_at: '2026-01-02T03:04:05.678Z',
    ended_at: null,
    created_by: null,
    ...fields,
  };
}

/** Runs a command line against a service that gives these answers in turn, the last one for ever. */
async function typed(answers: readonly object[], argv: readonly string[], stdin = '') {
  const requests: string[] = [];
  const left = [...answers];
  vi.spyOn(globalThis, 'fetch').mockImplementation(async (request) => {
    assert.ok(request instanceof Request);
    const { pathname, search } = new URL(request.url);
    requests.push(`${request.method} ${pathname}${search} ${await request.text()}`.trimEnd());
    const answer = left.length > 1 ? left.shift() : left[0];
    return Response.json(answer, { status: answer !== undefined && 'detail' in answer ? 409 : 200 });
  });
  vi.spyOn(Session.prototype, 'pause').mockResolvedValue();
  const [out, err] = [new PassThrough(), new PassThrough()];
  let code: number = EXIT.ok;
  const program = makeProgram({
    env: { SERVICE_URL: 'http://fake', SERVICE_API_KEY: 'key' },
    stdin: Readable.from([stdin]),
    output: new Output(out, err, {}),
    argv,
    stop: () => new AbortController().signal,
    end: (given) => (code = given),
  });
  await program.parseAsync(argv, { from: 'user' });
  return { requests, code, printed: String(out.read() ?? ''), notes: String(err.read() ?? '') };
}

describe('group create', () => {
  test('sends the group of the file, with the inputs of the flags over those of the file, and prints the id', async () => {
    const file = 'name: n\ninputs: {day: 1, kept: 2}\narray: {size: 3, run: {image: i}}\n';
    const argv = ['group', 'create', '-f', '-', '-i', 'day=12345678901234567890'];
    const { requests, printed } = await typed([group()], argv, file);
    assert.deepEqual(requests, [
      'POST /groups {"name":"n","inputs":{"day":12345678901234567890,"kept":2},"array":{"size":3,"run":{"image":"i"}}}',
    ]);
    assert.equal(printed, 'g\n');
  });

  test('refuses a file with several groups, and shows what --dry-run would make', async () => {
    await assert.rejects(typed([], ['group', 'create', '-f', '-'], '[{a: 1}, {a: 2}]'), {
      exitCode: EXIT.usage,
    });
    const argv = ['group', 'create', '-f', '-', '--dry-run'];
    const { requests, printed } = await typed([group({}, { pending: 3 })], argv, 'a: 1');
    assert.deepEqual(requests, ['POST /groups?dry_run=true {"a":1}']);
    assert.match(printed, /^runs +3$/m);
    assert.match(printed, /^counts +3 pending$/m);
  });
});

describe('group watch', () => {
  test('shows counts when they change, what an array waits for, and what failed, and ends with 1 unless it is completed', async () => {
    const waits = [{ run: RUN, state: 'RUNNING', when: 'ended' }];
    const answers = [
      group({ waiting_for: waits }, { uncreated: 3 }),
      group({}, { running: 3 }),
      group({}, { running: 3 }),
      group({ state: 'failed', failed_indexes: '0,2' }, { failed: 2, completed: 1 }),
    ];
    const { requests, code, notes, printed } = await typed(answers, ['group', 'watch', 'g']);
    assert.equal(code, EXIT.failed);
    assert.equal(
      notes,
      `0 %: 3 uncreated; waits for run ${RUN} (RUNNING, when ended)\n0 %: 3 running\n` +
        'group g is failed: 1 completed, 2 failed; failed: 0,2\n',
    );
    assert.equal(printed, '');
    assert.deepEqual(requests.slice(0, 2), ['GET /groups/g', 'GET /groups/g?wait=20']);
    assert.equal(requests.length, 4);
  });

  test('ends with 0 when the group is completed, and prints it with --json', async () => {
    const completed = group({ state: 'completed', progress: 100 }, { completed: 3 });
    const { code, printed, notes } = await typed([group(), completed], ['group', 'watch', 'g', '--json']);
    assert.deepEqual([code, JSON.parse(printed), notes], [EXIT.ok, completed, '']);
  });
});

test('group list asks for a page of groups by its filters', async () => {
  const argv = ['group', 'list', '--state', 'open', '--schedule', 's', '-n', '3', '--after', 'x'];
  const { requests, printed } = await typed([[group()]], argv);
  assert.deepEqual(requests, ['GET /groups?limit=3&state=open&schedule=s&after=x']);
  assert.match(printed, /^g +open +0 % +3 +0 +\S+ +nightly$/m);
});

test('group cancel and group retry change a group and print its state; a refusal is an error', async () => {
  const cancelled = await typed([group({ state: 'cancelled' })], ['group', 'cancel', 'g', '--reason', 'why']);
  assert.deepEqual(
    [cancelled.requests, cancelled.printed],
    [['POST /groups/g/cancel {"reason":"why"}'], 'g cancelled\n'],
  );
  for (const [flags, only] of [
    [[], 'failed'],
    [['--all'], 'all'],
  ] as const) {
    const { requests } = await typed([group()], ['group', 'retry', 'g', ...flags]);
    assert.deepEqual(requests, [`POST /groups/g/retry {"only":"${only}"}`]);
  }
  await assert.rejects(typed([{ detail: 'nothing failed' }], ['group', 'retry', 'g']), {
    exitCode: EXIT.failed,
  });
});

test('run create --after takes runs and groups with the ends that are waited for, also in the words of Slurm', async () => {
  const answers = [{ id: 'new', data: [{ id: RUN }], createdAt: 't', state: 'PENDING' }];
  const after = ['--after', `${RUN},a:b:notok`, '--after', `${RUN}:ended`, '--after-group', 'g:failed'];
  const { requests } = await typed(answers, ['run', 'create', 'image', ...after]);
  assert.deepEqual(requests, [
    'GET /runs?name=a%3Ab&limit=1&include_events=false',
    `POST /runs {"image":"image","inputs":{},"depends_on":[{"run":"${RUN}","when":"completed"},{"run":"${RUN}","when":"failed"},{"run":"${RUN}","when":"ended"},{"group":"g","when":"failed"}]}`,
  ]);
});

test('run retry --dependents retries each run by itself, and goes on after one that is refused', async () => {
  const argv = ['run', 'retry', RUN, RUN, '--dependents'];
  const { requests, code, printed, notes } = await typed([{ detail: 'not now' }, { id: RUN }], argv);
  assert.deepEqual(
    requests,
    [1, 2].map(() => `POST /runs/${RUN}/retry?dependents=true`),
  );
  assert.deepEqual(
    [code, printed, notes],
    [EXIT.failed, `${RUN} retried\n`, `${RUN} not retried: not now\n`],
  );
});
