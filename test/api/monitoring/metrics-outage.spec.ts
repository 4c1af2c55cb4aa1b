import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { DatabaseProxy } from '../../support/postgres/database-proxy.js';
import { Scrape } from '../../support/monitoring/scrape.js';
import { proxied } from '../../support/postgres/proxied-database.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

/** What is read from the database at a scrape. */
const STANDING = [
  'longshore_runs',
  'longshore_pending_runs',
  'longshore_oldest_pending_run_age_seconds',
  'longshore_workers',
];

describe('GET /metrics while the database is away', () => {
  const database = useTestDatabase();
  let proxy: DatabaseProxy;
  let service: TestApp;

  beforeAll(async () => {
    proxy = await DatabaseProxy.open(database.url);
    service = await startTestApp({
      database: proxied(database, proxy),
      env: { SERVICE_WORKER_POOL: 'shared' },
    });
    assert.equal((await service.send('POST', '/runs', { body: { image: 'i' } })).status, 201);
  });
  afterAll(async () => {
    await proxy.allow();
    await service.close();
    await proxy.refuse();
  });

  const scrapeOnce = (): Promise<Scrape> => Scrape.of(service.send);

  for (const way of ['silence', 'refuse'] as const) {
    test(`answers without what only the database knows, and with it again afterwards (${way})`, async () => {
      for (const name of STANDING) assert.ok((await scrapeOnce()).find(name).length > 0, name);
      await proxy[way]();
      for (let tries = 0; tries < 40; tries += 1) {
        const several = await Promise.all([scrapeOnce(), scrapeOnce()]);
        for (const scrape of several) {
          for (const name of STANDING) assert.deepEqual(scrape.find(name), [], name);
          assert.ok(scrape.find('longshore_http_requests_total').length > 0);
          assert.equal(scrape.value('longshore_runs_created_total'), 1);
        }
        if (several[0].value('longshore_database_unreachable') === 1) break;
        await sleep(50);
      }
      const scrape = await scrapeOnce();
      assert.equal(scrape.value('longshore_database_unreachable'), 1);
      assert.ok((scrape.value('longshore_database_outages_total') ?? 0) >= 1);
      assert.ok((scrape.value('longshore_runs_unread_total') ?? 0) > 0);
      await proxy.allow();
      for (;;) {
        const now = await scrapeOnce();
        if (now.value('longshore_database_unreachable') === 0 && now.value('longshore_runs') !== undefined)
          break;
        await sleep(25);
      }
      assert.equal((await scrapeOnce()).value('longshore_runs', { state: 'PENDING' }), 1);
    });
  }
});
