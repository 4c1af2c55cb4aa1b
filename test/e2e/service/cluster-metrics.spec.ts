import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { Scrape } from '../../support/monitoring/scrape.js';
import { readyPids, startCluster } from '../../support/programs/server-processes.js';
import { senderTo, type Send } from '../../support/app/test-app.js';

const RUNS = 30;

describe('the metrics of two server processes', () => {
  it('add up what each counted, and tell what is in the database once', async () => {
    const service = await startCluster();
    // A connection for each request, so that both processes get some.
    const send: Send = (method, path, request = {}) =>
      senderTo(service.url, service.adminKey)(method, path, {
        ...request,
        headers: { ...request.headers, Connection: 'close' },
      });
    const bodies = Array.from({ length: RUNS }, (_, n) => ({ image: `i-${n}` }));
    await Promise.all(bodies.map((body) => send('POST', '/runs', { body })));
    const workers = ['w-1', 'w-2', 'w-3'];
    for (const worker of workers) {
      const resources = { cpu_cores: 1, ram_mb: 1, gpus: [] };
      await send('POST', '/workers/heartbeat', { body: { worker_id: worker, resources, tags: [] } });
      await send('POST', `/workers/${worker}/claim`);
    }
    for (let look = 0; look < 4; look += 1) {
      const scrape = await Scrape.of(send);
      assert.equal(scrape.value('longshore_server_processes'), 2);
      assert.equal(scrape.value('longshore_runs_created_total'), RUNS);
      assert.equal(scrape.value('longshore_runs_claimed_total'), 3);
      assert.equal(scrape.value('longshore_http_requests_total', { route: '/runs', status: '201' }), RUNS);
      assert.equal(scrape.value('longshore_runs', { state: 'PENDING' }), RUNS - 3);
      assert.equal(scrape.value('longshore_runs', { state: 'ASSIGNED' }), 3);
      assert.equal(scrape.value('longshore_workers', { state: 'active' }), 3);
      assert.equal(scrape.find('longshore_runs').length, 6);
      assert.equal(scrape.value('longshore_database_unreachable'), 0);
      // In each process one, and another for large requests.
      assert.equal(scrape.value('longshore_database_pool_size', { pool: 'journal' }), 4);
      const since = scrape.value('longshore_job_last_success_timestamp_seconds', { name: 'reaper' }) ?? 0;
      assert.ok(Math.abs(since - Date.now() / 1000) < 300, 'not the sum of two times');
    }
    assert.equal(readyPids(service).length, 2);
    assert.equal(await service.stop(), 0);
  });
});
