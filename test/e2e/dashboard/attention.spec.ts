import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

describe('what needs attention', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let steps: RunSteps;

  beforeAll(async () => {
    service = await startService({ env: { SERVICE_WORKER_TIMEOUT: '3600' } });
    const send = senderTo(service.url, service.adminKey);
    steps = new RunSteps(send);
    const definition = await send('POST', '/definitions', {
      body: { id: 'nightly', version: '1', image: 'image' },
    });
    assert.equal(definition.status, 201, definition.text);
    for (let n = 0; n < 3; n += 1) {
      await steps.heartbeat('w');
      const created = await send('POST', '/definitions/nightly/runs', { body: {} });
      assert.equal(created.status, 201, created.text);
      await steps.claimUntil(created.body.id);
      await steps.event(created.body.id, 'FAILED');
    }
    await steps.heartbeat('w', { not_claiming: [{ reason: 'disk_full', message: '' }] });
    await steps.heartbeat('other');
    for (let n = 0; n < 20; n += 1) await steps.create({ selector: ['us'], labels: { sweep: 'sweep-12' } });
  });

  const show = (options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, apiKey: service.adminKey, ...options });

  test('is on the overview, with links to runs, workers and definitions', async () => {
    await checkLooks(show, (page) => page.getByText('20 runs cannot start').waitFor());
    const { page } = await show();
    await page.getByRole('link', { name: '3 runs of nightly failed' }).waitFor();
    await page.getByRole('link', { name: '1 worker does not claim' }).waitFor();
    await page.getByText('no active worker with these capabilities has the tags').waitFor();
    if (process.env['REASONS_PICTURE']) await page.screenshot({ path: process.env['REASONS_PICTURE'] });
    await page.getByRole('link', { name: '20 runs cannot start' }).click();
    await page.getByText('waits: selector').first().waitFor();
  });

  test('of a sweep is cancelled with a reason, and the tabs say that they count all runs', async () => {
    const { page } = await show({ path: '/runs?label=sweep=sweep-12' });
    await page.getByText('counts of all runs').waitFor();
    await page.getByRole('row').nth(5).waitFor();
    await page.keyboard.press('a');
    const bar = page.getByRole('region', { name: 'Selected runs' });
    await bar.getByRole('button', { name: 'Select all that match' }).click();
    await bar.getByText('All 20 that match selected').waitFor();
    await bar.getByRole('button', { name: 'Cancel…' }).click();
    const question = page.getByRole('dialog', { name: 'Cancel 20 runs?' });
    await question.getByText('20 PENDING').waitFor();
    await question.getByLabel('Reason').fill('wrong tag');
    await question.getByRole('button', { name: 'Cancel 20 runs' }).click();
    await page.getByRole('dialog', { name: '20 runs cancelled' }).waitFor();
    const { body } = await steps.send('GET', '/runs?state=CANCELLED&limit=100');
    assert.deepEqual([body.data.length, body.data[0].execution_summary.cancel_reason], [20, 'wrong tag']);
  });
});
