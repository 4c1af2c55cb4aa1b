import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { get, type IncomingMessage } from 'node:http';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('the files of the dashboard', () => {
  const service = useTestApp();
  let page: string;
  let script: string;

  beforeAll(async () => {
    page = await (await fetch(`${service.url}/ui/`)).text();
    const name = /src="\.\/(assets\/[\w-]+\.js)"/.exec(page)?.[1] ?? assert.fail(page);
    script = `/ui/${name}`;
  });

  /** A request whose answer is not unpacked on the way. */
  async function fetchRaw(path: string, headers: Readonly<Record<string, string>> = {}) {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      get(service.url + path, { headers }, resolve).on('error', reject);
    });
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(Buffer.from(chunk));
    return { status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) };
  }

  test('need no key, and whatever key comes along is not looked at', async () => {
    for (const path of ['/ui/', '/ui/theme.js', '/ui/favicon.svg', script]) {
      for (const key of [null, 'no-such-key']) {
        assert.equal((await service.send('GET', path, { key })).status, 200, path);
      }
    }
  });

  test('are the page for every path that the page itself may know, with any query', async () => {
    const links = linksOf(page, '/ui/');
    assert.ok(links.includes(`/prefix${script}`), links.join());
    for (const path of [
      '/ui/runs',
      '/ui/runs/0190-x',
      '/ui/runs/0190-x/',
      '/ui//runs',
      '/ui/definitions/a.b',
      '/ui/runs?state=&x=1&x=2&y=/a/%zz',
    ]) {
      const { status, headers, text } = await service.send('GET', path, { key: null });
      assert.deepEqual([status, headers.get('content-type')], [200, 'text/html; charset=utf-8'], path);
      assert.deepEqual(linksOf(text, path), links, path);
      assert.equal(headers.get('cache-control'), 'no-cache');
    }
  });

  test('are found from the address without the slash', async () => {
    const { status, headers } = await fetchRaw('/ui');
    assert.deepEqual([status, headers.location], [308, 'ui/']);
    const root = await fetchRaw('/');
    assert.deepEqual([root.status, root.headers.location], [302, 'ui/']);
  });

  test('with a hash in their names may be kept for ever; the page is asked for anew and costs a 304', async () => {
    const asset = await fetchRaw(script);
    assert.equal(asset.headers['cache-control'], 'public, max-age=31536000, immutable');
    assert.equal(asset.headers['content-type'], 'text/javascript; charset=utf-8');
    const first = await fetchRaw('/ui/');
    const again = await fetchRaw('/ui/', { 'If-None-Match': String(first.headers.etag) });
    assert.deepEqual([again.status, again.body.length], [304, 0]);
    const other = await fetchRaw('/ui/', { 'If-None-Match': '"another"' });
    assert.equal(other.status, 200);
  });

  test('go out as the build packed them: brotli, gzip or plain, the same content', async () => {
    const plain = await fetchRaw(script);
    assert.equal(plain.headers['content-encoding'], undefined);
    const gzip = await fetchRaw(script, { 'Accept-Encoding': 'gzip' });
    assert.equal(gzip.headers['content-encoding'], 'gzip');
    assert.equal(gzip.headers.vary, 'Accept-Encoding');
    assert.ok(gunzipSync(gzip.body).equals(plain.body));
    const brotli = await fetchRaw(script, { 'Accept-Encoding': 'gzip, deflate, br' });
    assert.equal(brotli.headers['content-encoding'], 'br');
    assert.ok(brotliDecompressSync(brotli.body).equals(plain.body));
    assert.ok(brotli.body.length < plain.body.length / 2);
    const refused = await fetchRaw(script, { 'Accept-Encoding': 'br;q=0, gzip;q=0' });
    assert.equal(refused.headers['content-encoding'], undefined);
  });

  test('that are not there, above all outside the folder, are answered as any unknown route', async () => {
    for (const path of [
      '/ui/assets/gone.js',
      '/ui/assets/',
      '/ui/assets/..%2findex.html',
      `${script}.br`,
      script.replace('/ui/', '/UI/'),
    ]) {
      const { status, headers, body } = await fetchRaw(path);
      assert.deepEqual([status, JSON.parse(body.toString())], [404, { detail: 'Not found' }], path);
      assert.equal(headers['content-type'], 'application/json; charset=utf-8');
      assert.equal(headers['cache-control'], 'no-store');
    }
    for (const path of ['/ui/..%2f..%2fpackage.json', '/ui/%2e%2e/%2e%2e/package.json']) {
      assert.ok(!(await fetchRaw(path)).body.includes('"dependencies"'), path);
    }
  });

  test('may run no script and no style but their own, and ask nobody but this service', async () => {
    for (const path of ['/ui/', '/ui/runs', script]) {
      const policy = (await fetchRaw(path)).headers['content-security-policy'] ?? '';
      assert.match(String(policy), /default-src 'none'; script-src 'self'; style-src 'self';/);
      assert.match(String(policy), /connect-src 'self'/);
      assert.doesNotMatch(String(policy), /unsafe|https?:|\*/);
    }
    assert.doesNotMatch(page, /<script(?![^>]*\bsrc=)|<style| style=| on\w+=/);
  });

  test('leave other methods what they were: unknown routes', async () => {
    assert.equal((await service.send('POST', '/ui/', { key: null })).status, 404);
    assert.equal((await fetch(`${service.url}/ui/`, { method: 'HEAD' })).status, 200);
  });
});

/** Paths to which the links of a page at this path lead. */
function linksOf(html: string, path: string): string[] {
  const links = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link = '']) => link);
  for (const link of links) assert.match(link, /^\.\.?\//);
  return links.map((link) => new URL(link, `http://proxy/prefix${path}`).pathname);
}
