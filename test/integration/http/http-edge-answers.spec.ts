import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { startEdge } from '../../support/app/http-edge-app.js';
import type { EdgeApp } from '../../support/app/http-edge-app.js';
import { RawConnection, requestText } from '../../support/http/raw-http.js';

describe('answers of the HTTP edge', () => {
  let edge: EdgeApp;
  beforeAll(async () => {
    edge = await startEdge();
  });
  afterAll(() => edge.app.close());

  const fetchText = async (
    path: string,
    headers: Record<string, string> = {},
  ): Promise<[Response, string]> => {
    const response = await fetch(edge.url + path, { headers });
    return [response, await response.text()];
  };

  it('say nothing of a fault but that it happened, and log it once', async () => {
    const [response, body] = await fetchText('/fault');
    assert.equal(response.status, 500);
    assert.equal(body, '{"detail":"Internal server error"}');
    assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8');
    const [error, ...others] = edge.state.errors.splice(0);
    assert.ok(error instanceof Error && error.message.startsWith('select secret'));
    assert.deepEqual(others, []);
  });

  it('say that the database is not available', async () => {
    const [response, body] = await fetchText('/away');
    assert.equal(response.status, 503);
    assert.equal(response.headers.get('retry-after'), '1');
    assert.equal(body, '{"detail":"The database is not available"}');
    assert.deepEqual(edge.state.errors, []);
  });

  it('carry the lines of a refusal', async () => {
    const [response, body] = await fetchText('/refused');
    assert.equal(response.status, 400);
    assert.equal(body, '{"detail":"Refused","errors":["one","two"]}');
  });

  it('name the scheme with a 401', async () => {
    const [response, body] = await fetchText('/list', { 'x-deny': '1' });
    assert.equal(response.status, 401);
    assert.match(response.headers.get('www-authenticate') ?? '', /^Bearer/);
    assert.equal(body, '{"detail":"Missing API key"}');
  });

  it('are broken off when they fail half way', async () => {
    const connection = await RawConnection.open(edge.port);
    const rest = await connection.send(requestText('GET', '/half')).closed();
    assert.match(rest, /half/);
    assert.doesNotMatch(rest, /\r\n0\r\n\r\n$/);
    assert.equal(edge.state.errors.splice(0).length, 1);
  });

  it('carry a request id: the given one if it is plain, else a new one', async () => {
    const [given, body] = await fetchText('/items/1', { 'x-request-id': 'Abc-1._' });
    assert.equal(given.headers.get('x-request-id'), 'Abc-1._');
    assert.equal(body, '{"id":"1","requestId":"Abc-1._"}');
    for (const bad of ['a b', 'x'.repeat(65), '<script>', 'é']) {
      const [response] = await fetchText('/nope', { 'x-request-id': bad });
      assert.match(response.headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/);
    }
  });

  it('carry the security headers and nothing about the server', async () => {
    for (const path of ['/list', '/nope', '/docs']) {
      const [{ headers }] = await fetchText(path);
      assert.equal(headers.get('x-content-type-options'), 'nosniff');
      assert.equal(headers.get('x-frame-options'), 'DENY');
      assert.equal(headers.get('referrer-policy'), 'no-referrer');
      const policy = headers.get('content-security-policy') ?? '';
      assert.match(policy, /default-src 'none'/);
      assert.doesNotMatch(policy, /upgrade-insecure-requests/);
      for (const absent of ['x-powered-by', 'server', 'strict-transport-security', 'etag']) {
        assert.equal(path === '/docs' && absent === 'etag' ? null : headers.get(absent), null, absent);
      }
    }
  });

  it('let Swagger UI load what it needs', async () => {
    const [page, html] = await fetchText('/docs');
    assert.equal(page.status, 200);
    const scripts = [...html.matchAll(/<script([^>]*)>([^<]*)/g)];
    assert.ok(scripts.length > 0);
    for (const [, attributes = '', inline = ''] of scripts) {
      assert.equal(inline.trim(), '', 'no inline script, which the policy forbids');
      const source = /src="([^"]+)"/.exec(attributes)?.[1] ?? '';
      const [script] = await fetchText(new URL(source, `${edge.url}/docs`).pathname);
      assert.equal(script.status, 200, source);
    }
    const [description, json] = await fetchText('/docs-json');
    assert.equal(description.status, 200);
    assert.match(json, /"openapi":/);
  });
});
