import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { NO_BROWSER, openPage } from '../../support/browser/browser.js';
import { LogSteps } from '../../support/browser/run-page-scene.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

// The prefix holds what the dashboard's own paths hold.
const PREFIX = '/tools/ui/runs';

describe('behind a proxy that serves the service under a prefix', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let proxy: Server;
  let url: string;
  /** Paths outside of the prefix that were asked for. */
  const outside: string[] = [];

  beforeAll(async () => {
    service = await startService();
    proxy = createServer((asked, answer) => {
      const { method, headers, url: path = '/' } = asked;
      if (!path.startsWith(`${PREFIX}/`)) {
        outside.push(path);
        answer.writeHead(404).end();
        return;
      }
      const inner = new URL(path.slice(PREFIX.length), service.url);
      const sent = request(inner, { method, headers }, (given) => {
        answer.writeHead(given.statusCode ?? 502, given.headers);
        given.pipe(answer);
      });
      sent.on('error', () => answer.destroy());
      answer.on('close', () => sent.destroy());
      asked.pipe(sent);
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const address = proxy.address();
    assert.ok(typeof address === 'object' && address !== null);
    url = `http://127.0.0.1:${address.port}${PREFIX}`;
  });
  afterAll(async () => {
    proxy?.closeAllConnections();
    proxy?.close();
    await service?.stop();
  });

  test('the dashboard opens at every address, calls the API and follows a log', async () => {
    const steps = new RunSteps(senderTo(service.url, service.adminKey));
    const { id } = await steps.running();
    const logs = new LogSteps(steps);
    await logs.print({ run: id, lines: ['the first line'], isLast: false });

    const { page } = await openPage({ url, path: '', apiKey: service.adminKey });
    await page.getByRole('heading', { name: 'Overview', exact: true }).waitFor();
    assert.equal(new URL(page.url()).pathname, `${PREFIX}/ui/`);
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    assert.equal(new URL(page.url()).pathname, `${PREFIX}/ui/runs`);
    await page.locator(`a[href="${PREFIX}/ui/runs/${id}"]`).first().click();
    await page.reload();
    await page.getByText('the first line').waitFor();
    await logs.print({ run: id, lines: ['a line that follows'], isLast: false });
    await page.getByText('a line that follows').waitFor();
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    await page.waitForURL(`${url}/ui/runs`);
    // The browser may ask for the icon as late as now.
    const icon = await page.evaluate<string>('document.querySelector("link[rel=icon]").href');
    assert.equal(icon, `${url}/ui/favicon.svg`);
    await page.goto(`${url}/ui/definitions`);
    await page.getByText(`curl ${url}/definitions`).waitFor();
    assert.deepEqual(outside, []);
  });

  test('Swagger UI calls the API', async () => {
    const { page } = await openPage({ url, path: '/' });
    await page.goto(`${url}/docs`);
    const operation = page.locator('#operations-operations-getHealth');
    await operation.locator('.opblock-summary-control').click();
    await operation.getByRole('button', { name: 'Try it out' }).click();
    await operation.getByRole('button', { name: 'Execute' }).click();
    await operation.locator('.live-responses-table .response-col_status', { hasText: '200' }).waitFor();
    assert.deepEqual(outside, []);
  });
});
