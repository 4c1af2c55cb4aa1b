import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { assertError, assertInvalid } from '../../support/http/answer-shapes.js';
import { KEYS, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('limits of definitions', () => {
  const service = useTestApp({
    env: { SERVICE_MAX_DEFINITION_BYTES: '2048', SERVICE_MAX_DEFINITION_VERSIONS: '3' },
  });

  function put(id: string, version: string, text = ''): Promise<TestAnswer> {
    const specs = { text: { type: 'string', default: text } };
    const body = { id, version, image: 'i', input_specs: specs };
    return service.send('POST', '/definitions', { body, key: KEYS.client });
  }

  test('a version of too many bytes is refused, changes nothing and is told which limit', async () => {
    assert.equal((await put('large', '1')).status, 201);
    const refused = await put('large', '1', '€'.repeat(700));
    assertError(refused, 429, 'The definition is larger than 2048 bytes (SERVICE_MAX_DEFINITION_BYTES)');
    assert.ok(Number(refused.headers.get('retry-after')) > 0);
    const { text } = await service.send('GET', '/metrics');
    assert.match(text, /^longshore_refused_total\{limit="SERVICE_MAX_DEFINITION_BYTES"\} 1$/m);
    const { body } = await service.send('GET', '/definitions/large');
    assert.equal(body.input_specs.text.default, '');
  });

  test('a version too many is refused, one that exists is replaced, and another definition has room', async () => {
    for (const version of ['1', '2', '3']) assert.equal((await put('many', version)).status, 201);
    assertError(
      await put('many', '4'),
      429,
      "OpDefinition 'many' has 3 versions already (SERVICE_MAX_DEFINITION_VERSIONS)",
    );
    assert.equal((await put('many', '2', 'new')).status, 200);
    assert.equal((await put('other', '1')).status, 201);
    assert.equal((await service.send('GET', '/definitions/many/versions')).body.length, 3);
  });
});

describe('DELETE /definitions/{name}', () => {
  const service = useTestApp({ env: { SERVICE_MAX_DEFINITION_VERSIONS: '2' } });

  beforeAll(async () => {
    for (const version of ['1', '2']) await put(version);
  });

  function put(version: string): Promise<TestAnswer> {
    const body = {
      id: 'd',
      version,
      image: `image-${version}`,
      input_specs: { a: { type: 'string', default: 'x' } },
    };
    return service.send('POST', '/definitions', { body });
  }

  test('takes a version away and leaves the others, room for another, and the runs that were made of it', async () => {
    const created = await service.send('POST', '/definitions/d/runs?version=2', { body: {} });
    assert.equal(created.status, 201);
    const deleted = await service.send('DELETE', '/definitions/d?version=2');
    assert.deepEqual([deleted.status, deleted.text], [204, '']);
    assertError(
      await service.send('GET', '/definitions/d?version=2'),
      404,
      "OpDefinition 'd' version '2' not found",
    );
    assert.equal((await service.send('GET', '/definitions/d')).body.version, '1');
    const run = await service.send('GET', `/runs/${created.body.id}`);
    assert.deepEqual(run.body, created.body);
    const retried = await service.send('POST', `/runs/${created.body.id}/retry`);
    assert.deepEqual([retried.body.image, retried.body.inputs], ['image-2', { a: 'x' }]);
    assert.equal((await put('3')).status, 201);
  });

  test('takes no version away unless it is told which, or all of them', async () => {
    for (const [query, detail] of [
      ['', 'version is required, or all=true for all versions'],
      ['?all=false', 'version is required, or all=true for all versions'],
      ['?all=true&version=1', 'Only one of version and all may be given'],
    ] as const) {
      assertError(await service.send('DELETE', `/definitions/d${query}`), 400, detail);
    }
    assertInvalid(await service.send('DELETE', '/definitions/d?all=yes'), ['all must be true or false']);
    assert.equal((await service.send('GET', '/definitions/d/versions')).body.length, 2);
  });

  test('takes all versions away, and says when there are none', async () => {
    assert.equal((await service.send('DELETE', '/definitions/d?all=true')).status, 204);
    assertError(await service.send('GET', '/definitions/d'), 404, "OpDefinition 'd' not found");
    assertError(await service.send('DELETE', '/definitions/d?all=true'), 404, "OpDefinition 'd' not found");
    assertError(
      await service.send('DELETE', '/definitions/d?version=1'),
      404,
      "OpDefinition 'd' version '1' not found",
    );
  });

  test('is refused to clients', async () => {
    assert.equal((await service.send('DELETE', '/definitions/d', { key: KEYS.client })).status, 403);
  });
});
