import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { issueKey } from '../../support/app/api-keys.js';
import { KEYS, startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';

const NOBODY = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

describe('limits of API keys are changed', () => {
  const env = {
    SERVICE_FILES_STORES: 'results=s3://results?mode=rw,datasets=s3://datasets/public',
    AWS_ACCESS_KEY_ID: 'id',
    AWS_SECRET_ACCESS_KEY: 'secret',
  };
  const service = useTestApp({ env });
  const list = async (key: string) =>
    bodyOf(await service.send('GET', '/files/stores', { key }), 'FileStores');
  const listed = async (id: string) =>
    (await service.send('GET', '/api-keys')).body.find((key: { id: string }) => key.id === id);
  const change = (id: string, body: object) => service.send('PATCH', `/api-keys/${id}`, { body });

  test('in their limits alone, field by field, with an entry of the audit log for each change', async () => {
    const made = await issueKey(service, ['client'], {
      name: 'team',
      max_file_bytes: Number.MAX_SAFE_INTEGER,
      stores: ['results'],
    });
    const { key: _, ...shown } = { ...made, max_file_bytes: Number.MAX_SAFE_INTEGER, stores: ['results'] };
    assert.deepEqual(await listed(made.id), shown);
    for (const [body, limits] of [
      [{}, { max_file_bytes: Number.MAX_SAFE_INTEGER, stores: ['results'] }],
      [{ max_file_bytes: 0 }, { max_file_bytes: 0, stores: ['results'] }],
      [{ stores: [] }, { max_file_bytes: 0, stores: [] }],
      [{ stores: null }, { max_file_bytes: 0, stores: null }],
      [{ max_file_bytes: null }, { max_file_bytes: null, stores: null }],
    ] as const) {
      const answer = await change(made.id, body);
      assert.deepEqual([answer.status, answer.body], [200, { ...shown, ...limits }]);
      assert.deepEqual(await listed(made.id), answer.body);
    }
    const entries = (await service.send('GET', '/audit')).body.filter(
      (entry: { subject: string }) => entry.subject === made.id,
    );
    assert.deepEqual(
      entries.map(({ action, before, after }: Readonly<Record<string, unknown>>) => [action, before, after]),
      [
        [
          'key.update',
          { name: 'team', max_file_bytes: 0, stores: null },
          { name: 'team', max_file_bytes: null, stores: null },
        ],
        [
          'key.update',
          { name: 'team', max_file_bytes: 0, stores: [] },
          { name: 'team', max_file_bytes: 0, stores: null },
        ],
        [
          'key.update',
          { name: 'team', max_file_bytes: 0, stores: ['results'] },
          { name: 'team', max_file_bytes: 0, stores: [] },
        ],
        [
          'key.update',
          { name: 'team', max_file_bytes: Number.MAX_SAFE_INTEGER, stores: ['results'] },
          { name: 'team', max_file_bytes: 0, stores: ['results'] },
        ],
        [
          'key.create',
          {},
          {
            name: 'team',
            scopes: ['client'],
            prefix: made.prefix,
            max_file_bytes: Number.MAX_SAFE_INTEGER,
            stores: ['results'],
          },
        ],
      ],
    );
  });

  test('so that the next request is judged by them', async () => {
    const { id, key } = await issueKey(service, ['client']);
    const names = async () =>
      (await service.send('GET', '/files/stores', { key })).body.map(({ name }: { name: string }) => name);
    assert.deepEqual(await names(), ['datasets', 'results']);
    await change(id, { stores: ['datasets'] });
    assert.deepEqual(await names(), ['datasets']);
    await change(id, { stores: [] });
    assert.deepEqual(await names(), []);
  });

  for (const [body, errors] of [
    [{ max_file_bytes: -1 }, ['max_file_bytes must be an integer of at least 0']],
    [{ stores: ['unknown'] }, ["stores: 'unknown' is not a store of SERVICE_FILES_STORES"]],
    [{ name: 'other' }, ['name is not a known field']],
  ] as const) {
    test(`not to ${JSON.stringify(body)}`, async () => {
      const made = await issueKey(service, ['client']);
      assertInvalid(await change(made.id, body), errors);
      assert.deepEqual((await listed(made.id)).max_file_bytes, null);
    });
  }

  for (const id of [NOBODY, 'x']) {
    test(`unless there is none: ${id}`, async () =>
      assertError(await change(id, { max_file_bytes: 1 }), 404, `API key '${id}' not found`));
  }

  test('and the stores are listed that the key may use', async () => {
    const [datasets, results] = [
      { name: 'datasets', mode: 'ro' },
      { name: 'results', mode: 'rw' },
    ];
    assert.deepEqual(await list(KEYS.client), [datasets, results]);
    for (const [stores, expected] of [
      [null, [datasets, results]],
      [['results'], [results]],
      [[], []],
    ] as const) {
      const { key } = await issueKey(service, ['client'], { stores });
      assert.deepEqual(await list(key), expected);
    }
  });

  test('to no store without a main one, and then every route of files is 503', async () => {
    const off = await startTestApp({ env: { ...env, SERVICE_FILES_URL: 'none' } });
    try {
      const body = { name: 'n', scopes: ['client'], stores: ['results'] };
      assertInvalid(await off.send('POST', '/api-keys', { body }), [
        "stores: 'results' is not a store of SERVICE_FILES_STORES",
      ]);
      for (const [method, path, sent] of [
        ['POST', '/files', { name: 'f', bytes: 1 }],
        ['GET', '/files/stores'],
        ['GET', `/files/${NOBODY}`],
        ['GET', `/files/${NOBODY}/content`],
        ['POST', `/files/${NOBODY}/complete`, { etags: ['x'] }],
        ['DELETE', `/files/${NOBODY}`],
      ] as const) {
        const answer = await off.send(method, path, { body: sent });
        assertError(answer, 503, 'Files are not configured');
        assert.equal(answer.headers.get('retry-after'), null);
      }
    } finally {
      await off.close();
    }
  });
});
