import assert from 'node:assert/strict';
import { beforeAll, describe, test, vi } from 'vitest';
import type { DefinitionEntity } from '../../../src/database/entities/definition.entity.js';
import { DefinitionRepository } from '../../../src/definitions/definition.repository.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('GET /definitions in pages', () => {
  const service = useTestApp();
  /** In the order of the list. */
  const names = ['a/2', 'a/1', 'a/10', 'b/1', 'c/1', 'c/0'];

  beforeAll(async () => {
    // Definitions in another order than the list's, versions of one in its order: the oldest first.
    for (const name of [...names.slice(3), ...names.slice(0, 3)]) {
      const [id, version] = name.split('/');
      const { status } = await service.send('POST', '/definitions', { body: { id, version, image: 'i' } });
      assert.equal(status, 201);
    }
  });

  async function list(query: string): Promise<string[]> {
    const { status, body } = await service.send('GET', `/definitions${query}`);
    assert.equal(status, 200);
    return body.map(({ id, version }: { id: string; version: string }) => `${id}/${version}`);
  }

  test('returns all versions without a limit', async () => {
    assert.deepEqual(await list(''), names);
  });

  test('pages through the list without missing or repeating a version, for every page size', async () => {
    for (let limit = 1; limit <= names.length + 1; limit += 1) {
      const walked: string[] = [];
      for (;;) {
        const last = walked.at(-1);
        const page = await list(`?limit=${limit}${last === undefined ? '' : `&after=${last}`}`);
        walked.push(...page);
        if (page.length < limit) break;
      }
      assert.deepEqual(walked, names);
    }
  });

  test('returns all remaining versions for a cursor without a limit', async () => {
    assert.deepEqual(await list('?after=a%2F10'), names.slice(3));
    assert.deepEqual(await list(`?after=${names.at(-1)}`), []);
  });

  test('refuses an invalid cursor and limits out of range', async () => {
    for (const query of ['after=a', 'after=a/', 'after=a/3', 'after=/1', 'after=a/1/', 'after=z/1']) {
      const { status, body } = await service.send('GET', `/definitions?${query}`);
      assert.equal(status, 400, query);
      assert.equal(body.detail, 'The cursor is not the id and version of a definition');
    }
    for (const query of ['limit=0', 'limit=1001', 'limit=x', 'limit=', 'page=1']) {
      assert.equal((await service.send('GET', `/definitions?${query}`)).status, 400, query);
    }
  });
});

describe('the newest versions and the versions of one definition', () => {
  const service = useTestApp();

  beforeAll(async () => {
    for (const name of ['b/1', 'B-two/1', 'a/2', 'a/1', 'a/10', 'c/1']) {
      const [id, version] = name.split('/');
      await service.send('POST', '/definitions', { body: { id, version, image: `i${version}` } });
    }
    // A replaced version stays where it was.
    await service.send('POST', '/definitions', { body: { id: 'a', version: '2', image: 'new' } });
  });

  async function names(path: string): Promise<string[]> {
    const { status, body, text } = await service.send('GET', path);
    assert.equal(status, 200, text);
    return body.map(({ id, version, versions }: Record<string, unknown>) =>
      [id, version, ...(versions === undefined ? [] : [versions])].join('/'),
    );
  }

  test('lists every definition once, with its newest version and the number of versions', async () => {
    const all = await names('/latest-definitions');
    assert.deepEqual(all.toSorted(), ['B-two/1/1', 'a/10/3', 'b/1/1', 'c/1/1']);
    const walked: string[] = [];
    for (let last = ''; ; last = walked.at(-1)?.split('/')[0] ?? '') {
      const page = await names(`/latest-definitions?limit=1${last === '' ? '' : `&after=${last}`}`);
      if (page.length === 0) break;
      walked.push(...page);
    }
    assert.deepEqual(walked, all);
    assert.deepEqual((await names('/latest-definitions?search=B')).toSorted(), ['B-two/1/1', 'b/1/1']);
    assert.deepEqual(await names('/latest-definitions?search=%25'), []);
  });

  test('lists versions newest first, in pages', async () => {
    assert.deepEqual(await names('/definitions/a/versions'), ['a/10', 'a/1', 'a/2']);
    assert.deepEqual(await names('/definitions/a/versions?limit=1&after=10'), ['a/1']);
    assert.deepEqual(await names('/definitions/a/versions?after=2'), []);
    for (const path of ['/definitions/nobody/versions', '/definitions/a/versions?after=3']) {
      assert.equal((await service.send('GET', path)).status, 404, path);
    }
    for (const query of ['limit=0', 'limit=1001', 'after=', 'version=1']) {
      assert.equal((await service.send('GET', `/definitions/a/versions?${query}`)).status, 400, query);
    }
  });
});

describe('a list of definitions that is read in several steps', () => {
  const COUNT = 120;
  const service = useTestApp();

  beforeAll(async () => {
    for (let version = 0; version < COUNT; version += 1) {
      const body = { id: 'a', version: `${version}`, image: 'i' };
      assert.equal((await service.send('POST', '/definitions', { body })).status, 201);
    }
  });

  for (const [method, path] of [
    ['list', '/definitions'],
    ['listVersions', '/definitions/a/versions?limit=1000'],
  ] as const) {
    test(`${path} goes on when the last version of a step is deleted`, async () => {
      const repository = service.app.get(DefinitionRepository);
      const { length: count } = (await service.send('GET', path)).body;
      const read = repository[method].bind(repository);
      const steps = vi.spyOn(repository, method).mockImplementation(async (...args: readonly unknown[]) => {
        const found: DefinitionEntity[] = await Reflect.apply(read, undefined, args);
        if (steps.mock.calls.length === 1) await repository.remove('a', found.at(-1)?.version, { name: 'n' });
        return found;
      });
      assert.equal((await service.send('GET', path)).body.length, count);
      assert.ok(steps.mock.calls.length > 1);
      steps.mockRestore();
      assert.equal((await service.send('GET', path)).body.length, count - 1);
    });
  }
});
