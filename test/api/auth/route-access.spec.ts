import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { readPage } from '../../support/docs/doc-pages.js';
import {
  FOR_BOUND_KEYS,
  ROUTE_ACCESS,
  documentedRoutes,
  type DocumentedRoute,
} from '../../support/app/route-access.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

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
  const service = useTestApp();
  let routes: DocumentedRoute[];

  beforeAll(() => {
    routes = documentedRoutes();
    assert.ok(routes.length >= 13);
  });

  async function knock(route: string, headers: Headers, method?: string): Promise<Verdict> {
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
    return { status, body: await response.json() };
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

  test('to a HEAD is as to the GET', async () => {
    for (const [route] of routes) {
      if (!route.startsWith('GET ') || ROUTE_ACCESS[route] === 'public') continue;
      assert.equal((await knock(route, {}, 'HEAD')).status, 401, route);
    }
  });
});
