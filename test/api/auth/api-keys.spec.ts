import assert from 'node:assert/strict';
import { TIME_FORM } from '@longshore/common/json/read-time';
import { describe, onTestFinished, test, vi } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { hashApiKey, isApiKey } from '../../../src/auth/api-key.js';
import { ApiKeysRepository } from '../../../src/auth/api-keys.repository.js';
import { rows } from '../../../src/database/sql/sql.js';
import { assertError, assertInvalid } from '../../support/http/answer-shapes.js';
import {
  assertBrokenOff,
  HeldClock,
  issueKey,
  knock,
  mistype,
  openStream,
  revokeKey,
} from '../../support/app/api-keys.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS, settingsName } from '../../support/app/test-app.js';
import { each, type Refusal } from '../../support/runs/refusals.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const NOBODY = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const FIELDS = [
  'id',
  'name',
  'scopes',
  'worker_ids',
  'worker_tags',
  'worker_capabilities',
  'max_file_bytes',
  'stores',
  'prefix',
  'created_at',
  'expires_at',
  'last_used_at',
  'revoked_at',
] as const;

describe('API keys', () => {
  const service = useTestApp();

  const list = async (query = '') => {
    const answer = await service.send('GET', `/api-keys${query}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.body;
  };
  const listed = async (id: string) => (await list()).find((key: { id: string }) => key.id === id);

  describe('are made', () => {
    test('with a secret that is shown once and stored nowhere', async () => {
      const body = { name: 'nightly import', scopes: ['client', 'worker'] };
      const answer = await service.send('POST', '/api-keys', { body });
      assert.equal(answer.status, 201, answer.text);
      assert.equal(answer.headers.get('cache-control'), 'no-store');
      const { key, ...shown } = answer.body;
      assert.deepEqual(Object.keys(answer.body), [...FIELDS, 'key']);
      assert.match(shown.created_at, TIMESTAMP);
      assert.deepEqual(shown, {
        ...shown,
        ...body,
        worker_ids: null,
        worker_tags: null,
        worker_capabilities: null,
        max_file_bytes: null,
        stores: null,
        expires_at: null,
        last_used_at: null,
        revoked_at: null,
      });
      assert.ok(isApiKey(key) && key.startsWith(shown.prefix));
      assert.deepEqual(await listed(shown.id), shown);
      const [row] = await rows<{ line: string }>(
        service.dataSource,
        `select to_json(k)::text as line from api_keys k where id = $1::uuid`,
        [shown.id],
      );
      assert.ok(row?.line.includes(hashApiKey(key)) && !row.line.includes(key.slice(shown.prefix.length)));
    });

    for (const [scopes, prefix] of [
      [['admin'], 'ls_admin_'],
      [['client'], 'ls_client_'],
      [['worker'], 'ls_worker_'],
      [['metrics'], 'ls_metrics_'],
      [['worker', 'client'], 'ls_multi_'],
      [['client', 'admin'], 'ls_admin_'],
    ] as const) {
      test(`that begin with ${prefix} for ${scopes.join(' and ')}`, async () => {
        const made = await issueKey(service, scopes);
        assert.equal(made.prefix.slice(0, -4), prefix);
        assert.equal((await knock(service, made.key)).status, 200);
      });
    }

    test('until a moment that the caller names in any zone', async () => {
      const made = await issueKey(service, ['client'], { expires_at: '2100-01-01T00:00:00.1239+02:00' });
      assert.equal(made.expires_at, '2099-12-31T22:00:00.123Z');
      assert.equal((await issueKey(service, ['client'], { expires_at: null })).expires_at, null);
    });

    test('with any printable name of up to 128 characters', async () => {
      for (const name of ['x', 'é漢😀 "quoted" \\ <b>', '😀'.repeat(128)]) {
        assert.equal((await issueKey(service, ['client'], { name })).name, name);
      }
    });

    const good = { name: 'n', scopes: ['client'] };
    const bound = { name: 'n', scopes: ['worker'] };
    const ONLY_WORKERS = 'must be given with the scope worker only';
    const NAMES =
      'must be a list of at most 100 items, each a string without control characters of 1 to 128 characters';
    const many = Array.from({ length: 101 }, (_, i) => `w${i}`);
    const refused: readonly Refusal[] = [
      [{}, ['name is required', 'scopes is required']],
      ...each('name must be a printable text of 1 to 128 characters', (name) => ({ ...good, name }), [
        '',
        'x'.repeat(129),
        'a\nb',
        'a\u202Eb',
        'a\u001b[31m',
        1,
      ]),
      ...each(
        'scopes must be a list of different scopes out of admin, client, worker, metrics',
        (scopes) => ({ ...good, scopes }),
        [[], ['client', 'root'], ['client', 'client'], [['client']], 'client'],
      ),
      ...each(`worker_ids ${ONLY_WORKERS}`, (scopes) => ({ ...bound, scopes, worker_ids: ['w'] }), [
        ['client'],
        ['worker', 'client'],
      ]),
      ...each(
        'worker_ids must be a list of 1 to 100 items, each a worker id, or the beginning of one followed by * of 1 to 128 characters',
        (worker_ids) => ({ ...bound, worker_ids }),
        [[], ['*'], ['a*b'], ['w'.repeat(129)], many],
      ),
      [
        { ...good, worker_tags: [], worker_capabilities: ['env'] },
        [`worker_tags ${ONLY_WORKERS}`, `worker_capabilities ${ONLY_WORKERS}`],
      ],
      ...each(`worker_tags ${NAMES}`, (worker_tags) => ({ ...bound, worker_tags }), [
        [''],
        ['t'.repeat(129)],
        'a',
      ]),
      [{ ...bound, worker_capabilities: many }, [`worker_capabilities ${NAMES}`]],
      ...each(
        'max_file_bytes must be an integer of at least 0',
        (max) => ({ ...good, max_file_bytes: max }),
        [-1, 0.5, '1', 2 ** 53],
      ),
      [
        { ...good, stores: ['unknown', 'other'] },
        [
          "stores: 'unknown' is not a store of SERVICE_FILES_STORES",
          "stores: 'other' is not a store of SERVICE_FILES_STORES",
        ],
      ],
      ...each(`expires_at must be UNIX seconds, ${TIME_FORM}`, (expires_at) => ({ ...good, expires_at }), [
        '2100-01-01T00:00:00',
        '2100-01-01',
        '2100-02-29T00:00:00Z',
        '4102444800',
        1e300,
      ]),
      ...each('expires_at must lie in the future', (expires_at) => ({ ...good, expires_at }), [
        '2020-01-01T00:00:00Z',
        1577836800,
      ]),
      ...each(
        (name) => `${name} is not a known field`,
        (name) => ({ ...good, [name]: 'k' }),
        ['key', 'id'],
      ),
    ];
    for (const [body, errors] of refused) {
      test(`not from ${JSON.stringify(body).slice(0, 100)}`, async () => {
        const known = (await list()).length;
        assertInvalid(await service.send('POST', '/api-keys', { body }), errors);
        assert.equal((await list()).length, known);
      });
    }
  });

  describe('are listed', () => {
    test('newest first, in pages, without their secrets', async () => {
      const made = [];
      for (let n = 0; n < 5; n += 1) made.push(await issueKey(service, ['client'], { name: `page ${n}` }));
      const newest = made.map(({ id }) => id).toReversed();
      const first = await list('?limit=3');
      const second = await list(`?limit=2&after=${first.at(-1).id}`);
      assert.deepEqual(
        [...first, ...second].map(({ id }) => id),
        newest,
      );
      for (const key of [...first, ...second]) assert.deepEqual(Object.keys(key), FIELDS);
      const all = await list();
      assert.deepEqual(all.slice(0, 5), [...first, ...second]);
      assert.deepEqual(await list(`?after=${all.at(-1).id}`), []);
    });

    for (const [query, errors] of [
      ['?limit=0', ['limit must be an integer from 1 to 1000']],
      ['?limit=1001', ['limit must be an integer from 1 to 1000']],
      ['?after=', ['after must not be empty']],
      ['?name=x', ['name is not a known query parameter']],
    ] as const) {
      test(`not by ${query}`, async () =>
        assertInvalid(await service.send('GET', `/api-keys${query}`), errors));
    }

    for (const cursor of [NOBODY, 'x']) {
      test(`not from the unknown key ${cursor} on`, async () => {
        assertError(
          await service.send('GET', `/api-keys?after=${cursor}`),
          400,
          'The cursor is not the id of an API key',
        );
      });
    }
  });

  describe('are revoked', () => {
    test('at once, once and for all', async () => {
      const made = await issueKey(service, ['client']);
      assert.equal((await knock(service, made.key)).status, 200);
      const answer = await service.send('DELETE', `/api-keys/${made.id}`);
      assert.deepEqual([answer.status, answer.text], [204, '']);
      assertError(await knock(service, made.key), 401, 'Invalid API key');
      const { revoked_at: revokedAt } = await listed(made.id);
      assert.match(revokedAt, TIMESTAMP);
      await revokeKey(service, made);
      assert.equal((await listed(made.id)).revoked_at, revokedAt);
    });

    test('also by themselves', async () => {
      const made = await issueKey(service, ['admin']);
      const url = `/api-keys/${made.id}`;
      assert.equal((await service.send('DELETE', url, { key: made.key })).status, 204);
      assertError(await service.send('DELETE', url, { key: made.key }), 401, 'Invalid API key');
    });

    for (const id of [NOBODY, 'x', NOBODY.toUpperCase()]) {
      test(`unless there is none: ${id}`, async () => {
        assertError(await service.send('DELETE', `/api-keys/${id}`), 404, `API key '${id}' not found`);
      });
    }

    test('while a stream is open, which then ends', async () => {
      const made = await issueKey(service, ['client']);
      const [stream, other] = [await openStream(service, made.key), await openStream(service, KEYS.client)];
      assert.deepEqual([stream.status, other.status], [200, 200]);
      await revokeKey(service, made);
      await assertBrokenOff(stream);
      const chunk = other.body?.getReader().read();
      assert.equal(await Promise.race([chunk, sleep(1_500, 'still open')]), 'still open');
    });
  });

  test('that cannot be keys, or are mistyped, cost no query', async () => {
    const made = await issueKey(service, ['client']);
    // The cache entry of the key does not age while the requests are in progress.
    onTestFinished(new HeldClock(service).release);
    const asked = vi.spyOn(service.app.get(ApiKeysRepository), 'findUsable');
    for (const key of [
      'x',
      'ls_client_',
      mistype(made.key),
      made.prefix,
      KEYS.admin,
      KEYS.client,
      `${made.key}x`,
    ]) {
      await knock(service, key);
    }
    assert.equal(asked.mock.calls.length, 0);
    await Promise.all(Array.from({ length: 50 }, () => knock(service, made.key)));
    assert.equal(asked.mock.calls.length, 1);
  });

  test('never move their last use back', async () => {
    const made = await issueKey(service, ['client']);
    const keys = service.app.get(ApiKeysRepository);
    await keys.noteUses(new Map([[made.id, 0]]));
    const { last_used_at: now } = await listed(made.id);
    await keys.noteUses(
      new Map([
        [made.id, 60_000],
        [NOBODY, 0],
      ]),
    );
    assert.equal((await listed(made.id)).last_used_at, now);
  });

  test('name who patched a run in the audit log, and who made a key in the log', async () => {
    const made = await issueKey(service, ['admin'], { name: 'on-call engineer' });
    const { id } = await new RunSteps(service.send).create();
    assert.equal(
      (await service.send('PATCH', `/runs/${id}`, { key: made.key, body: { priority: 7 } })).status,
      200,
    );
    const [entry] = (await service.send('GET', '/audit')).body;
    assert.deepEqual([entry.key_name, entry.run_id], ['on-call engineer', id]);
    const line = service.logged.find(({ keyId }) => keyId === made.id);
    assert.deepEqual(
      [line?.['msg'], line?.['keyName'], line?.['by']],
      ['created an API key', 'on-call engineer', settingsName('admin', KEYS.admin)],
    );
  });
});
