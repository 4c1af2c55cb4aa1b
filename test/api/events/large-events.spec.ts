import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { useTestApp } from '../../support/app/use-test-app.js';

const MB = 1024 * 1024;
const EVENTS = 12;
const BYTES = 900_000;
const ENV = { SERVICE_MAX_ATTEMPT_EVENT_BYTES: String(EVENTS * MB) };

describe('a run whose events come to more than an answer may embed', () => {
  const service = useTestApp({ env: ENV });
  let id: string;

  beforeAll(async () => {
    id = (await service.send('POST', '/runs', { body: { image: 'i' } })).body.id;
    for (let n = 0; n < EVENTS; n += 1) {
      const added = await service.send('POST', `/runs/${id}/events`, {
        body: { type: 'NOTE', msg: n, payload: { text: 'x'.repeat(BYTES) } },
        headers: { Prefer: 'return=minimal' },
      });
      assert.equal(added.status, 204, added.text);
    }
  });

  const EMBEDDING = [
    ['the run', () => `/runs/${id}`, (body: { events: object[] }) => body.events],
    ['its attempts', () => `/runs/${id}/attempts`, ([attempt]: { events: object[] }[]) => attempt?.events],
    ['the list', () => '/runs', ({ data: [run] }: { data: { events: object[] }[] }) => run?.events],
  ] as const;

  for (const [what, path, eventsOf] of EMBEDDING) {
    test(`${what}: shows the newest of them, without a hole, within the bytes of an answer`, async () => {
      const answer = await service.send('GET', path());
      assert.equal(answer.status, 200);
      const indexes = (eventsOf(answer.body) ?? []).map((event) => ('id' in event ? event.id : undefined));
      const shown = indexes.length;
      assert.deepEqual(
        indexes,
        Array.from({ length: shown }, (_, i) => EVENTS - shown + i),
      );
      assert.ok(shown * BYTES > 3 * MB && shown * BYTES <= 4 * MB, `${shown} events`);
    });
  }

  test('the poll still gives all of them', async () => {
    const { status, body } = await service.send('GET', `/runs/${id}/events`);
    assert.equal(status, 200);
    assert.equal(body.events.length, EVENTS);
  });

  test('a change of the run is still answered with the run', async () => {
    const cancelled = await service.send('POST', `/runs/${id}/cancel`);
    assert.equal(cancelled.status, 200);
    assert.equal(cancelled.body.state, 'CANCELLED');
    assert.equal(cancelled.body.events.at(-1).type, 'CANCELLED');
  });
});
