import assert from 'node:assert/strict';
import { test, vi } from 'vitest';
import { HttpServiceApi } from './http-service-api.js';
import type { Answer } from './service-api.js';
import { IDLE_REPORT } from '../testing/idle-report.js';

type Given = () => Response;

let answer: Given = () => new Response();
const fetch = async (): Promise<Response> => answer();
const api = new HttpServiceApi({ baseUrl: 'http://service.test', apiKey: 'secret', fetch });

const json =
  (status: number, body: unknown, type = 'application/json'): Given =>
  () =>
    new Response(JSON.stringify(body), { status, headers: { 'Content-Type': type } });

/** What proxies answer. */
const FOREIGN: readonly ((status: number) => Given)[] = [
  (status) => () => new Response('<html>no</html>', { status, headers: { 'Content-Type': 'text/html' } }),
  (status) => () => new Response(null, { status }),
  (status) => json(status, { detail: 'No.' }, 'text/plain'),
  (status) => json(status, { detail: 'No.' }, 'application/problem+json'),
  (status) => json(status, { message: 'Forbidden' }),
  (status) => json(status, { detail: { code: 7 } }),
  (status) => json(status, { detail: '' }),
  (status) => json(status, { detail: 'No.', errors: 'none' }),
  (status) => json(status, 'No.'),
];

const { signal } = new AbortController();
const HOLDER = { workerId: 'w', attempt: 1 };
const REPORTER = { ...HOLDER, idempotencyKey: 'k', trace: null };
const CLAIM = { waitSeconds: 0, timeoutMs: 15_000, signal, onAssigned: () => undefined };
const ADDRESS = { runId: 'r', attempt: 1, workerId: 'w', number: 0 };
const CHUNK = { firstLine: 0, lines: [], skippedBytes: 0, isLast: true };

const REQUESTS: Readonly<Record<string, () => Promise<Answer<unknown>>>> = {
  heartbeat: () => api.heartbeat(IDLE_REPORT, { waitSeconds: 0, timeoutMs: 10_000, signal }),
  claim: () => api.claim('w', 'k', CLAIM),
  'GET of a run': () => api.getRun('r'),
  'GET of a timeline': () => api.getTimeline('r'),
  'GET of secrets': () => api.getSecrets('r', HOLDER),
  report: () => api.postEvent('r', { type: 'COMPLETED', msg: '' }, REPORTER),
  'chunk of a log': () => api.putLogChunk(ADDRESS, CHUNK, signal),
  'GET /whoami': () => api.whoami(),
};

for (const [name, send] of Object.entries(REQUESTS)) {
  test(`a 4xx to a ${name} is an answer only in the error form of the service`, async () => {
    for (const status of [400, 401, 403, 404, 407, 409, 413]) {
      for (const [number, foreign] of FOREIGN.entries()) {
        answer = foreign(status);
        const got = await send();
        assert.ok(got.kind === 'unreachable', `${status}, answer ${number}`);
        assert.match(got.reason, new RegExp(`^HTTP ${status} that is not the service's`));
      }
      answer = json(status, { detail: 'No.', errors: ['a'] }, 'application/json; charset=utf-8');
      assert.deepEqual(await send(), { kind: 'refused', status, detail: 'No.: a' });
    }
  });

  test(`a redirect, an empty 200 and a page are no answers to a ${name}`, async () => {
    for (const odd of [
      () => new Response(null, { status: 302, headers: { Location: '/elsewhere' } }),
      () => new Response(null, { status: 200, headers: { 'Content-Length': '0' } }),
      () => new Response('<html>log in</html>', { headers: { 'Content-Type': 'text/html' } }),
      () => Response.json({ status: 'ok' }),
    ]) {
      answer = odd;
      assert.equal((await send()).kind, 'unreachable');
    }
  });
}

test('takes no answer about another run for the answer to a report', async () => {
  answer = json(200, { id: 'other', state: 'RUNNING' });
  assert.equal((await api.postEvent('r', { type: 'A', msg: 1 }, REPORTER)).kind, 'unreachable');
});

test('reads what its key may do', async () => {
  answer = json(200, {
    id: 'k',
    name: 'n',
    scopes: ['worker'],
    worker_ids: ['w1', 'gpu-*'],
    expires_at: null,
  });
  assert.deepEqual(await api.whoami(), {
    kind: 'ok',
    value: { scopes: ['worker'], workerIds: ['w1', 'gpu-*'] },
  });
  answer = json(200, { scopes: ['admin'], worker_ids: null });
  assert.deepEqual(await api.whoami(), { kind: 'ok', value: { scopes: ['admin'], workerIds: null } });
  for (const odd of [{}, { scopes: 'worker' }, { scopes: ['worker'], worker_ids: 'w1' }]) {
    answer = json(200, odd);
    assert.equal((await api.whoami()).kind, 'unreachable');
  }
});

test('a large body extends the limit of its request by the time that a slow upload takes', async () => {
  vi.useFakeTimers();
  try {
    for (const [size, limitMs] of [
      [900 * 1024, 250_000],
      [16 * 1024 * 1024, 4_100_000],
      [10, 30_000],
    ] as const) {
      let isDone = false;
      const slow = new HttpServiceApi({
        baseUrl: 'http://service.test',
        apiKey: 'secret',
        fetch: ({ signal: aborted }) =>
          new Promise((_, reject) => aborted.addEventListener('abort', () => reject(aborted.reason))),
      });
      const payload = { outputs: { text: 'x'.repeat(size) } };
      const sent = slow.postEvent('r', { type: 'COMPLETED', msg: '', payload }, REPORTER).finally(() => {
        isDone = true;
      });
      await vi.advanceTimersByTimeAsync(limitMs);
      assert.equal(isDone, false, `${size} bytes`);
      await vi.advanceTimersByTimeAsync(60_000);
      const got = await sent;
      assert.match(got.kind === 'unreachable' ? got.reason : '', /^no answer within \d+ ms$/);
    }
  } finally {
    vi.useRealTimers();
  }
});

/** An answer of the given pieces, one each so many milliseconds. */
function slowAnswer(pieces: readonly string[], everyMs: number): Response {
  const waiting = [...pieces];
  const body = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      await new Promise((resolve) => setTimeout(resolve, everyMs));
      const next = waiting.shift();
      if (next === undefined) controller.close();
      else controller.enqueue(new TextEncoder().encode(next));
    },
  });
  return new Response(body, { headers: { 'Content-Type': 'application/json', 'X-Claimed-Runs': 'a b' } });
}

const OP = { id: 'a', image: 'i', inputs: { text: 'x'.repeat(100) }, constraints: {}, attempt: 1 };

test('an answer to a claim may take as long as it arrives, and tells its runs when it begins', async () => {
  vi.useFakeTimers();
  try {
    const pieces = [...JSON.stringify({ ops: [OP] })];
    answer = () => slowAnswer(pieces, 25_000);
    const assigned: (readonly string[])[] = [];
    const claimed = api.claim('w', 'k', { ...CLAIM, onAssigned: (ids) => assigned.push(ids) });
    await vi.advanceTimersByTimeAsync(1_000);
    assert.deepEqual(assigned, [['a', 'b']]);
    await vi.advanceTimersByTimeAsync((pieces.length + 1) * 25_000);
    const got = await claimed;
    assert.ok(got.kind === 'ok' && got.value[0]?.id === 'a', JSON.stringify(got));
  } finally {
    vi.useRealTimers();
  }
});

test('an answer that stands still for 30 s is none, and a heartbeat has one limit for all', async () => {
  vi.useFakeTimers();
  try {
    answer = () => slowAnswer(['{"ops":[', ']}'], 31_000);
    const claimed = api.claim('w', 'k', CLAIM);
    await vi.advanceTimersByTimeAsync(70_000);
    assert.deepEqual(await claimed, { kind: 'unreachable', reason: 'no more of the answer within 30000 ms' });
    answer = () => slowAnswer(['{"id"', ':"w"', '}'], 4_000);
    const beat = REQUESTS['heartbeat']?.();
    await vi.advanceTimersByTimeAsync(20_000);
    assert.deepEqual(await beat, { kind: 'unreachable', reason: 'no answer within 10000 ms' });
  } finally {
    vi.useRealTimers();
  }
});
