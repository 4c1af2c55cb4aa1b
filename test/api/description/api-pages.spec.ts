import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readdirSync, readlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { runInNewContext } from 'node:vm';
import { describe, test } from 'vitest';
import { EXAMPLE_RUN_ID } from '../../../src/common/http/api-examples.js';
import { RawConnection, requestText } from '../../support/http/raw-http.js';
import { skipFor } from '../../support/skip.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('the pages of the API description', () => {
  const service = useTestApp();

  async function ask(path: string, headers: Readonly<Record<string, string>> = {}) {
    return service.send('GET', path, { key: null, headers });
  }

  for (const page of ['/docs', '/docs/']) {
    test(`load only files that exist, below any prefix of a proxy: ${page}`, async () => {
      const { status, headers, text } = await ask(page);
      assert.deepEqual([status, headers.get('content-type')], [200, 'text/html; charset=utf-8']);
      const links = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link = '']) => link);
      assert.equal(links.length, 4);
      for (const link of links) {
        assert.match(link, /^\.\//);
        assert.equal((await ask(new URL(link, `${service.url}${page}`).pathname)).status, 200, link);
      }
    });
  }

  test('show the description, and keep no key in the browser', async () => {
    const { text } = await ask('/docs/swagger-ui-init.js');
    assert.match(text, /'\.\.\/docs-json'/);
    assert.match(text, /persistAuthorization: false/);
    const [json, yaml] = [await ask('/docs-json'), await ask('/docs-yaml')];
    assert.equal(json.headers.get('content-type'), 'application/json; charset=utf-8');
    assert.equal(json.body.info.title, 'Longshore');
    assert.equal(yaml.text, json.text);
  });

  test('put the id of the last answered run in place of the example', async () => {
    const { text } = await ask('/docs/swagger-ui-init.js');
    const window: { onload?: () => void } = {};
    let options: Record<string, (value: object) => object> = {};
    runInNewContext(text, {
      URL,
      window,
      document: { currentScript: { src: `${service.url}/docs/swagger-ui-init.js` } },
      SwaggerUIBundle: (given: typeof options) => (options = given),
    });
    window.onload?.();
    const path = `/runs/${EXAMPLE_RUN_ID}/cancel`;
    const sent = (): unknown[] => {
      const request = { url: path, body: JSON.stringify({ ids: [EXAMPLE_RUN_ID] }) };
      return Object.values({ ...options['requestInterceptor']?.(request) });
    };
    assert.deepEqual(sent(), [path, JSON.stringify({ ids: [EXAMPLE_RUN_ID] })]);
    for (const [method, url, body] of [
      ['POST', '/runs', { image: 'i' }],
      ['POST', '/runs/batch', { runs: [{ image: 'i' }] }],
      ['GET', '/runs', undefined],
    ] as const) {
      const answer = await service.send(method, url, { body });
      const { id } = (await service.send('GET', '/runs?limit=1')).body.data[0];
      options['responseInterceptor']?.({ body: answer.body });
      options['responseInterceptor']?.({ body: { detail: 'Not found' } });
      assert.deepEqual(sent(), [`/runs/${id}/cancel`, JSON.stringify({ ids: [id] })]);
    }
  });

  test('are asked for anew and cost a 304', async () => {
    for (const path of ['/docs', '/docs-json', '/docs/swagger-ui-bundle.js']) {
      const first = await ask(path);
      assert.equal(first.headers.get('cache-control'), 'no-cache');
      // fetch would ask every cache on the way to stay out of it.
      const connection = await RawConnection.open(Number(new URL(service.url).port));
      connection.send(requestText('GET', path, { 'If-None-Match': first.headers.get('etag') ?? '' }));
      const { status, body } = await connection.next();
      assert.deepEqual([status, body], [304, ''], path);
      connection.destroy();
    }
  });

  test('are the named files and no others of the package', async () => {
    for (const name of [
      'package.json',
      'swagger-ui-bundle.js.map',
      'swagger-ui.css.map',
      'swagger-ui-es-bundle.js',
      'absolute-path.js',
      'README.md',
      'LICENSE',
      '..%2fpackage.json',
    ]) {
      const { status, body } = await ask(`/docs/${name}`);
      assert.deepEqual([status, body], [404, { detail: 'Not found' }], name);
    }
  });

  test(
    'open no file, however many requests are pipelined by clients that read nothing',
    skipFor(existsSync('/proc/self/fd') ? false : 'needs /proc'),
    async () => {
      const port = Number(new URL(service.url).port);
      const requests = ['swagger-ui-bundle.js', 'swagger-ui.css', 'swagger-ui-bundle.js.map']
        .map((name) => requestText('GET', `/docs/${name}`))
        .join('')
        .repeat(100);
      const clients = Array.from({ length: 5 }, () => connect(port, '127.0.0.1').setNoDelay(true));
      await Promise.all(
        clients.map(async (client) => {
          client.write(requests);
          // Something has arrived; nothing is read.
          await once(client, 'readable');
        }),
      );
      const files = readdirSync('/proc/self/fd').flatMap((fd) => {
        try {
          return [readlinkSync(`/proc/self/fd/${fd}`)];
        } catch {
          return [];
        }
      });
      assert.deepEqual(
        files.filter((file) => file.includes('swagger')),
        [],
      );
      for (const client of clients) client.destroy();
    },
  );
});
