import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { EventStreamReader } from '../../support/runs/event-stream.js';
import { createRun, note } from '../../support/app/feed-app.js';
import { logStatements } from '../../support/postgres/statement-log.js';
import { KEYS, startTestApp, type TestAnswer } from '../../support/app/test-app.js';

const STREAMS = 900;
const POLLS = 100;
const QUIET_MS = 2_000;

const statements = logStatements();

describe('a thousand readers of the feed', () => {
  test('cost no statement while they wait, and one query together at most when an event arrives', async () => {
    const service = await startTestApp({ env: { SERVICE_REAPER_INTERVAL: '3600' } });
    const busy = await createRun(service.send, 'busy');
    const streams = await Promise.all(
      Array.from({ length: STREAMS }, (_, n) =>
        EventStreamReader.open(service.url, `/feed/stream?topic=${n % 10 === 0 ? `idle${n}` : 'busy'}`),
      ),
    );
    const polls: Promise<TestAnswer>[] = Array.from({ length: POLLS }, () =>
      service.send('GET', '/feed?topic=busy&wait=30', { key: KEYS.client }),
    );
    await sleep(1_000);

    statements.length = 0;
    await sleep(QUIET_MS);
    assert.deepEqual(statements, []);

    assert.equal(await note(service.send, busy, 'news'), 204);
    const readers = streams.filter((_, n) => n % 10 !== 0);
    for (const reader of readers) await reader.count(1);
    for (const poll of polls) assert.equal((await poll).body.events.length, 1);
    const reads = statements.filter((sql) => /from feed_topics t\b/.test(sql));
    // Streams and polls ask for different numbers of events: a query for either.
    assert.ok(reads.length <= 1, reads.join('\n'));

    for (const reader of streams) reader.close();
    await service.close();
  });

  test('cost no statement when they poll again without events, and miss none', async () => {
    const service = await startTestApp({ env: { SERVICE_REAPER_INTERVAL: '3600' } });
    const busy = await createRun(service.send, 'busy');
    assert.equal(await note(service.send, busy, 'first'), 204);
    const poll = (after: string, wait: number): Promise<TestAnswer> =>
      service.send('GET', `/feed?topic=busy&wait=${wait}${after}`, { key: KEYS.client });
    const { next_cursor: cursor } = (await poll('', 1)).body;
    await poll(`&after=${cursor}`, 1);
    await service.send('GET', '/feed?topic=never&wait=1', { key: KEYS.client });

    statements.length = 0;
    const again = [
      poll(`&after=${cursor}`, 1),
      service.send('GET', '/feed?topic=never&wait=1', { key: KEYS.client }),
    ];
    for (const { status, body } of await Promise.all(again)) {
      assert.deepEqual([status, body], [200, { events: [], next_cursor: null, has_more: false }]);
    }
    assert.deepEqual(statements, []);

    for (let n = 0; n < 20; n += 1) {
      const late = poll(`&after=${cursor}`, 30);
      assert.equal(await note(service.send, busy, `news ${n}`), 204);
      const msgs = (await late).body.events.map(({ msg }: { msg: string }) => msg);
      assert.ok(msgs.includes('news 0'), JSON.stringify(msgs));
    }
    assert.equal((await poll('', 30)).body.events.length, 21);
    await service.close();
  });
});
