import assert from 'node:assert/strict';
import { test } from 'vitest';
import { HttpServiceApi } from './http-service-api.js';
import { IDLE_REPORT } from '../testing/idle-report.js';

test('reads the lost runs of a heartbeat that waits, and ignores what has another shape', async () => {
  const lost = { id: 'r', state: 'PENDING', attempt: 3, worker_id: null };
  const others = [5, null, { ...lost, attempt: 'x' }, { ...lost, id: 7 }, { id: 'r' }];
  const urls: string[] = [];
  const api = new HttpServiceApi({
    baseUrl: 'http://service.test',
    apiKey: 'secret',
    fetch: async (request) => {
      urls.push(request.url);
      return Response.json({ id: 'w', lost_ops: [lost, { ...lost, worker_id: 'b' }, ...others] });
    },
  });
  const answer = await api.heartbeat(IDLE_REPORT, {
    waitSeconds: 7,
    timeoutMs: 20_000,
    signal: new AbortController().signal,
  });
  const read = { id: 'r', state: 'PENDING', currentAttempt: 3 };
  assert.deepEqual(answer, {
    kind: 'ok',
    value: {
      workerTimeoutSeconds: null,
      maxBodyBytes: null,
      lostRuns: [
        { ...read, workerId: null },
        { ...read, workerId: 'b' },
      ],
    },
  });
  assert.deepEqual(urls, ['http://service.test/workers/heartbeat?wait=7']);
});
