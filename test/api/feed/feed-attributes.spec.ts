import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { note } from '../../support/app/feed-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('an event on a feed', () => {
  const service = useTestApp();
  const createLabelled = (given: object) =>
    service.send('POST', '/runs', {
      body: { image: 'i', event_delivery: { topic: 'labelled', ...given } },
    });
  const get = (query: string) => service.send('GET', `/feed?${query}`);

  test('shows the attributes of the run, and counts them as bytes of the page', async () => {
    const attributes = { tenant: 'a', note: 'x'.repeat(500_000) };
    for (const given of [{ attributes: { tenant: 'b' } }, {}, { attributes: {} }]) {
      assert.equal(await note(service.send, (await createLabelled(given)).body.id, 'x'), 204);
    }
    const { body: small } = await get('topic=labelled');
    assert.deepEqual(
      small.events.map((event: object) => ('attributes' in event ? event.attributes : 'absent')),
      [{ tenant: 'b' }, 'absent', {}],
    );
    const { id } = (await createLabelled({ attributes })).body;
    for (let n = 0; n < 20; n += 1) await note(service.send, id, n);
    const page = await get(`topic=labelled&limit=500&after=${small.next_cursor}`);
    assert.ok(page.text.length < 6_000_000, `${page.text.length} bytes`);
    assert.equal(page.body.has_more, true);
    assert.deepEqual(page.body.events[0].attributes, attributes);
  });
});
