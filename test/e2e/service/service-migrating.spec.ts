import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { rows } from '../../../src/database/sql/sql.js';
import { freePort } from '../../support/programs/free-port.js';
import { launchService, whenListening } from '../../support/service-process.js';
import { senderTo, type Send, type TestAnswer } from '../../support/app/test-app.js';
import { openTestDatabase } from '../../support/test-database.js';

/** The lock of the migrating process. */
const MIGRATION_LOCK = '7161023518446744';

async function answerUntil(send: Send, isAsExpected: (answer: TestAnswer) => boolean): Promise<TestAnswer> {
  for (;;) {
    const answer = await send('GET', '/health', { key: null }).catch(() => undefined);
    if (answer && isAsExpected(answer)) return answer;
    await sleep(50);
  }
}

describe('a service whose database is being migrated', () => {
  for (const workers of [1, 2]) {
    it(`says for which migration it waits, as ${workers} process(es), and serves afterwards`, async () => {
      const database = await openTestDatabase({ migrations: [], entities: [] });
      const held = await database.open(1);
      await lock(held, 'pg_advisory_lock');
      const port = await freePort();
      const url = `http://127.0.0.1:${port}`;
      const send = senderTo(url);
      const launched = await launchService({
        env: { DATABASE_URL: database.url },
        args: ['--port', String(port), '--workers', String(workers)],
      });
      const waiting = await answerUntil(send, ({ body }) => body?.detail !== 'Starting');
      assert.deepEqual(
        [waiting.status, waiting.body],
        [503, { status: 'starting', detail: 'Starting: waiting for migration Baseline1795000000001' }],
      );
      assert.equal(waiting.headers.get('retry-after'), '1');
      assert.equal((await send('GET', '/health/live', { key: null })).status, 200);
      for (const [method, path] of [
        ['GET', '/runs'],
        ['POST', '/runs'],
        ['GET', '/docs'],
      ] as const) {
        const { status, headers, body } = await send(method, path, {
          body: method === 'POST' ? { image: 'i' } : undefined,
        });
        assert.deepEqual([status, Object.keys(body)], [503, ['detail']], path);
        assert.equal(headers.get('retry-after'), '1');
        assert.equal(headers.get('content-type'), 'application/json; charset=utf-8');
      }
      assert.doesNotMatch(launched.stdout, /listening on/);
      await lock(held, 'pg_advisory_unlock');
      const service = await whenListening(launched);
      assert.equal(service.url, url);
      assert.equal((await answerUntil(send, ({ status }) => status === 200)).body.status, 'ok');
      assert.equal(await service.stop(), 0);
      await database.close();
    });
  }
});

async function lock(source: DataSource, name: 'pg_advisory_lock' | 'pg_advisory_unlock'): Promise<void> {
  await rows(source, `select ${name}($1::bigint)`, [MIGRATION_LOCK]);
}
