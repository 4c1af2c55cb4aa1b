import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, test } from 'vitest';
import { jsonText } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import { HttpServiceApi } from './http-service-api.js';

const EXACT = '{"2":1795358081062000000,"1":[1.0,1e400]}';

let body = '';
let answer: (response: ServerResponse) => void = () => undefined;
const server = createServer((request, response) => void receive(request, response));
let api: HttpServiceApi;

async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
  body = await text(request);
  answer(response);
}

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const baseUrl = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  api = new HttpServiceApi({ baseUrl, apiKey: 'secret' });
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});

for (const isChunked of [false, true]) {
  test(`reads inputs and outputs with their digits, ${isChunked ? 'without' : 'with'} a length`, async () => {
    answer = (response) => {
      if (isChunked) response.write(' ');
      response.end(
        `{"id":"r","state":"RUNNING","current_attempt":1,"image":"i","inputs":${EXACT},"outputs":${EXACT},"execution_summary":{}}`,
      );
    };
    const run = await api.getRun('r');
    assert.ok(run.kind === 'ok');
    assert.equal(jsonText(run.value.inputs), EXACT);
    assert.equal(jsonText(run.value.outputs), EXACT);
  });
}

test('reads the newest entries of a timeline with their digits', async () => {
  const entry = `{"id":4,"attempt":2,"t":"2026-01-01T00:00:00Z","type":"NOTE","msg":7,"payload":${EXACT}}`;
  answer = (response) => response.end(`{"id":"r","events":[${entry},{"type":"NOTE"}]}`);
  const timeline = await api.getTimeline('r');
  assert.ok(timeline.kind === 'ok');
  assert.deepEqual(
    timeline.value.map(({ payload, ...rest }) => ({ ...rest, payload: jsonText(payload ?? {}) })),
    [{ index: 4, attempt: 2, type: 'NOTE', msg: 7, payload: EXACT }],
  );
  assert.equal((await api.getTimeline('another')).kind, 'unreachable');
});

test('sends what it has read with its digits', async () => {
  const constraints = '{"ram_mb":1,"vram_mb":2,"cpu":3.0,"gpu_id":null}';
  answer = (response) =>
    response.end(
      `{"ops":[{"id":"r","image":"i","inputs":${EXACT},"constraints":${constraints},"attempt":1}]}`,
    );
  const { signal } = new AbortController();
  const claim = { waitSeconds: 0, timeoutMs: 15_000, signal, onAssigned: () => undefined };
  const claimed = await api.claim('w', 'k', claim);
  assert.ok(claimed.kind === 'ok');
  const payload: JsonObject = { outputs: claimed.value[0]?.inputs ?? {} };
  answer = (response) => response.writeHead(204).end();
  const reporter = { workerId: 'w', attempt: 1, idempotencyKey: 'k', trace: null };
  await api.postEvent('r', { type: 'COMPLETED', msg: '', payload }, reporter);
  assert.equal(body, `{"type":"COMPLETED","msg":"","payload":{"outputs":${EXACT}}}`);
});
