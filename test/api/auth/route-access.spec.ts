import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { readPage } from '../../support/docs/doc-pages.js';
import {
  FOR_BOUND_KEYS,
  ROUTE_ACCESS,
  documentedRoutes,
  type DocumentedRoute,
} from '../../support/app/route-access.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('access to the routes of the OpenAPI document', () => {
  const service = useTestApp();
  let routes: DocumentedRoute[];

  beforeAll(() => {
    routes = documentedRoutes();
    assert.ok(routes.length >= 13);
  });

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

  test('to a HEAD is as to the GET', async () => {
    for (const [route] of routes) {
      if (!route.startsWith('GET ') || ROUTE_ACCESS[route] === 'public') continue;
      const path = route.slice('GET '.length).replaceAll(/\{\w+\}/g, 'x');
      assert.equal((await service.send('HEAD', path, { key: null })).status, 401, route);
    }
  });
});
