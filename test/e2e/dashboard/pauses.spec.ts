import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

describe('pauses in the dashboard', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let send: Send;

  beforeAll(async () => {
    service = await startService();
    send = senderTo(service.url, service.adminKey);
  });

  const show = (options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, path: '/workers', apiKey: service.adminKey, ...options });

  test('an admin pauses runs on the page of workers, reads so on every page, and resumes them', async () => {
    const opened = await show();
    const { page } = opened;
    await page.getByRole('button', { name: 'Pause runs' }).click();
    const dialog = page.getByRole('dialog', { name: 'Pause runs' });
    await dialog.getByLabel('Name').fill('move');
    await dialog.getByLabel('Runs').selectOption('label');
    await dialog.getByLabel('Values').fill('team=vision, stage');
    await dialog.getByRole('button', { name: 'Pause', exact: true }).click();
    await dialog.getByRole('alert').getByText('reason must be').waitFor();
    await opened.checkAccessibility();
    await dialog.getByLabel('Reason').fill('The data centre moves.');
    await dialog.getByLabel('Until').fill('2h');
    await dialog.getByRole('button', { name: 'Pause', exact: true }).click();
    const banner = page.getByRole('list', { name: 'Pauses' }).getByRole('listitem');
    await banner
      .getByText(/^move: what has label team=vision or stage is paused until .* by .*: The data/)
      .waitFor();
    const [pause] = (await send('GET', '/pauses')).body;
    assert.deepEqual(pause.where, { label: ['team=vision', 'stage'] });
    await page.getByRole('link', { name: 'Definitions' }).click();
    await banner.getByText('The data centre moves.').waitFor();
    await banner.getByRole('button', { name: 'Resume move' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click();
    await banner.waitFor({ state: 'detached' });
    assert.deepEqual((await send('GET', '/pauses')).body, []);
    opened.expectErrors(/400/);
  });

  test('a client reads the banner, and has no button to pause or resume', async () => {
    const body = { where: { all: true }, reason: 'Maintenance.' };
    assert.equal((await send('PUT', '/pauses/all', { body })).status, 201);
    const { key } = (await send('POST', '/api-keys', { body: { name: 'reader', scopes: ['client'] } })).body;
    const { page } = await show({ apiKey: key });
    await page.getByText(/^all: all runs are paused by .*: Maintenance\.$/).waitFor();
    assert.equal(await page.getByRole('button', { name: /Resume|Pause runs/ }).count(), 0);
    await checkLooks(
      (look) => show({ ...look, path: '/' }),
      (looked) => looked.getByText('Maintenance.').waitFor(),
    );
    assert.equal((await send('DELETE', '/pauses/all')).status, 204);
  });
});
