import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { createRun, note } from '../../support/app/feed-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('GET /feed/cursor', () => {
  const service = useTestApp();
  const get = (query: string) => service.send('GET', `/feed?${query}`);

  test('returns a cursor for the newest or for future events', async () => {
    const cursor = async (query: string): Promise<string> => {
      const { status, body } = await service.send('GET', `/feed/cursor?${query}`);
      assert.equal(status, 200);
      return body.cursor;
    };
    const unused = await cursor('topic=ends&back=5');
    const id = await createRun(service.send, 'ends');
    for (let msg = 1; msg <= 3; msg += 1) await note(service.send, id, msg);
    const behind = async (cursorOfPage: string): Promise<unknown[]> =>
      (await get(`topic=ends&after=${cursorOfPage}`)).body.events.map(({ msg }: { msg: unknown }) => msg);
    assert.deepEqual(await behind(unused), [1, 2, 3]);
    assert.deepEqual(await behind(await cursor('topic=ends&back=2')), [2, 3]);
    assert.deepEqual(await behind(await cursor('topic=ends&back=9')), [1, 2, 3]);
    const end = await cursor('topic=ends');
    await note(service.send, id, 4);
    assert.deepEqual(await behind(end), [4]);
    await service.dataSource.query(`update feed_topics set first_position = 3 where topic = 'ends'`);
    assert.equal((await get(`topic=ends&after=${await cursor('topic=ends&back=9')}`)).status, 200);
    assert.equal((await service.send('GET', '/feed/cursor?topic=ends&back=-1')).status, 400);
  });
});
