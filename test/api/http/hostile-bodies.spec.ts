import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp, type TestApp, type TestRequest } from '../../support/app/test-app.js';

const MAX_BYTES = 65_536;
const MEDIA = 'Request body must be application/json in UTF-8';
const TOO_LARGE = `Request body is larger than ${MAX_BYTES} bytes`;
const INVALID = 'Request validation failed';
const NOT_AN_OBJECT = ['the body must be a JSON object'];

/** A body as it is sent; `wrap` puts a JSON text into a free place of a body that is good otherwise. */
type Hostile = (wrap: (json: string) => string) => TestRequest['body'];

/** Bodies that no route takes. */
const BODIES: readonly (readonly [
  title: string,
  body: Hostile,
  status: number,
  detail: string,
  errors?: string[],
])[] = [
  ['an empty body', () => '', 400, 'Request body is empty'],
  ['blanks', () => '  \n', 400, 'Malformed JSON body: syntax error'],
  ['half a body', (wrap) => wrap('1').slice(0, -1), 400, 'Malformed JSON body: syntax error'],
  ['two bodies', (wrap) => wrap('1') + wrap('1'), 400, 'Malformed JSON body: syntax error'],
  ['single quotes', (wrap) => wrap("'x'"), 400, 'Malformed JSON body: syntax error'],
  ['a comment', (wrap) => wrap('1/*x*/'), 400, 'Malformed JSON body: syntax error'],
  ['a trailing comma', (wrap) => wrap('[1,]'), 400, 'Malformed JSON body: syntax error'],
  ['NaN', (wrap) => wrap('NaN'), 400, 'Malformed JSON body: syntax error'],
  ['Infinity', (wrap) => wrap('-Infinity'), 400, 'Malformed JSON body: syntax error'],
  ['a leading zero', (wrap) => wrap('01'), 400, 'Malformed JSON body: syntax error'],
  ['a raw line end in a string', (wrap) => wrap('"a\nb"'), 400, 'Malformed JSON body: syntax error'],
  ['a raw NUL', (wrap) => wrap('"a\0b"'), 400, 'Malformed JSON body: syntax error'],
  [
    'an escaped NUL',
    (wrap) => wrap('"a\\u0000b"'),
    400,
    text('NUL character or lone surrogate in the string'),
  ],
  [
    'NUL in a key',
    (wrap) => wrap('{"\\u0000":1}'),
    400,
    text('NUL character or lone surrogate in the string'),
  ],
  [
    'a high surrogate',
    (wrap) => wrap('"\\ud83d"'),
    400,
    text('NUL character or lone surrogate in the string'),
  ],
  [
    'a low surrogate',
    (wrap) => wrap('["\\ude00"]'),
    400,
    text('NUL character or lone surrogate in the string'),
  ],
  [
    'surrogates in reverse',
    (wrap) => wrap('"\\ude00\\ud83d"'),
    400,
    text('NUL character or lone surrogate in the string'),
  ],
  [
    'a byte order mark',
    (wrap) => `\ufeff${wrap('1')}`,
    400,
    'Malformed JSON body: starts with a byte order mark',
  ],
  ['invalid UTF-8', (wrap) => bytes(wrap('"?"'), 0xff), 400, 'Malformed JSON body: not valid UTF-8'],
  ['overlong UTF-8', (wrap) => bytes(wrap('"?"'), 0xc0, 0x80), 400, 'Malformed JSON body: not valid UTF-8'],
  [
    'a surrogate in UTF-8',
    (wrap) => bytes(wrap('"?"'), 0xed, 0xa0, 0x80),
    400,
    'Malformed JSON body: not valid UTF-8',
  ],
  ['UTF-16', (wrap) => Buffer.from(wrap('1'), 'utf16le'), 400, 'Malformed JSON body: syntax error'],
  ['65 levels', (wrap) => wrap('['.repeat(64) + ']'.repeat(64)), 400, text('more than 64 levels')],
  [
    '10,000 levels',
    (wrap) => wrap('{"a":'.repeat(10_000) + '1' + '}'.repeat(10_000)),
    400,
    text('more than 64 levels'),
  ],
  ['a key twice', (wrap) => wrap('{"a":1,"b":2,"a":1}'), 400, text('duplicate key')],
  ['a key twice, once escaped', (wrap) => wrap('{"a":1,"\\u0061":1}'), 400, text('duplicate key')],
  ['a field twice', (wrap) => wrap('1').replace(/^\{("[^,]+),/, '{$1,$1,'), 400, text('duplicate key')],
  ['a number beyond doubles', () => '1e400', 400, 'Malformed JSON body: number out of range'],
  ['a list', (wrap) => `[${wrap('1')}]`, 400, INVALID, NOT_AN_OBJECT],
  ['null', () => 'null', 400, INVALID, NOT_AN_OBJECT],
  ['a number', () => '5', 400, INVALID, NOT_AN_OBJECT],
  ['a string', (wrap) => JSON.stringify(wrap('1')), 400, INVALID, NOT_AN_OBJECT],
  ['a byte too much', (wrap) => wrap(`"${'x'.repeat(MAX_BYTES + 1 - wrap('""').length)}"`), 413, TOO_LARGE],
  ['far too much', (wrap) => wrap(`"${'x'.repeat(20 * MAX_BYTES)}"`), 413, TOO_LARGE],
];

/** Headers under which a good body is not taken. */
const HEADERS: readonly (readonly [title: string, headers: Record<string, string>, detail: string])[] = [
  ['text/plain', { 'Content-Type': 'text/plain' }, MEDIA],
  ['a form', { 'Content-Type': 'application/x-www-form-urlencoded' }, MEDIA],
  ['JSON with a suffix', { 'Content-Type': 'application/merge-patch+json' }, MEDIA],
  ['Latin-1', { 'Content-Type': 'application/json; charset=iso-8859-1' }, MEDIA],
  ['an empty content type', { 'Content-Type': '' }, MEDIA],
  ['gzip', { 'Content-Encoding': 'gzip' }, 'Request body must not have a content encoding'],
];

describe('a body that is not taken', () => {
  let service: TestApp;
  let steps: RunSteps;
  let run: { readonly id: string };

  beforeAll(async () => {
    service = await startTestApp({ env: { SERVICE_MAX_BODY_BYTES: String(MAX_BYTES) } });
    steps = new RunSteps(service.send);
    run = await steps.running({ event_delivery: { topic: 't' }, retry_policy: { max_attempts: 2 } });
    await steps.create();
  });
  afterAll(() => service.close());

  /** Every row of every table but the sums that a job adds up after a while, and every worker. */
  async function snapshot(): Promise<unknown[]> {
    const { dataSource, send } = service;
    const tables = await rows<{ name: string }>(
      dataSource,
      `select tablename as name from pg_tables
        where schemaname = 'public' and tablename !~ '_counts$|^worker_pool'
        order by 1`,
    );
    const all: unknown[] = [(await send('GET', '/workers')).text];
    for (const { name } of tables) {
      all.push(await rows<object>(dataSource, `select t::text as row from "${name}" t order by 1`));
    }
    return all;
  }

  const routes: readonly (readonly [name: string, path: () => string, wrap: (json: string) => string])[] = [
    ['POST /runs', () => '/runs', (json) => `{"image":"i","inputs":{"free":${json}}}`],
    [
      'POST /runs/{id}/events',
      () => `/runs/${run.id}/events`,
      (json) => `{"type":"COMPLETED","msg":"","payload":{"free":${json}}}`,
    ],
    [
      'POST /workers/heartbeat',
      () => '/workers/heartbeat',
      (json) =>
        `{"worker_id":"new","tags":[],"resources":{"cpu_cores":1,"ram_mb":1,"gpus":[],"free":${json}}}`,
    ],
  ];

  for (const [name, path, wrap] of routes) {
    const refuse = async (
      request: TestRequest,
      status: number,
      detail: string,
      errors?: readonly string[],
    ): Promise<void> => {
      const earlier = await snapshot();
      const lines = service.logged.length;
      const answer = await service.send('POST', path(), request);
      const said = { ...answer, body: { ...answer.body, detail: withoutPosition(answer.body?.detail) } };
      assertError(said, status, detail, errors);
      assert.deepEqual(await snapshot(), earlier, 'nothing has changed');
      assert.ok(service.logged.length - lines <= 1, 'at most one line in the log');
      assert.ok(!service.logged.slice(lines).some(({ level }) => level === 'error' || level === 'warning'));
    };
    for (const [title, body, status, detail, errors] of BODIES) {
      test(`${name} answers ${status} to ${title}, and nothing changes`, () =>
        refuse({ body: body(wrap) }, status, detail, errors));
    }
    for (const [title, headers, detail] of HEADERS) {
      test(`${name} answers 415 to ${title}, and nothing changes`, () =>
        refuse({ body: wrap('1'), headers }, 415, detail));
    }
  }

  test('is one of many here: more than 60 for the three routes, all of them refused for their body alone', async () => {
    assert.ok(routes.length * (BODIES.length + HEADERS.length) >= 60);
    for (const [, path, wrap] of routes) {
      const good = await service.send('POST', path(), { body: wrap('["\\ud83d\\ude00",0.1,null]') });
      assert.ok(good.status < 300, good.text);
    }
    assert.equal((await steps.get(run.id)).state, 'COMPLETED');
  });
});

describe('text that is taken', () => {
  let service: TestApp;
  let steps: RunSteps;

  beforeAll(async () => {
    service = await startTestApp();
    steps = new RunSteps(service.send);
  });
  afterAll(() => service.close());

  test('may hold line ends, escape sequences and a megabyte without adding lines to the log', async () => {
    const nasty = '\r\n{"level":"error","msg":"forged"}\r\n\u001b[2J\u001b[31mred\u2028\u0085';
    const lines = service.logged.length;
    const { id } = await steps.create({
      inputs: { [nasty]: nasty },
      event_delivery: { topic: 't', attributes: { a: nasty } },
    });
    await steps.report(id, { type: 'NOTE', msg: nasty + 'x'.repeat(900_000) });
    await steps.report(id, { type: nasty, msg: nasty });
    await steps.report(id, { type: 'NOTE', msg: '', [nasty.repeat(10_000)]: 1 });
    await steps.heartbeat('w', { tags: [nasty] });
    await service.send('GET', `/runs/${encodeURIComponent(nasty)}?${encodeURIComponent(nasty)}=1`);
    assert.ok(service.logged.length - lines <= 6, 'a line a request at most');
    for (const line of service.logged.slice(lines)) {
      assert.ok(JSON.stringify(line).length < 4096);
      assert.notEqual(line['level'], 'error');
    }
  });

  test('that is not understood is not echoed at length', async () => {
    const { id } = await steps.create();
    const answer = await steps.report(id, { type: 'NOTE', msg: '', ['k'.repeat(500_000)]: 1 });
    assert.equal(answer.status, 400);
    assert.ok(answer.text.length < 500, `${answer.text.length} characters`);
  });

  test('in 64 levels is taken, the body’s own object being the first', async () => {
    const inputs = `${'{"a":'.repeat(62)}{}${'}'.repeat(62)}`;
    const body = `{"image":"i","inputs":${inputs}}`;
    const run = bodyOf(await service.send('POST', '/runs', { body }), 'OpRun', 201);
    assert.equal(JSON.stringify(run.inputs), inputs);
  });
});

/** The detail of a JSON text that was read and then refused; where it was is left out. */
function text(problem: string): string {
  return `Malformed JSON body: ${problem} at character`;
}

function withoutPosition(detail: unknown): unknown {
  return typeof detail === 'string' ? detail.replace(/ at character \d+$/, ' at character') : detail;
}

/** The text with its question mark replaced by bytes. */
function bytes(json: string, ...inserted: number[]): Buffer {
  const [head = '', tail = ''] = json.split('?');
  return Buffer.concat([Buffer.from(head), Buffer.from(inserted), Buffer.from(tail)]);
}
