import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { get, JSON_HEADER, nested, post, postChunks } from '../../support/http/edge-requests.js';
import { HOSTILE_BODIES } from '../../support/http/hostile-bodies.js';
import { HOSTILE_REQUESTS } from '../../support/http/hostile-requests.js';
import { startEdge } from '../../support/app/http-edge-app.js';
import type { EdgeApp } from '../../support/app/http-edge-app.js';
import { RawConnection, requestText } from '../../support/http/raw-http.js';
import type { RawAnswer } from '../../support/http/raw-http.js';

interface ErrorAnswer {
  readonly detail: string;
  readonly errors?: readonly string[];
}

/** The error body, after checking that it has the one shape. */
function errorOf({ headers, body }: RawAnswer): ErrorAnswer {
  assert.match(headers['content-type'] ?? '', /^application\/json\b/);
  const parsed: unknown = JSON.parse(body);
  assert.ok(typeof parsed === 'object' && parsed !== null && 'detail' in parsed, body);
  const { detail } = parsed;
  assert.ok(typeof detail === 'string' && detail !== '');
  const extra = Object.keys(parsed).filter((key) => key !== 'detail');
  if (extra.length === 0) return { detail };
  assert.deepEqual(extra, ['errors']);
  const errors: unknown = 'errors' in parsed ? parsed.errors : undefined;
  assert.ok(Array.isArray(errors) && errors.every((line) => typeof line === 'string'));
  return { detail, errors };
}

describe('the HTTP edge', () => {
  let edge: EdgeApp;
  beforeAll(async () => {
    edge = await startEdge();
  });
  afterAll(() => edge.app.close());

  async function ask(text: string | Uint8Array): Promise<RawAnswer> {
    const connection = await RawConnection.open(edge.port);
    try {
      return await connection.send(text).next();
    } finally {
      connection.destroy();
    }
  }

  for (const [title, request, status, detail, errors] of [...HOSTILE_BODIES, ...HOSTILE_REQUESTS]) {
    it(`refuses ${title} with ${status}`, async () => {
      const { calls } = edge.state;
      const answer = await ask(request);
      assert.equal(answer.status, status, answer.body);
      const error = errorOf(answer);
      if (typeof detail === 'string') assert.equal(error.detail, detail);
      else assert.match(error.detail, detail);
      assert.deepEqual(error.errors, errors);
      assert.equal(edge.state.calls, calls, 'no handler ran');
      assert.deepEqual(edge.state.errors, [], 'nothing was logged as an error');
    });
  }

  const taken: [title: string, request: string, status: number, body: unknown][] = [
    ['a body', post('{"image":"a","priority":2}'), 201, { image: 'a', priority: 2 }],
    [
      'a charset',
      post('{"image":"a"}', { 'Content-Type': 'Application/JSON; charset="UTF-8"' }),
      201,
      { image: 'a' },
    ],
    ['identity', post('{"image":"a"}', { 'Content-Encoding': 'identity' }), 201, { image: 'a' }],
    ['a null', post('{"image":"a","priority":null}'), 201, { image: 'a' }],
    ['64 levels', post(nested(64)), 201, JSON.parse(nested(64))],
    ['chunks', postChunks(`8\r\n{"image"\r\n5\r\n:"a"}\r\n0\r\n\r\n`), 201, { image: 'a' }],
    [
      'unknown fields of a heartbeat',
      requestText('POST', '/beat', JSON_HEADER, '{"id":"w","new":{"x":[1]}}'),
      200,
      { id: 'w' },
    ],
    [
      'a body nobody reads',
      requestText('POST', '/items/1/act', { 'Content-Type': 'text/plain' }, 'whatever'),
      200,
      { id: '1' },
    ],
    [
      'query parameters',
      get('/list?limit=5&image=a%2Bb+c%C3%A9&created[gte]=7&'),
      200,
      { limit: 5, image: 'a+b cé', 'created[gte]': 7 },
    ],
    ['an encoded operator', get('/list?created%5Bgte%5D=7'), 200, { 'created[gte]': 7 }],
    ['a bare question mark', get('/list?'), 200, {}],
    ['a named parameter', get('/named?x=1'), 200, { x: '1' }],
    ['an absolute target', get('http://test/list?limit=1'), 200, { limit: 1 }],
    ['HTTP/1.0', 'GET /list HTTP/1.0\r\n\r\n', 200, {}],
    [
      'an upgrade it ignores',
      requestText('GET', '/list', { Connection: 'Upgrade', Upgrade: 'websocket' }),
      200,
      {},
    ],
  ];
  for (const [title, request, status, body] of taken) {
    it(`takes ${title}`, async () => {
      const answer = await ask(request);
      assert.equal(answer.status, status, answer.body);
      assert.deepEqual(JSON.parse(answer.body), body);
    });
  }

  it('passes prototype-like keys of free-form objects through', async () => {
    const inputs = '{"__proto__":{"x":1},"constructor":{"prototype":2},"hasOwnProperty":null}';
    const answer = await ask(post(`{"image":"a","inputs":${inputs}}`));
    assert.equal(answer.body, `{"image":"a","inputs":${inputs}}`);
  });
});
