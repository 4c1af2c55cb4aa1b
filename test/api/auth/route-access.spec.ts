import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { readPage } from '../../support/docs/doc-pages.js';
import {
  FOR_BOUND_KEYS,
  ROUTE_ACCESS,
  documentedRoutes,
  type DocumentedRoute,
} from '../../support/app/route-access.js';
import { KEYS, startTestApp, type TestApp } from '../../support/app/test-app.js';

const WRONG_KEY = 'a-key-that-nobody-was-given';
const MISSING = { status: 401, body: { detail: 'Missing API key' } };
const INVALID = { status: 401, body: { detail: 'Invalid API key' } };

type Headers = Readonly<Record<string, string>>;

interface Verdict {
  readonly status: number;
  /** The body of a refusal; routes that let the caller in may answer for ever, so their body is not read. */
  readonly body?: unknown;
}

describe('access to the routes of the OpenAPI document', () => {
  let service: TestApp;
  let routes: DocumentedRoute[];
  const refusals: string[] = [];

  beforeAll(async () => {
    service = await startTestApp();
    routes = documentedRoutes();
    assert.ok(routes.length >= 13);
  });
  afterAll(() => service.close());

  async function knock(
    route: string,
    headers: Readonly<Record<string, string>>,
    method?: string,
  ): Promise<Verdict> {
    const [verb = '', path = ''] = route.split(' ');
    const abort = new AbortController();
    const response = await fetch(service.url + path.replaceAll(/\{\w+\}/g, 'x'), {
      method: method ?? verb,
      headers,
      signal: abort.signal,
    });
    const { status } = response;
    const refused = status === 401 || status === 403;
    if (!refused || method === 'HEAD') {
      abort.abort();
      return { status };
    }
    assert.match(response.headers.get('content-type') ?? '', /^application\/json\b/);
    const text = await response.text();
    refusals.push(text);
    return { status, body: JSON.parse(text) };
  }

  test('is laid down here for each of them', () => {
    const unknown = routes.map(([route]) => route).filter((route) => !(route in ROUTE_ACCESS));
    assert.deepEqual(unknown, []);
  });

  test('is what docs/keys.md says, route by route', async () => {
    const { text } = await readPage('docs/keys.md');
    const lines = text.matchAll(/^\| `([A-Z]+ \/[^`]*)` *\|(.*)\|$/gm);
    const table = new Map(
      Array.from(lines, ([, route = '', cells = '']) => [route, cells.split('|').map((cell) => cell.trim())]),
    );
    const expected = routes.flatMap(([route]) => {
      const access = ROUTE_ACCESS[route] ?? [];
      if (access === 'public') return [];
      const has = (scope: 'client' | 'worker' | 'metrics'): boolean =>
        access === 'any' || access.includes(scope);
      const columns = [has('client'), has('worker'), FOR_BOUND_KEYS.has(route), has('metrics')];
      return [[route, columns.map((may) => (may ? 'yes' : ''))]] as const;
    });
    assert.deepEqual(table, new Map(expected));
  });

  test('is documented: every route but the public ones asks for the API key, in either header', () => {
    for (const [route, { security }] of routes) {
      const expected = ROUTE_ACCESS[route] === 'public' ? [] : [{ 'api-key': [] }, { bearer: [] }];
      assert.deepEqual(security, expected, route);
    }
  });

  test('needs a key, in either header, that is one of ours', async () => {
    for (const [route] of routes) {
      if (ROUTE_ACCESS[route] === 'public') continue;
      assert.deepEqual(await knock(route, {}), MISSING, route);
      const wrong: readonly Headers[] = [
        { 'X-API-Key': WRONG_KEY },
        { Authorization: `Bearer ${WRONG_KEY}` },
        { Authorization: `Basic ${Buffer.from(`admin:${KEYS.admin}`).toString('base64')}` },
        { Authorization: KEYS.admin },
        { 'X-API-Key': KEYS.admin.toUpperCase() },
        { 'X-API-Key': `${KEYS.admin}, ${KEYS.admin}` },
        { 'X-API-Key': `Bearer ${KEYS.admin}` },
      ];
      for (const headers of wrong) {
        assert.deepEqual(await knock(route, headers), INVALID, `${route} ${JSON.stringify(headers)}`);
      }
    }
  });

  for (const scope of ['admin', 'client', 'worker'] as const) {
    test(`is what the scope ${scope} has, in either header`, async () => {
      for (const [route] of routes) {
        const access = ROUTE_ACCESS[route] ?? [];
        const allowed = typeof access === 'string' || scope === 'admin' || access.includes(scope);
        const lacking = typeof access === 'string' ? '' : (access[0] ?? 'admin');
        for (const headers of [
          { 'X-API-Key': KEYS[scope] },
          { Authorization: `Bearer ${KEYS[scope]}` },
          { Authorization: `bearer ${KEYS[scope]}` },
        ] as Headers[]) {
          const verdict = await knock(route, headers);
          if (allowed) assert.ok(verdict.status !== 401 && verdict.status !== 403, route);
          else
            assert.deepEqual(
              verdict,
              { status: 403, body: { detail: `API key lacks scope '${lacking}'` } },
              route,
            );
        }
      }
    });
  }

  test('is free where it is public, whatever key comes along', async () => {
    const open = Object.keys(ROUTE_ACCESS).filter((route) => ROUTE_ACCESS[route] === 'public');
    for (const route of [...open, 'GET /docs', 'GET /docs-json']) {
      for (const headers of [{}, { 'X-API-Key': WRONG_KEY }] as Headers[]) {
        assert.equal((await knock(route, headers)).status, 200, route);
      }
    }
  });

  test('to a HEAD is as to the GET', async () => {
    for (const [route] of routes) {
      if (!route.startsWith('GET ') || ROUTE_ACCESS[route] === 'public') continue;
      assert.equal((await knock(route, {}, 'HEAD')).status, 401, route);
    }
  });

  test('is no question where there is no route: 404 with and without a key', async () => {
    for (const route of ['GET /nope', 'POST /health', 'DELETE /runs/{id}', 'GET /Runs/{id}', 'GET /runs/']) {
      for (const headers of [{}, { 'X-API-Key': WRONG_KEY }, { 'X-API-Key': KEYS.admin }] as Headers[]) {
        assert.equal((await knock(route, headers)).status, 404, route);
      }
    }
  });

  test('leaves no key in an answer, in the log or in the database', async () => {
    const { send, dataSource, logged } = service;
    await send('POST', '/runs', { body: { image: 'i' }, key: KEYS.client });
    await send('POST', '/runs', { body: '{', key: KEYS.client });
    const tables = await rows<{ name: string }>(
      dataSource,
      `select tablename as name from pg_tables where schemaname = 'public'`,
    );
    const dumps = await Promise.all(
      tables.map(({ name }) => rows<object>(dataSource, `select * from "${name}"`)),
    );
    const everything = [...refusals, JSON.stringify(logged), JSON.stringify(dumps)].join('\n');
    assert.ok(refusals.length > 100 && dumps.flat().length > 0);
    for (const key of [...Object.values(KEYS), WRONG_KEY]) assert.ok(!everything.includes(key), key);
  });
});
