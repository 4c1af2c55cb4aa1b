import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { KEYS, settingsName, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const SECOND_ADMIN = 'second-admin-key-of-the-tests';

describe('the audit log of keys, workers and definitions', () => {
  const keys = Object.entries(KEYS).map(([scope, key]) => `${scope}:${key}`);
  const service = useTestApp({
    env: { SERVICE_API_KEYS: [...keys, `admin:${SECOND_ADMIN}`, `client:${SECOND_ADMIN}`].join(',') },
  });

  const read = (query: string): Promise<TestAnswer> => service.send('GET', `/audit${query}`);
  const list = async (query: string): Promise<Json[]> => (await read(query)).body;
  const raced = (image: string): Promise<TestAnswer> =>
    service.send('POST', '/definitions', { body: { id: 'raced', version: '1', image } });

  test('has who created and revoked which API key, without its secret', async () => {
    const made = await service.send('POST', '/api-keys', {
      key: SECOND_ADMIN,
      body: {
        name: 'gpu',
        scopes: ['worker'],
        worker_ids: ['gpu-*'],
        worker_tags: ['gpu'],
        worker_capabilities: [],
        expires_at: '2100-01-01T00:00:00.000Z',
      },
    });
    const { id, prefix, key } = made.body;
    for (let n = 0; n < 2; n += 1)
      assert.equal((await service.send('DELETE', `/api-keys/${id}`)).status, 204);
    const { body, text } = await read('?limit=2');
    assert.deepEqual(
      body.map(({ id: _id, t: _t, ...entry }: Json) => entry),
      [
        {
          key_name: settingsName('admin', KEYS.admin),
          action: 'key.revoke',
          subject: id,
          run_id: null,
          before: { name: 'gpu', revoked: false },
          after: { name: 'gpu', revoked: true },
        },
        {
          key_name: settingsName('admin+client', SECOND_ADMIN),
          action: 'key.create',
          subject: id,
          run_id: null,
          before: {},
          after: {
            name: 'gpu',
            scopes: ['worker'],
            prefix,
            worker_ids: ['gpu-*'],
            worker_tags: ['gpu'],
            worker_capabilities: [],
            expires_at: '2100-01-01T00:00:00.000Z',
          },
        },
      ],
    );
    assert.ok(!text.includes(key));
  });

  test('has drains of workers that began or ended', async () => {
    const worker = { worker_id: 'w/1', resources: { cpu_cores: 1, ram_mb: 1, gpus: [] }, tags: [] };
    assert.equal((await service.send('POST', '/workers/heartbeat', { body: worker })).status, 200);
    for (const step of ['drain', 'drain', 'resume', 'resume']) {
      assert.equal((await service.send('POST', `/workers/${encodeURIComponent('w/1')}/${step}`)).status, 200);
    }
    assert.deepEqual(
      (await list('?limit=10')).flatMap(({ action, subject, before: was, after: is }) =>
        subject === 'w/1' ? [[action, was, is]] : [],
      ),
      [
        ['worker.resume', { draining: true }, { draining: false }],
        ['worker.drain', { draining: false }, { draining: true }],
      ],
    );
  });

  test('has definitions that were created, replaced and deleted, with the fields that changed', async () => {
    const post = async (version: string, more: object) =>
      (await service.send('POST', '/definitions', { body: { id: 'audited', version, image: 'a', ...more } }))
        .status;
    const precise = '{"n":{"type":"number","required":false,"default":1.5}}';
    assert.equal(await post('1', {}), 201);
    const body = `{"id":"audited","version":"1","image":"b","input_specs":${precise}}`;
    assert.equal((await service.send('POST', '/definitions', { body })).status, 200);
    assert.equal(await post('2', { image: 'c' }), 201);
    assert.equal((await service.send('DELETE', '/definitions/audited?version=2')).status, 204);
    assert.equal((await service.send('DELETE', '/definitions/audited?all=true')).status, 204);
    assert.equal((await service.send('DELETE', '/definitions/audited?all=true')).status, 404);
    const { body: entries, text } = await read('?limit=5');
    assert.deepEqual(
      entries.map(({ action, subject, before: was, after: is }: Json) => [
        action,
        subject,
        was.image ?? was,
        is.image ?? is,
      ]),
      [
        ['definition.delete', 'audited', { 1: 'b' }, {}],
        ['definition.delete', 'audited/2', { 2: 'c' }, {}],
        ['definition.create', 'audited/2', {}, 'c'],
        ['definition.replace', 'audited/1', 'a', 'b'],
        ['definition.create', 'audited/1', {}, 'a'],
      ],
    );
    assert.ok(
      text.includes(`"before":{"image":"a","input_specs":{}},"after":{"image":"b","input_specs":${precise}}`),
      text,
    );
  });

  test('has an entry for each of several replacements that race, each with what was before it', async () => {
    await Promise.all(Array.from({ length: 12 }, (_, n) => raced(`image-${n}`)));
    const entries = (await list('?limit=12')).toReversed();
    assert.deepEqual(
      entries.map(({ action }) => action),
      ['definition.create', ...Array<string>(11).fill('definition.replace')],
    );
    entries.slice(1).forEach((entry, i) => assert.equal(entry.before.image, entries[i].after.image));
  });

  test('keeps a change only with its entry', async () => {
    await service.dataSource.query(
      `alter table audit_entries add constraint closed check (action = 'run.patch') not valid`,
    );
    try {
      const worker = { worker_id: 'kept', resources: { cpu_cores: 1, ram_mb: 1, gpus: [] }, tags: [] };
      await service.send('POST', '/workers/heartbeat', { body: worker });
      const body = { id: 'unaudited', version: '1', image: 'i' };
      for (const [method, path, request] of [
        ['POST', '/workers/kept/drain', {}],
        ['POST', '/definitions', { body }],
        ['POST', '/api-keys', { body: { name: 'unaudited', scopes: ['client'] } }],
      ] as const) {
        assert.equal((await service.send(method, path, request)).status, 500, path);
      }
    } finally {
      await service.dataSource.query('alter table audit_entries drop constraint closed');
    }
    const workers: Json[] = (await service.send('GET', '/workers')).body;
    assert.equal(workers.find(({ id, worker_id }) => (id ?? worker_id) === 'kept').draining, false);
    assert.equal((await service.send('GET', '/definitions/unaudited')).status, 404);
    const listed: Json[] = (await service.send('GET', '/api-keys')).body;
    assert.ok(!listed.some(({ name }) => name === 'unaudited'));
  });
});

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
type Json = any;
