import assert from 'node:assert/strict';
import { beforeAll, describe, test, vi } from 'vitest';
import { RunsService } from '../../../src/runs/runs.service.js';
import { issueKey, revokeKey, type IssuedKey } from '../../support/app/api-keys.js';
import { KEYS, settingsName } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { assertInvalid } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';

const CREATES = [
  ['POST /runs', '/runs', { image: 'i' }],
  ['POST /runs/batch', '/runs/batch', { runs: [{ image: 'i' }] }],
  ['POST /definitions/{name}/runs', '/definitions/made/runs', {}],
] as const;

describe('the API key that created a run', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  beforeAll(async () => {
    const definition = { id: 'made', version: '1', image: 'i' };
    assert.equal((await service.send('POST', '/definitions', { body: definition })).status, 201);
  });

  const create = async (path: string, body: object, key?: string) => {
    const { status, body: answer, text } = await service.send('POST', path, { body, ...(key && { key }) });
    assert.ok(status === 200 || status === 201, text);
    return answer.results?.[0].run ?? answer;
  };
  const list = async (query: string, key?: string): Promise<string[]> => {
    const { status, body, text } = await service.send(
      'GET',
      `/runs?${query}`,
      key === undefined ? {} : { key },
    );
    assert.equal(status, 200, text);
    return body.data.map(({ id }: { id: string }) => id);
  };

  test.each(CREATES)('%s stores it, and it is in each response', async (_, path, body) => {
    const key = await issueKey(service, ['client']);
    const expected = { key_id: key.id, key_name: key.name };
    const made = await create(path, body, key.key);
    assert.deepEqual(made.created_by, expected);
    assert.deepEqual((await steps.get(made.id)).created_by, expected);
    const { body: page } = await service.send('GET', `/runs?created_by=${key.id}`);
    assert.deepEqual(
      page.data.map((run: { created_by: object }) => run.created_by),
      [expected],
    );
  });

  test('a key of the settings has the id that events name as their sender', async () => {
    const { id, created_by: by } = await create('/runs', { image: 'i' }, KEYS.client);
    assert.equal(by.key_name, settingsName('client', KEYS.client));
    await service.send('POST', `/runs/${id}/cancel`, { key: KEYS.client });
    const { body } = await service.send('GET', `/runs/${id}/events?include_sender=true`);
    assert.equal(by.key_id, body.events.at(-1).sender);
  });

  test('a dry run shows the key of the request', async () => {
    const key = await issueKey(service, ['client']);
    const shown = await create('/definitions/made/runs?dry_run=true', {}, key.key);
    assert.deepEqual(shown.created_by, { key_id: key.id, key_name: key.name });
  });

  test('stays with the run when the key is revoked, and when others change the run', async () => {
    const key = await issueKey(service, ['client']);
    const { id } = await create('/runs', { image: 'i' }, key.key);
    await revokeKey(service, key);
    await service.send('PATCH', `/runs/${id}`, { body: { state: 'FAILED' } });
    await service.send('POST', `/runs/${id}/retry`);
    assert.deepEqual((await steps.get(id)).created_by, { key_id: key.id, key_name: key.name });
    assert.deepEqual(await list(`created_by=${key.id}`), [id]);
  });

  test('is null for a run that the service makes by itself', async () => {
    const { run } = await service.app.get(RunsService, { strict: false }).create({ image: 'i' });
    assert.equal((await steps.get(run.id)).created_by, null);
  });

  test('filters lists, in pages and together with other filters; me is the key of the request', async () => {
    const [key, other] = [await issueKey(service, ['client']), await issueKey(service, ['client'])];
    const made: string[] = [];
    for (const image of ['a', 'b', 'a']) {
      made.unshift((await create('/runs', { image }, key.key)).id);
      await create('/runs', { image }, other.key);
    }
    const [third, second, first] = made;
    assert.deepEqual(await list(`created_by=${key.id}`), made);
    assert.deepEqual(await list(`created_by=${key.id.toUpperCase()}`), made);
    assert.deepEqual(await list('created_by=me', key.key), made);
    assert.deepEqual(await list('created_by=me&image=a', key.key), [third, first]);
    assert.deepEqual(await list(`created_by=me&limit=1&starting_after=${third}`, key.key), [second]);
    assert.deepEqual(await list(`created_by=me&limit=1&ending_before=${first}`, key.key), [second]);
    await service.send('POST', `/runs/${second}/cancel`);
    assert.deepEqual(await list('created_by=me&state=CANCELLED', key.key), [second]);
    assert.deepEqual(await list('created_by=me&state=PENDING', key.key), [third, first]);
  });

  test.each(['you', '1', 'me,me'])(
    'a filter by %s, which is neither an id nor me, is refused',
    async (value) => {
      assertInvalid(await service.send('GET', `/runs?created_by=${value}`), [
        'created_by must be the id of an API key (a UUID), or me',
      ]);
    },
  );

  test('is shown of a definition: who created a version, and who stored it last, also by a dry run', async () => {
    const [first, second] = [await issueKey(service, ['client']), await issueKey(service, ['client'])];
    const apply = async (key: IssuedKey, query = ''): Promise<unknown> => {
      const body = { id: 'whose', version: '1', image: 'i' };
      const answer = await service.send('POST', `/definitions${query}`, { body, key: key.key });
      assert.ok(answer.status < 300, answer.text);
      return [answer.body.created_by, answer.body.updated_by];
    };
    const [one, two] = [first, second].map(({ id, name }) => ({ key_id: id, key_name: name }));
    assert.deepEqual(await apply(first, '?dry_run=true'), [one, one]);
    assert.deepEqual(await apply(first), [one, one]);
    assert.deepEqual(await apply(second, '?dry_run=true'), [one, two]);
    assert.deepEqual(await apply(second), [one, two]);
    const { body } = await service.send('GET', '/definitions/whose');
    assert.deepEqual([body.created_by, body.updated_by], [one, two]);
  });

  test('chooses the runs of a bulk operation; me is the key that starts it', async () => {
    const key = await issueKey(service, ['client']);
    const { id } = await create('/runs', { image: 'i' }, key.key);
    const body = { action: 'cancel', filter: { created_by: 'me' } };
    const dry = await service.send('POST', '/bulk-operations', {
      body: { ...body, dry_run: true },
      key: key.key,
    });
    assert.deepEqual([dry.body.matched, dry.body.runs[0]?.id], [1, id]);
    const started = await service.send('POST', '/bulk-operations', { body, key: key.key });
    assert.deepEqual([started.status, started.body.matched], [202, 1]);
    await vi.waitFor(async () => assert.equal((await steps.get(id)).state, 'CANCELLED'), 10_000);
  });
});
