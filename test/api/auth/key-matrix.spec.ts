import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { makeApiKey } from '../../../src/auth/api-key.js';
import { rows } from '../../../src/database/sql/sql.js';
import { expireKey, issueKey, mistype, revokeKey } from '../../support/app/api-keys.js';
import {
  FOR_BOUND_KEYS,
  ROUTE_ACCESS,
  documentedRoutes,
  type TestScope,
} from '../../support/app/route-access.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const SCOPES = ['admin', 'client', 'worker', 'metrics'] as const;

/** What a key is worth: nothing, its scopes, or those of a worker key that is bound to another worker. */
type Worth = 'missing' | 'invalid' | 'bound' | readonly TestScope[];

interface KeyCase {
  readonly title: string;
  readonly key: string | null;
  readonly worth: Worth;
}

/** What a caller without the right to a route must be told; undefined for one who has it. */
function refusalOf(route: string, worth: Worth): { status: number; detail: string } | undefined {
  const access = ROUTE_ACCESS[route];
  if (access === undefined) throw new Error(`${route} is not in the table of routes`);
  if (access === 'public') return undefined;
  if (worth === 'missing') return { status: 401, detail: 'Missing API key' };
  if (worth === 'invalid') return { status: 401, detail: 'Invalid API key' };
  if (worth === 'bound') return refusalOfBound(route);
  if (access === 'any' || worth.includes('admin') || access.some((scope) => worth.includes(scope))) {
    return undefined;
  }
  return { status: 403, detail: `API key lacks scope '${access[0] ?? 'admin'}'` };
}

function refusalOfBound(route: string): { status: number; detail: string } | undefined {
  if (FOR_BOUND_KEYS.has(route)) {
    const namesWorker =
      /^(?:DELETE \/workers\/\{worker_id\}|GET \/workers\/\{worker_id\}\/runs|POST \/workers\/\{worker_id\}\/claim)$/.test(
        route,
      );
    return namesWorker ? { status: 403, detail: "API key is not bound to worker 'x'" } : undefined;
  }
  const isForWorkers = ROUTE_ACCESS[route] === 'any' || ROUTE_ACCESS[route]?.includes('worker');
  const lacks = `API key lacks scope '${ROUTE_ACCESS[route]?.[0] ?? 'admin'}'`;
  return {
    status: 403,
    detail: isForWorkers ? 'API key is bound to workers and cannot use this route' : lacks,
  };
}

describe('every route of the OpenAPI document, crossed with every kind of key', () => {
  const service = useTestApp();
  let routes: string[];
  const cases: KeyCase[] = [];
  const issued: string[] = [];
  const answers: string[] = [];

  beforeAll(async () => {
    const issue = async (scopes: readonly TestScope[]) => {
      const made = await issueKey(service, scopes);
      issued.push(made.key);
      return made;
    };
    routes = documentedRoutes().map(([route]) => route);
    const expired = await issue(['admin']);
    await expireKey(service, expired);
    const revoked = await issue(['admin']);
    assert.equal((await service.send('GET', '/metrics', { key: revoked.key })).status, 200);
    await revokeKey(service, revoked);
    const good = await issue(['admin']);
    cases.push(
      { title: 'no key', key: null, worth: 'missing' },
      { title: 'a wrong key', key: 'nobody was given this', worth: 'invalid' },
      { title: 'a wrong key of the right form', key: makeApiKey('admin'), worth: 'invalid' },
      { title: 'a mistyped key', key: mistype(good.key), worth: 'invalid' },
      { title: 'the prefix of a key', key: good.prefix, worth: 'invalid' },
      { title: 'an expired key', key: expired.key, worth: 'invalid' },
      { title: 'a revoked key', key: revoked.key, worth: 'invalid' },
    );
    for (const scope of SCOPES) {
      cases.push({ title: `${scope} by settings`, key: KEYS[scope], worth: [scope] });
      cases.push({ title: `${scope} by database`, key: (await issue([scope])).key, worth: [scope] });
    }
    const bound = await issueKey(service, ['worker'], { worker_ids: ['other-*'] });
    issued.push(bound.key);
    cases.push({ title: 'a key bound to another worker', key: bound.key, worth: 'bound' });
    cases.push({
      title: 'client and worker by database',
      key: (await issue(['client', 'worker'])).key,
      worth: ['client', 'worker'],
    });
  });

  /** Sends an empty request; the body of an answer to somebody who was let in may never end. */
  async function knock(route: string, headers: Readonly<Record<string, string>>): Promise<Response> {
    const [method = '', path = ''] = route.split(' ');
    const url = service.url + path.replaceAll(/\{\w+\}/g, 'x');
    const abort = new AbortController();
    const response = await fetch(url, { method, headers, signal: abort.signal });
    if (response.status < 400) {
      abort.abort();
      return response;
    }
    const text = await response.text();
    answers.push(text);
    return new Response(text, { status: response.status, headers: response.headers });
  }

  async function check(route: string, { title, key, worth }: KeyCase): Promise<void> {
    const expected = refusalOf(route, worth);
    const carriers: readonly Readonly<Record<string, string>>[] =
      key === null ? [{}] : [{ 'X-API-Key': key }, { Authorization: `Bearer ${key}` }];
    for (const headers of carriers) {
      const response = await knock(route, headers);
      const what = `${route} with ${title} in ${Object.keys(headers).join() || 'no header'}`;
      if (expected) {
        const { status, detail } = expected;
        assert.deepEqual([response.status, await response.json()], [status, { detail }], what);
      } else {
        assert.ok(![401, 403, 429].includes(response.status) && response.status < 500, what);
      }
    }
  }

  test('lets in whom it must and says to everybody else why not', async () => {
    assert.ok(routes.length >= 19 && cases.length === 17);
    for (const route of routes) for (const each of cases) await check(route, each);
  });

  test('leaves no key in an answer, in the log or in any table', async () => {
    const { send, dataSource, logged } = service;
    const key = issued.at(-1) ?? '';
    await send('POST', '/runs', { key, body: { image: 'i' }, headers: { 'Idempotency-Key': 'once' } });
    await send('POST', '/runs', { key, body: '{' });
    await send('GET', `/runs/${key}`, { key });
    await send('GET', `/nope?key=${key}`, { key });
    const list = await send('GET', '/api-keys');
    assert.equal(list.body.length, issued.length);
    answers.push(list.text, (await send('GET', '/metrics')).text, (await send('GET', '/audit')).text);

    const tables = await rows<{ name: string }>(
      dataSource,
      `select tablename as name from pg_tables where schemaname = 'public'`,
    );
    assert.ok(tables.some(({ name }) => name === 'api_keys'));
    const dumps = await Promise.all(
      tables.map(({ name }) => rows<{ line: string }>(dataSource, `select t::text as line from "${name}" t`)),
    );
    const everything = [...answers, JSON.stringify(logged), ...dumps.flat().map(({ line }) => line)].join(
      '\n',
    );
    assert.ok(answers.length > 400 && dumps.flat().length > issued.length && logged.length > 10);
    const secrets = [...issued, ...Object.values(KEYS), ...issued.map((secret) => secret.slice(-32))];
    for (const secret of secrets) assert.ok(!everything.includes(secret));
  });
});
