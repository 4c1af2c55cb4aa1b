import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterEach, beforeEach, describe, it, onTestFinished } from 'vitest';
import { FaultProxy } from './fault-proxy.js';

const ETAG = '"run-1"';
const RUN = { id: 'run-1', current_attempt: 1 };

describe('the fault proxy, with a worker that sends the ETag of its last 200 as If-None-Match', () => {
  let proxy: FaultProxy;

  beforeEach(async () => {
    const service = createServer((request, response) => {
      if (request.headers['if-none-match'] === ETAG) response.writeHead(304, { ETag: ETAG }).end();
      else response.writeHead(200, { ETag: ETAG }).end(JSON.stringify(RUN));
    });
    service.listen(0, '127.0.0.1');
    await once(service, 'listening');
    onTestFinished(() => void service.close());
    const address = service.address();
    assert.ok(typeof address === 'object' && address !== null);
    proxy = await FaultProxy.start(address.port);
  });
  afterEach(() => proxy.close());

  const poll = (): Promise<Response> =>
    fetch(`${proxy.url}/runs/run-1`, { headers: { 'If-None-Match': ETAG } });

  it('gives it the altered answer, not the 304 of a service whose run has not changed', async () => {
    proxy.faults = { onAnswer: () => ({ kind: 'alter', body: { ...RUN, current_attempt: 2 } }) };
    const answer = await poll();
    assert.equal(answer.status, 200);
    assert.deepEqual(await answer.json(), { ...RUN, current_attempt: 2 });
  });

  it('gives an altered answer no ETag, by which a later 304 would confirm it', async () => {
    proxy.faults = { onAnswer: () => ({ kind: 'alter', body: {} }) };
    assert.equal((await poll()).headers.get('ETag'), null);
  });

  it('passes on the 304 and the ETag where it alters nothing', async () => {
    const answer = await poll();
    assert.deepEqual([answer.status, answer.headers.get('ETag')], [304, ETAG]);
  });
});
