import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS, type TestAnswer, type TestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const KEY_RULE = 'header Idempotency-Key must be 1 to 255 printable ASCII characters';
const OTHER_BODY = 'Idempotency-Key was used with another request body';

describe('creating with an Idempotency-Key', () => {
  const service = useTestApp();
  const twin = useTestApp(() => ({ database: service.database }));
  const steps = new RunSteps(service.send);

  beforeAll(async () => {
    for (const id of ['plain', 'other']) await define(id, '1', {});
  });

  const define = async (id: string, version: string, specs: object): Promise<void> => {
    const body = { id, version, image: `${id}-image`, input_specs: specs };
    assert.ok((await service.send('POST', '/definitions', { body })).status < 300);
  };

  const post = (idempotencyKey: string, body: unknown, options: Options = {}): Promise<TestAnswer> => {
    const { at = service, path = '/runs', key } = options;
    const headers = { 'Idempotency-Key': idempotencyKey };
    return at.send('POST', path, { body, headers, ...(key === undefined ? {} : { key }) });
  };

  const count = async (table: 'runs' | 'idempotency_keys'): Promise<number> => {
    const [row] = await rows<{ n: number }>(
      service.dataSource,
      `select count(*)::integer as n from ${table}`,
    );
    return row?.n ?? -1;
  };

  for (const [title, path, body] of [
    ['a run', '/runs', { image: 'i', inputs: { a: [1, { b: null }] } }],
    ['a run of a definition', '/definitions/plain/runs', { inputs: { a: 1 } }],
    ['a run of a definition in a version', '/definitions/plain/runs?version=1', { priority: 3 }],
  ] as const) {
    test(`the same request again is answered with the first ${title.slice(2)}, as it is now`, async () => {
      const key = `replay ${title}`;
      const first = await post(key, body, { path });
      assert.equal(first.headers.get('idempotency-replayed'), null);
      const { id } = bodyOf(first, 'OpRun', 201);
      const runs = await count('runs');
      for (const at of [service, twin, service]) {
        const again = await post(key, body, { path, at });
        assert.equal(again.headers.get('idempotency-replayed'), 'true');
        assert.deepEqual(bodyOf(again, 'OpRun', 201), first.body);
      }
      const cancelled = bodyOf(await service.send('POST', `/runs/${id}/cancel`), 'OpRun');
      assert.deepEqual(bodyOf(await post(key, body, { path, at: twin }), 'OpRun', 201), cancelled);
      assert.equal(await count('runs'), runs);
    });

    test(`another body with the key of ${title} is refused and makes nothing`, async () => {
      const key = `mismatch ${title}`;
      const { id } = bodyOf(await post(key, body, { path }), 'OpRun', 201);
      const run = await steps.get(id);
      const runs = await count('runs');
      for (const at of [service, twin]) {
        const other = await post(key, { ...body, priority: 7 }, { path, at });
        assertError(other, 409, OTHER_BODY);
        assert.equal(other.headers.get('idempotency-replayed'), null);
      }
      assert.equal(await count('runs'), runs);
      assert.deepEqual(await steps.get(id), run);
      assert.equal((await post(key, body, { path })).body.id, id);
    });
  }

  for (const [title, first, second] of [
    [
      'keys in another order',
      '{"image":"i","inputs":{"a":1,"b":[2]}}',
      '{"inputs":{"b":[2],"a":1},"image":"i"}',
    ],
    ['other white space', '{"image":"i","priority":1}', ' {\n"image" :\t"i",  "priority" : 1 }\r\n'],
    ['another spelling of a number', '{"image":"i","inputs":{"a":100}}', '{"image":"i","inputs":{"a":1e2}}'],
    ['another spelling of a text', '{"image":"i"}', '{"im\\u0061ge":"\\u0069"}'],
    [
      'odd names in another order',
      '{"image":"i","inputs":{"__proto__":{"x":1},"constructor":2}}',
      '{"image":"i","inputs":{"constructor":2,"__proto__":{"x":1}}}',
    ],
  ] as const) {
    test(`the same value with ${title} is the same request`, async () => {
      const created = bodyOf(await post(`equal ${title}`, first), 'OpRun', 201);
      const again = await post(`equal ${title}`, second);
      assert.equal(again.headers.get('idempotency-replayed'), 'true');
      assert.equal(bodyOf(again, 'OpRun', 201).id, created.id);
    });
  }

  for (const [title, first, second] of [
    ['a list in another order', '{"image":"i","inputs":{"a":[1,2]}}', '{"image":"i","inputs":{"a":[2,1]}}'],
    ['a number for a text', '{"image":"i","inputs":{"a":"1"}}', '{"image":"i","inputs":{"a":1}}'],
    ['null for an absent field', '{"image":"i","inputs":{}}', '{"image":"i","inputs":{"a":null}}'],
    [
      'another value of __proto__',
      '{"image":"i","inputs":{"__proto__":{"x":1}}}',
      '{"image":"i","inputs":{"__proto__":{"x":2}}}',
    ],
    ['no __proto__ at all', '{"image":"i","inputs":{"__proto__":{"x":1}}}', '{"image":"i","inputs":{}}'],
    ['a name that joins two', '{"image":"i","inputs":{"a":1,"b":2}}', '{"image":"i","inputs":{"a:1,b":2}}'],
  ] as const) {
    test(`a body with ${title} is another request`, async () => {
      bodyOf(await post(`differs ${title}`, first), 'OpRun', 201);
      assertError(await post(`differs ${title}`, second), 409, OTHER_BODY);
    });
  }

  test('the version asked for is part of the request', async () => {
    await define('versioned', '1', {});
    await define('versioned', '2', {});
    const path = '/definitions/versioned/runs';
    const first = bodyOf(await post('version', {}, { path: `${path}?version=1` }), 'OpRun', 201);
    assert.equal(first.op_definition_version, '1');
    for (const query of ['', '?version=2']) {
      assertError(await post('version', {}, { path: path + query }), 409, OTHER_BODY);
    }
  });

  test('a replay does not mind that a newer version has become the latest, or asks for other inputs', async () => {
    await define('growing', '1', {});
    const path = '/definitions/growing/runs';
    const first = bodyOf(await post('growing', { inputs: { a: 1 } }, { path }), 'OpRun', 201);
    await define('growing', '2', { b: { type: 'string', required: true } });
    const again = await post('growing', { inputs: { a: 1 } }, { path, at: twin });
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.deepEqual(bodyOf(again, 'OpRun', 201), first);
    assertError(await post('growing', { inputs: { a: 2 } }, { path }), 409, OTHER_BODY);
    assertError(await post('growing afresh', { inputs: { a: 1 } }, { path }), 400, 'Invalid inputs', [
      'inputs.a is not a declared input',
      'inputs.b is required',
    ]);
  });

  test('a key belongs to the API key, the method and the path that it came with', async () => {
    const body = {};
    const ways: Options[] = [
      { key: KEYS.admin, path: '/definitions/plain/runs' },
      { key: KEYS.client, path: '/definitions/plain/runs' },
      { key: KEYS.client, path: '/definitions/other/runs' },
    ];
    const ids = [];
    for (const way of ways) ids.push(bodyOf(await post('shared', body, way), 'OpRun', 201).id);
    const direct = bodyOf(await post('shared', { image: 'i' }), 'OpRun', 201).id;
    assert.equal(new Set([...ids, direct]).size, 4);
    for (const [i, way] of ways.entries()) {
      const again = await post('shared', body, { ...way, at: twin });
      assert.deepEqual([again.headers.get('idempotency-replayed'), again.body.id], ['true', ids[i]]);
    }
  });

  test('a key that came as a bearer token is the same caller', async () => {
    const first = await post('bearer', { image: 'i' }, { key: KEYS.client });
    const again = await service.send('POST', '/runs', {
      body: { image: 'i' },
      key: null,
      headers: { Authorization: `Bearer ${KEYS.client}`, 'Idempotency-Key': 'bearer' },
    });
    assert.equal(bodyOf(again, 'OpRun', 201).id, first.body.id);
  });

  test('50 requests that race over two processes make one run, and one of them is the first', async () => {
    const runs = await count('runs');
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        post('race', { image: 'raced' }, { at: i % 2 === 0 ? service : twin }),
      ),
    );
    assert.equal(new Set(answers.map((answer) => bodyOf(answer, 'OpRun', 201).id)).size, 1);
    const originals = answers.filter(({ headers }) => headers.get('idempotency-replayed') === null);
    assert.equal(originals.length, 1);
    assert.equal(await count('runs'), runs + 1);
  });

  test('of two bodies that race for one key over two processes one wins and the other is refused', async () => {
    for (let round = 0; round < 10; round += 1) {
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, i) =>
          post(`duel ${round}`, { image: `side-${i % 2}` }, { at: i % 4 < 2 ? service : twin }),
        ),
      );
      const won = answers.filter(({ status }) => status === 201);
      assert.equal(new Set(won.map(({ body }) => body.id)).size, 1);
      assert.equal(won.length, 4);
      assert.equal(answers.filter(({ status }) => status === 409).length, 4);
    }
  });

  for (const [title, path, body, status] of [
    ['400 by its fields', '/runs', { image: '' }, 400],
    ['400 by its syntax', '/runs', '{"image":', 400],
    ['404', '/definitions/nobody/runs', {}, 404],
  ] as const) {
    test(`a request that was refused with ${title} does not use its key up`, async () => {
      const keys = await count('idempotency_keys');
      assert.equal((await post(`refused ${title}`, body, { path })).status, status);
      assert.equal(await count('idempotency_keys'), keys);
      if (path === '/runs') {
        const created = await post(`refused ${title}`, { image: 'i' });
        assert.equal(created.headers.get('idempotency-replayed'), null);
        bodyOf(created, 'OpRun', 201);
      }
    });
  }

  for (const key of ['', 'k'.repeat(256), 'tab\there']) {
    test(`refuses the key ${JSON.stringify(key.slice(0, 12))} of ${key.length} characters`, async () => {
      const runs = await count('runs');
      assertInvalid(await post(key, { image: 'i' }), [KEY_RULE]);
      assertInvalid(await post(key, {}, { path: '/definitions/plain/runs' }), [KEY_RULE]);
      assert.equal(await count('runs'), runs);
    });
  }

  for (const key of ['k', 'k'.repeat(255), 'a b~!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}']) {
    test(`takes the key ${JSON.stringify(key.slice(0, 40))} of ${key.length} characters`, async () => {
      const { id } = bodyOf(await post(key, { image: 'i' }), 'OpRun', 201);
      assert.equal((await post(key, { image: 'i' })).body.id, id);
    });
  }

  test('keeps no key in the clear', async () => {
    await post('a key that tells a secret', { image: 'i' });
    const kept = await rows(service.dataSource, 'select * from idempotency_keys');
    assert.ok(!JSON.stringify(kept).includes('secret'));
  });
});

/** Where and how a request is sent. */
interface Options {
  readonly at?: TestApp;
  readonly path?: string;
  readonly key?: string;
}
