import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';
import { LOCAL_RECEIVERS, startReceiver, type Receiver } from '../../support/webhooks/receiver.js';

const CLIENT_KEY = 'webhooks-client-key-of-the-tests';

describe('the pages of webhooks', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let receiver: Receiver;
  let send: Send;

  beforeAll(async () => {
    receiver = await startReceiver();
    service = await startService({
      env: {
        ...LOCAL_RECEIVERS,
        SERVICE_SECRETS_KEY: randomBytes(32).toString('base64'),
        SERVICE_API_KEYS: `admin:webhooks-admin-key-of-the-tests,client:${CLIENT_KEY}`,
      },
    });
    send = senderTo(service.url, service.adminKey);
  });

  afterAll(() => receiver.close());

  const show = (path: string, options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, path, apiKey: service.adminKey, ...options });
  const webhook = async () => (await send('GET', '/webhooks')).body[0];

  test('creates a webhook with a filter, says what is wrong with it, and shows its secret once', async () => {
    const opened = await show('/webhooks');
    const { page } = opened;
    await page.getByText('There is no webhook yet').waitFor();
    await page.keyboard.press('n');
    const dialog = page.getByRole('dialog', { name: 'New webhook' });
    await page.keyboard.type(`${receiver.url}/hook`);
    await dialog.getByLabel('Events').fill('run.cancelled, run.over');
    await dialog.getByLabel('Only with labels').fill('team=vision');
    await page.keyboard.press('Enter');
    await dialog.getByText(/^events must be a list/).waitFor();
    assert.equal(await dialog.getByLabel('Events').getAttribute('aria-invalid'), 'true');
    await dialog.getByLabel('Events').fill('run.cancelled');
    await page.keyboard.press('Enter');
    const shown = page.getByRole('dialog', { name: 'The secret of the webhook' });
    assert.match(await shown.getByLabel('Secret', { exact: true }).inputValue(), /^whsec_/);
    await page.keyboard.press('Escape');
    await shown.getByText('Copy the secret first').waitFor();
    await shown.getByRole('button', { name: 'I have kept it' }).click();
    const { id, events, where } = await webhook();
    await page.waitForURL(`**/webhooks/${id}`);
    assert.deepEqual([events, where], [['run.cancelled'], { label: ['team=vision'] }]);
    assert.ok(!(await page.content()).includes('whsec_'), 'the secret is gone from the page');
    opened.expectErrors(/400/);
  });

  test('lists deliveries with state and answer, sends them again, and tells the result of a test', async () => {
    receiver.reply = () => ({ status: 500, body: 'The mailbox is full' });
    const { id } = await webhook();
    const { page } = await show(`/webhooks/${id}`);
    const messages = page.getByRole('region', { name: 'Messages' });
    await act(page, 'Test');
    await messages.getByText(/^Not delivered: 500 in .* The mailbox is full$/).waitFor();
    const row = page
      .getByRole('table', { name: 'Deliveries' })
      .getByRole('row')
      .filter({ hasText: 'webhook.test' });
    await row.getByText(/^500 in .* The mailbox is full$/).waitFor();
    await row.getByText('failed', { exact: true }).waitFor();
    receiver.reply = () => ({ status: 204 });
    await row.getByRole('button', { name: /^Redeliver/ }).click();
    await messages.getByText(/^Delivered: 204 in /).waitFor();
    await row.getByText('delivered', { exact: true }).waitFor();

    const body = { image: 'i', inputs: {}, labels: { team: 'vision' } };
    const run = (await send('POST', '/runs', { body })).body;
    await send('POST', `/runs/${run.id}/cancel`);
    const told = page.getByRole('row').filter({ hasText: 'run.cancelled' });
    await told.getByText(/^204 in /).waitFor();
    await told.getByRole('link').click();
    await page.waitForURL(`**/runs/${run.id}`);
  });

  test('replays a time, rotates the secret, disables, enables, edits and deletes a webhook', async () => {
    const { id } = await webhook();
    const { page } = await show(`/webhooks/${id}`);
    const received = receiver.received.length;
    await act(page, 'Replay', (dialog) => dialog.getByLabel('From').fill('2026-01-01T00:00'));
    await page.getByText('The events are sent again.').waitFor();
    await page.locator('[role="row"]').nth(3).waitFor({ state: 'attached' });
    assert.ok(receiver.received.length > received, 'the run is told again');
    await act(page, 'Rotate secret', (dialog) => dialog.getByLabel('Old secret signs').fill('3600'));
    const shown = page.getByRole('dialog', { name: 'The secret of the webhook' });
    assert.match(await shown.getByLabel('Secret', { exact: true }).inputValue(), /^whsec_/);
    await shown.getByRole('button', { name: 'I have kept it' }).click();
    await page.getByText('The old secret signs, too, until').waitFor();
    await act(page, 'Disable');
    await page.getByText('disabled', { exact: true }).waitFor();
    await act(page, 'Enable');
    await page.getByText('enabled', { exact: true }).waitFor();

    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Edit the webhook' });
    await dialog.getByLabel('Only with labels').fill('');
    await dialog.getByRole('button', { name: 'Store' }).click();
    await dialog.waitFor({ state: 'detached' });
    assert.deepEqual((await webhook()).where, {});
  });

  test('is for admins, accessible and fits, in both themes and at each width: list, webhook, form', async () => {
    const refused = await show('/webhooks', { apiKey: CLIENT_KEY });
    await refused.page.getByText('Your key has no access to this page').waitFor();
    await checkLooks(
      (look) => show('/webhooks', look),
      (page) => page.getByRole('link', { name: receiver.url }).click(),
      async (page) => {
        await page.getByRole('table', { name: 'Deliveries' }).getByText('webhook.test').waitFor();
        await page.getByRole('button', { name: 'Edit', exact: true }).click();
      },
    );
    const { page } = await show(`/webhooks/${(await webhook()).id}`);
    await act(page, 'Delete');
    await page.getByText('There is no webhook yet').waitFor();
  });
});

/** Does what a button of the page asks for. @param fill enters what is needed */
async function act(
  page: Page,
  action: string,
  fill: (dialog: ReturnType<Page['getByRole']>) => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  await page.getByRole('button', { name: action, exact: true }).click();
  const dialog = page.getByRole('dialog', { name: `${action}?` });
  await fill(dialog);
  await dialog.getByRole('button', { name: action, exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}
