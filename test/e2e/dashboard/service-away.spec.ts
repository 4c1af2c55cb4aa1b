import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { registerWorkers } from '../../support/browser/browser-workers.js';
import { NO_BROWSER, openPage } from '../../support/browser/browser.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

const AWAY = 'Cannot reach the service, trying again.';

describe('the dashboard, when the service goes away', skipFor(NO_BROWSER), () => {
  test('says so, keeps what it shows, and goes on by itself when the service is back', async () => {
    const service = await startService();
    const { url, adminKey, dataDir } = service;
    const steps = new RunSteps(senderTo(url, adminKey));
    await registerWorkers(steps, 3);
    const opened = await openPage({ url, path: '/workers', apiKey: adminKey });
    const { page } = opened;
    await page.getByRole('button', { name: /^worker-3/ }).waitFor();

    await service.stop();
    await page.getByText(AWAY).waitFor();
    await page.getByText('Connecting', { exact: true }).waitFor();
    assert.equal(await page.getByRole('button', { name: /^worker-3/ }).count(), 1);

    const again = await startService({ dataDir, env: { SERVICE_PORT: new URL(url).port } });
    await page.getByText(AWAY).waitFor({ state: 'detached' });
    await registerWorkers(new RunSteps(senderTo(url, adminKey)), 4);
    await page.getByRole('button', { name: /^worker-4/ }).waitFor();
    await page.getByText('Live', { exact: true }).waitFor();
    opened.expectErrors(/ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|status of 503/);
    await opened.close();
    await again.stop();
  });

  test('lets one in who came while it was away', async () => {
    const service = await startService();
    const { url, adminKey, dataDir } = service;
    const opened = await openPage({ url });
    const { page } = opened;
    await page.getByLabel('API key').fill(adminKey);
    await service.stop();
    await page.keyboard.press('Enter');
    await page.getByText('The service cannot be reached').waitFor();
    await page.getByText(AWAY).waitFor();
    const again = await startService({ dataDir, env: { SERVICE_PORT: new URL(url).port } });
    await page.getByText(AWAY).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('link', { name: 'Workers' }).waitFor();
    opened.expectErrors(/ERR_|status of 503/);
    await opened.close();
    await again.stop();
  });
});
