import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { RouteTable } from './route-table.js';

function tableOf(...routes: readonly [string, string][]): RouteTable<string> {
  const table = new RouteTable<string>();
  for (const [method, path] of routes) assert.ok(table.add(method, path, `${method} ${path}`), path);
  return table;
}

describe('the table of routes', () => {
  const table = tableOf(
    ['GET', '/'],
    ['GET', '/runs'],
    ['POST', '/runs'],
    ['GET', '/runs/:id'],
    ['POST', '/runs/:id/events'],
    ['POST', '/runs/batch'],
    ['GET', '/definitions/:name/runs/:other'],
    ['POST', '/workers/heartbeat'],
    ['POST', '/workers/:worker_id/claim'],
  );
  const found = (method: string, target: string): unknown => {
    const match = table.find(method, target);
    return match && [match.route, { ...match.params }];
  };

  test('finds a route by method and path, whatever the query', () => {
    assert.deepEqual(found('GET', '/'), ['GET /', {}]);
    assert.deepEqual(found('GET', '/?x=/runs'), ['GET /', {}]);
    assert.deepEqual(found('POST', '/runs?limit=1'), ['POST /runs', {}]);
    assert.equal(found('PUT', '/runs'), undefined);
  });

  test('gives parameters by name, decoded', () => {
    assert.deepEqual(found('GET', '/runs/a%2Fb'), ['GET /runs/:id', { id: 'a/b' }]);
    assert.deepEqual(found('GET', '/definitions/a/runs/b?c'), [
      'GET /definitions/:name/runs/:other',
      { name: 'a', other: 'b' },
    ]);
  });

  test('prefers the literal, and takes the parameter where the literal leads nowhere', () => {
    assert.deepEqual(found('POST', '/runs/batch'), ['POST /runs/batch', {}]);
    assert.deepEqual(found('GET', '/runs/batch'), ['GET /runs/:id', { id: 'batch' }]);
    assert.deepEqual(found('POST', '/workers/heartbeat/claim'), [
      'POST /workers/:worker_id/claim',
      { worker_id: 'heartbeat' },
    ]);
  });

  test('knows nothing of other cases, slashes at the end, empty segments, and what is no plain path', () => {
    for (const target of ['/Runs', '/runs/', '//runs', '/runs//events', '/runs/1/events/', 'runs', '*', '']) {
      assert.equal(found('POST', target), undefined, target);
    }
    for (const target of ['http://host/runs', '/runs#x', '/runs/%E0%A4%A', '/runs/%']) {
      assert.equal(found('GET', target), undefined, target);
    }
  });

  test('takes neither patterns nor a second route for the same place', () => {
    const own = tableOf(['GET', '/a/:id']);
    for (const path of ['/a/*rest', '/a/:id.json', '/a/{b}', '/a/(b|c)']) {
      assert.equal(own.add('GET', path, path), false, path);
    }
    assert.equal(own.add('GET', '/a/:other', 'x'), false);
  });

  test('finds every path that is built from a route of it, with the values that it was built with', () => {
    const segment = fc.string({ minLength: 1 }).filter((text) => !['batch', 'heartbeat'].includes(text));
    fc.assert(
      fc.property(segment, segment, (name, other) => {
        const [a, b] = [encodeURIComponent(name), encodeURIComponent(other)];
        assert.deepEqual(found('GET', `/definitions/${a}/runs/${b}`), [
          'GET /definitions/:name/runs/:other',
          { name, other },
        ]);
      }),
    );
  });
});
