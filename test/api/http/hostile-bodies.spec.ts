import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestRequest } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const MAX_BYTES = 65_536;

/** What no route takes; `wrap` puts a JSON text into a free place of a body that is good otherwise. */
const REFUSED: readonly (readonly [
  title: string,
  request: (wrap: (json: string) => string) => TestRequest,
  status: number,
  detail: string,
  errors?: string[],
])[] = [
  [
    'half a body',
    (wrap) => ({ body: wrap('1').slice(0, -1) }),
    400,
    'Malformed JSON body: syntax error at character',
  ],
  [
    'a key twice',
    (wrap) => ({ body: wrap('{"a":1,"a":1}') }),
    400,
    'Malformed JSON body: duplicate key at character',
  ],
  [
    'a number of 1,001 digits',
    (wrap) => ({ body: wrap(`[1,${'7'.repeat(1001)}]`) }),
    400,
    'Malformed JSON body: number of more than 1,000 characters in /free/1 at character',
  ],
  [
    'a list',
    (wrap) => ({ body: `[${wrap('1')}]` }),
    400,
    'Request validation failed',
    ['the body must be a JSON object'],
  ],
  [
    'a byte too much',
    (wrap) => ({ body: wrap(`"${'x'.repeat(MAX_BYTES + 1 - wrap('""').length)}"`) }),
    413,
    `Request body is larger than ${MAX_BYTES} bytes`,
  ],
  [
    'text/plain',
    (wrap) => ({ body: wrap('1'), headers: { 'Content-Type': 'text/plain' } }),
    415,
    'Request body must be application/json in UTF-8',
  ],
];

describe('a body that is not taken', () => {
  const service = useTestApp({ env: { SERVICE_MAX_BODY_BYTES: String(MAX_BYTES) } });
  const steps = new RunSteps(service.send);
  let run: { readonly id: string };

  beforeAll(async () => {
    run = await steps.running({ event_delivery: { topic: 't' }, retry_policy: { max_attempts: 2 } });
    await steps.create();
  });

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
    for (const [title, request, status, detail, errors] of REFUSED) {
      test(`${name} answers ${status} to ${title}, and nothing changes`, async () => {
        const earlier = await snapshot();
        const lines = service.logged.length;
        const answer = await service.send('POST', path(), request(wrap));
        const said = { ...answer, body: { ...answer.body, detail: withoutPosition(answer.body?.detail) } };
        assertError(said, status, detail, errors);
        assert.deepEqual(await snapshot(), earlier, 'nothing has changed');
        assert.ok(service.logged.length - lines <= 1, 'at most one line in the log');
        assert.ok(!service.logged.slice(lines).some(({ level }) => level === 'error' || level === 'warning'));
      });
    }
  }

  test('is refused for that alone', async () => {
    for (const [, path, wrap] of routes) {
      const good = await service.send('POST', path(), { body: wrap('["\\ud83d\\ude00",0.1,null]') });
      assert.ok(good.status < 300, good.text);
    }
    assert.equal((await steps.get(run.id)).state, 'COMPLETED');
  });
});

describe('text that is taken', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

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
    await service.send('POST', '/workers/heartbeat', {
      body: { worker_id: 'w', resources: { cpu_cores: 1, ram_mb: 1, gpus: [] }, tags: [nasty] },
    });
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
});

/** The detail without what differs between the routes. */
function withoutPosition(detail: unknown): unknown {
  return typeof detail === 'string'
    ? detail.replace(/ at character \d+$/, ' at character').replace(/(\/\w+)?\/free\//, '/free/')
    : detail;
}
