import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { PgBouncer, skipWithoutPgBouncer } from '../../support/postgres/pgbouncer.js';
import { runService, startService } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { openTestDatabase } from '../../support/test-database.js';
import { skipFor } from '../../support/skip.js';

describe('the service behind PgBouncer', skipFor(skipWithoutPgBouncer), () => {
  for (const workers of [1, 2]) {
    it(`serves in session mode, with ${workers} server processes`, async () => {
      const database = await openTestDatabase();
      const bouncer = await PgBouncer.start(database.url, { pool_mode: 'session', default_pool_size: 60 });
      const service = await startService({
        env: { DATABASE_URL: bouncer.url, SERVICE_API_KEYS: 'admin:at-least-20-characters' },
        args: ['--workers', String(workers), '--db-pool-size', '4'],
      });
      try {
        const send = senderTo(service.url, 'at-least-20-characters');
        for (let n = 0; n < 20; n += 1) {
          assert.equal((await send('POST', '/runs', { body: { image: 'x' } })).status, 201);
        }
        assert.equal((await send('GET', '/health')).status, 200);
      } finally {
        await service.stop();
        await bouncer.stop();
        await database.close();
      }
    });
  }

  it('refuses to start in transaction mode, with exit code 2 and one line', async () => {
    const database = await openTestDatabase();
    const bouncer = await PgBouncer.start(database.url, { pool_mode: 'transaction' });
    try {
      const { code, stderr } = await runService({ env: { DATABASE_URL: bouncer.url } });
      assert.equal(code, 2, stderr);
      assert.match(stderr, /^DATABASE_URL: [^\n]* set pool_mode = session in PgBouncer [^\n]*\n$/);
    } finally {
      await bouncer.stop();
      await database.close();
    }
  });
});
