import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, test, vi } from 'vitest';
import { HttpServiceApi } from './http-service-api.js';
import type { Answer } from './service-api.js';
import { CALL, IDLE_REPORT, REPORTER, SHOWN_RUN, StubService } from '../testing/service-calls.js';

type Given = () => Response;

const service = new StubService();
const { api } = service;

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

const ADDRESS = { runId: 'r', attempt: 1, workerId: 'w', number: 0 };
const CHUNK = { firstLine: 0, lines: [], skippedBytes: 0, isLast: true };

const REQUESTS: Readonly<Record<string, () => Promise<Answer<unknown>>>> = {
  heartbeat: () => api.heartbeat(IDLE_REPORT, { ...CALL, timeoutMs: 10_000 }),
  claim: () => api.claim('w', 'k', CALL),
  'GET of a run': () => api.getRun('r'),
  'GET of a timeline': () => api.getTimeline('r'),
  'GET of secrets': () => api.getSecrets('r', REPORTER),
  report: () => api.postEvent('r', { type: 'COMPLETED', msg: '' }, REPORTER),
  'chunk of a log': () => api.putLogChunk(ADDRESS, CHUNK, CALL.signal),
  'GET /whoami': () => api.whoami(),
};

for (const [name, send] of Object.entries(REQUESTS)) {
  test(`a 4xx to a ${name} is an answer only in the error form of the service`, async () => {
    for (const status of [400, 401, 403, 404, 407, 409, 413]) {
      for (const [number, foreign] of FOREIGN.entries()) {
        service.answer = foreign(status);
        const got = await send();
        assert.ok(got.kind === 'unreachable', `${status}, answer ${number}`);
        assert.match(got.reason, new RegExp(`^HTTP ${status} that is not the service's`));
      }
      service.answer = json(status, { detail: 'No.', errors: ['a'] }, 'application/json; charset=utf-8');
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
      service.answer = odd;
      assert.equal((await send()).kind, 'unreachable');
    }
  });
}

test('takes no answer about another run for the answer to a report', async () => {
  service.answer = json(200, { id: 'other', state: 'RUNNING' });
  assert.equal((await api.postEvent('r', { type: 'A', msg: 1 }, REPORTER)).kind, 'unreachable');
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
    service.answer = () => slowAnswer(pieces, 25_000);
    const assigned: (readonly string[])[] = [];
    const claimed = api.claim('w', 'k', { ...CALL, onAssigned: (ids) => assigned.push(ids) });
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
    service.answer = () => slowAnswer(['{"ops":[', ']}'], 31_000);
    const claimed = api.claim('w', 'k', CALL);
    await vi.advanceTimersByTimeAsync(70_000);
    assert.deepEqual(await claimed, { kind: 'unreachable', reason: 'no more of the answer within 30000 ms' });
    service.answer = () => slowAnswer(['{"id"', ':"w"', '}'], 4_000);
    const beat = REQUESTS['heartbeat']?.();
    await vi.advanceTimersByTimeAsync(20_000);
    assert.deepEqual(await beat, { kind: 'unreachable', reason: 'no answer within 10000 ms' });
  } finally {
    vi.useRealTimers();
  }
});

test('only a 4xx that a repetition would get again is a refusal', async () => {
  for (const status of [410, 415, 422]) {
    service.answer = json(status, { detail: 'No.' });
    assert.deepEqual(await api.getRun('r'), { kind: 'refused', status, detail: 'No.' });
  }
  for (const status of [408, 425, 429, 500, 502, 503, 504]) {
    service.answer = json(status, { detail: 'Later.' });
    assert.deepEqual(await api.getRun('r'), {
      kind: 'unreachable',
      reason: `HTTP ${status}: Later.`,
      status,
    });
  }
});

test('a page in answer to a report may refuse its bytes, but not one that asks for a login or finds no route', async () => {
  const bytes = Buffer.byteLength('{"type":"COMPLETED","msg":""}');
  const told: unknown[] = [];
  for (const status of [400, 403, 406, 413, 401, 404, 407, 408, 425, 429, 502, 302]) {
    service.answer = () => new Response('<html>no</html>', { status });
    const answer = await api.postEvent('r', { type: 'COMPLETED', msg: '' }, REPORTER);
    told.push(answer.kind === 'unreachable' ? answer.refusedBytes : answer);
  }
  assert.deepEqual(told, [...Array<number>(4).fill(bytes), ...Array<undefined>(8).fill(undefined)]);
});

test('reads Retry-After', async () => {
  for (const [header, seconds] of [
    ['7', 7],
    ['Wed, 21 Oct 2015 07:28:00 GMT', undefined],
  ] as const) {
    const headers = { 'Retry-After': header };
    service.answer = () => Response.json({ detail: 'Later.' }, { status: 503, headers });
    const given = await api.getRun('r');
    assert.equal(given.kind === 'unreachable' && given.retryAfterSeconds, seconds);
  }
});

describe('a poll of a run', () => {
  test('that has not changed answers what was read before', async () => {
    const cancelled = tagged('"2"', { ...SHOWN_RUN, state: 'CANCELLED' });
    const polls = await pollsWith([tagged('"1"', SHOWN_RUN), notModified, cancelled, notModified]);
    assert.deepEqual(polls.read, ['RUNNING', 'RUNNING', 'CANCELLED', 'CANCELLED']);
    assert.deepEqual(polls.tags, [null, '"1"', '"1"', '"2"']);
    assert.deepEqual((await pollsWith([notModified])).read, ['unreachable']);
  });

  test('keeps no run without an entity tag, of unknown size or of a large one, and a thousand others', async () => {
    const large = { ...SHOWN_RUN, inputs: { filler: 'x'.repeat(20_000) } };
    for (const answer of [json(200, SHOWN_RUN), tagged('"1"', SHOWN_RUN, null), tagged('"1"', large)])
      assert.deepEqual((await pollsWith([answer, answer])).tags, [null, null]);
    const ids = [...Array.from({ length: 1001 }, (_, n) => `r${n}`), 'r1', 'r0'];
    const many = ids.map((id) => tagged(`"${id}"`, { ...SHOWN_RUN, id }));
    assert.deepEqual((await pollsWith(many, ids)).tags.slice(1001), ['"r1"', null]);
  });
});

function tagged(etag: string, run: object, length: number | null = JSON.stringify(run).length): Given {
  const headers = { ETag: etag, ...(length !== null && { 'Content-Length': String(length) }) };
  return () => new Response(JSON.stringify(run), { headers });
}

function notModified(): Response {
  return new Response(null, { status: 304 });
}

/** What polls of a run read from these answers, and the entity tags that they sent. */
async function pollsWith(answers: readonly Given[], ids: readonly string[] = answers.map(() => 'r')) {
  const waiting = [...answers];
  const polled = new StubService(() => waiting.shift()?.() ?? assert.fail('no answer is left'));
  const read: string[] = [];
  for (const id of ids) {
    const answer = await polled.api.getRun(id);
    read.push(answer.kind === 'ok' ? answer.value.state : answer.kind);
  }
  return { read, tags: polled.received.map(({ headers }) => headers.get('If-None-Match')) };
}

/** Over a connection. */
describe('a request', () => {
  let onRequest: (response: ServerResponse, url?: string) => void;
  const server = createServer(({ url }, response) => onRequest(response, url));
  let baseUrl = '';
  beforeAll(async () => {
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const address = server.address();
    baseUrl = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  });
  afterAll(() => {
    server.close();
    server.closeAllConnections();
  });
  const connected = (maxBytes?: number) =>
    new HttpServiceApi({ baseUrl, apiKey: 'secret', ...(maxBytes !== undefined && { maxBytes }) });
  const beat = (timeoutMs: number) => connected().heartbeat(IDLE_REPORT, { ...CALL, timeoutMs });

  test('follows no redirect', async () => {
    const urls: (string | undefined)[] = [];
    onRequest = (response, url) => {
      urls.push(url);
      response.writeHead(307, { Location: '/elsewhere', 'Content-Type': 'application/json' });
      response.end('{"detail":"Later."}');
    };
    assert.deepEqual(await beat(20_000), { kind: 'unreachable', reason: 'HTTP 307: Later.', status: 307 });
    assert.deepEqual(urls, ['/workers/heartbeat']);
  });

  test('that is aborted closes its connection at once', async () => {
    const breakOff = new AbortController();
    const closed = new Promise<void>((resolve) => {
      onRequest = (response) => {
        response.once('close', resolve);
        breakOff.abort();
      };
    });
    const asked = connected().claim('w', 'k', { ...CALL, waitSeconds: 20, signal: breakOff.signal });
    assert.deepEqual(await asked, { kind: 'unreachable', reason: 'aborted' });
    await closed;
  });

  test('whose answer is silent, incomplete or cut off has none', async () => {
    onRequest = () => undefined;
    assert.deepEqual(await beat(100), { kind: 'unreachable', reason: 'no answer within 100 ms' });
    onRequest = (response) => void response.writeHead(200).write('{"id":');
    assert.equal((await beat(100)).kind, 'unreachable');
    onRequest = (response) => void response.destroy();
    assert.equal((await beat(20_000)).kind, 'unreachable');
  });

  test('that finds no service says why', async () => {
    const absent = new HttpServiceApi({ baseUrl: 'http://127.0.0.1:1', apiKey: 'secret' });
    const nobody = await absent.claim('w', 'k', CALL);
    assert.match(nobody.kind === 'unreachable' ? nobody.reason : '', /ECONNREFUSED|bad port/);
  });

  test('reads no more of an answer than the limit, plain or compressed', async () => {
    const limited = connected(100_000);
    const tooLarge = /larger than SERVICE_WORKER_MAX_ANSWER_BYTES \(100000\)/;
    for (const large of [flood(200), flood(404), bomb]) {
      onRequest = large;
      const got = await limited.getRun('r');
      assert.match(got.kind === 'unreachable' ? got.reason : '', tooLarge);
    }
    onRequest = (response) => response.end(JSON.stringify(SHOWN_RUN));
    assert.equal((await limited.getRun('r')).kind, 'ok');
  });
});

/** An answer without an end. */
function flood(status: number) {
  return (response: ServerResponse): void => {
    response.writeHead(status, { 'Content-Type': 'application/json' });
    const more = (): void => {
      if (!response.destroyed) response.write('[0],'.repeat(10_000), () => setImmediate(more));
    };
    more();
  };
}

function bomb(response: ServerResponse): void {
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' });
  response.end(gzipSync(JSON.stringify({ ...SHOWN_RUN, inputs: { a: 'x'.repeat(1_000_000) } })));
}
