import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('section 9: versioning', () => {
  const service = useTestApp();

  const store = async (version: string, image: string): Promise<void> => {
    const answer = await service.send('POST', '/definitions', { body: { id: 'tool', version, image } });
    assert.ok(answer.status < 300, answer.text);
  };
  const imageOf = async (query = ''): Promise<string> =>
    (await service.send('GET', `/definitions/tool${query}`)).body.image;

  describe('as specified', () => {
    test('a version is replaced by storing it again, stands beside others, and the latest answers for all', async () => {
      await store('1.0.0', 'first');
      await store('2.0.0', 'second');
      assert.deepEqual([await imageOf('?version=1.0.0'), await imageOf()], ['first', 'second']);
      await store('1.0.0', 'first-mended');
      assert.deepEqual(
        [await imageOf('?version=1.0.0'), await imageOf('?version=2.0.0'), await imageOf()],
        ['first-mended', 'second', 'second'],
      );
    });

    test('a version is any text of its form: which is latest is a matter of time and not of number', async () => {
      await store('9', 'nine');
      await store('10-beta', 'beta');
      await store('1', 'one');
      assert.equal(await imageOf(), 'one');
    });
  });

  describe('as settled', () => {
    test('versions that are stored in the same moment still have an order', async () => {
      for (let i = 0; i < 20; i += 1) {
        await store(`burst-${i}`, `image-${i}`);
        assert.equal(await imageOf(), `image-${i}`);
      }
    });

    test('the API itself is described in its version, under one path', async () => {
      const { status, body } = await service.send('GET', '/docs-json', { key: null });
      assert.equal(status, 200);
      assert.match(body.openapi, /^3\.1\./);
      assert.match(body.info.version, /^\d+\.\d+\.\d+/);
    });
  });
});
