import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { beforeAll, describe, test } from 'vitest';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

const VALUE = 'the-value-that-nobody-sees';

describe('the page of secrets', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let send: Send;

  beforeAll(async () => {
    service = await startService({
      env: {
        SERVICE_SECRETS_KEY: randomBytes(32).toString('base64'),
      },
    });
    send = senderTo(service.url, service.adminKey);
  });

  const show = (options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, path: '/secrets', apiKey: service.adminKey, ...options });
  const names = async (): Promise<string[]> =>
    (await send('GET', '/secrets')).body.map(({ name }: { name: string }) => name);

  test('creates a secret by keyboard, says what is wrong with it, and forgets its value', async () => {
    const opened = await show();
    const { page } = opened;
    await page.getByText('There is no secret yet').waitFor();
    await page.keyboard.press('n');
    const dialog = page.getByRole('dialog', { name: 'New secret' });
    await page.keyboard.type('not a name');
    const value = dialog.getByLabel('Value', { exact: true });
    assert.equal(await value.getAttribute('type'), 'password');
    assert.equal(await value.getAttribute('autocomplete'), 'off');
    await page.keyboard.press('Enter');
    await dialog.getByText('Enter the value, or choose a file.').waitFor();
    await value.fill(VALUE);
    await page.keyboard.press('Enter');
    await dialog
      .getByRole('alert')
      .or(dialog.getByText(/^name must/))
      .first()
      .waitFor();
    await dialog.getByLabel('Name').fill('hub-token');
    await page.keyboard.press('Enter');
    await page.getByText('The secret hub-token is stored.').waitFor();
    const row = page.getByRole('row').filter({ hasText: 'hub-token' });
    await row.getByText('opaque', { exact: true }).waitFor();
    assert.ok(!(await page.content()).includes(VALUE), 'the value is gone from the page');
    await page.keyboard.press('n');
    assert.equal(await value.inputValue(), '');
    opened.expectErrors(/40[04]/);
  });

  test('stores the login of a registry, and a value of several lines from a file', async () => {
    const opened = await show();
    const { page } = opened;
    await page.getByRole('button', { name: 'New secret' }).first().click();
    const dialog = page.getByRole('dialog', { name: 'New secret' });
    await dialog.getByLabel('Name').fill('registry');
    await dialog.getByLabel('Kind').selectOption('registry');
    await dialog.getByLabel('Password or token').fill(VALUE);
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog
      .getByText(/^value/)
      .first()
      .waitFor();
    await dialog.getByLabel('Server').fill('registry.example:5000');
    await dialog.getByLabel('User name').fill('ada');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('row').filter({ hasText: 'registry' }).first().waitFor();
    await page.getByRole('button', { name: 'New secret' }).first().click();
    await dialog.getByLabel('Name').fill('key');
    const buffer = Buffer.from('line 1\nline 2\n');
    const file = { name: 'key.pem', mimeType: 'text/plain', buffer };
    await dialog.getByLabel('Or the content of a file').setInputFiles(file);
    const sent = page.waitForRequest((request) => request.method() === 'PUT');
    await dialog.getByRole('button', { name: 'Create' }).click();
    assert.deepEqual((await sent).postDataJSON(), { kind: 'opaque', value: 'line 1\nline 2\n' });
    await page.getByText('The secret key is stored.').waitFor();
    assert.deepEqual(await names(), ['hub-token', 'key', 'registry']);
    opened.expectErrors(/400/);
  });

  test('replaces and deletes a secret, the latter after a question', async () => {
    const { page } = await show();
    await page.getByRole('button', { name: 'Replace hub-token' }).click();
    const dialog = page.getByRole('dialog', { name: 'Replace hub-token' });
    assert.equal(await dialog.getByLabel('Name').count(), 0);
    await page.keyboard.type('another value');
    await page.keyboard.press('Enter');
    await page.getByText('The secret hub-token is stored.').waitFor();
    await page.getByRole('button', { name: 'Delete hub-token' }).click();
    const question = page.getByRole('dialog', { name: 'Delete hub-token?' });
    await question.getByRole('button', { name: 'Back' }).click();
    assert.ok((await names()).includes('hub-token'));
    await page.getByRole('button', { name: 'Delete hub-token' }).click();
    await question.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('The secret hub-token is deleted.').waitFor();
    assert.deepEqual(await names(), ['key', 'registry']);
  });

  test('works for everybody: both themes, three widths, dialog open or not', async () => {
    await checkLooks(
      show,
      (page) => page.getByRole('button', { name: 'Replace key' }).waitFor(),
      async (page) => {
        await page.getByRole('button', { name: 'New secret' }).click();
        await page.getByRole('dialog').getByLabel('Kind').selectOption('registry');
      },
    );
  });

  test('explains what to set where the service has no key for secrets', async () => {
    const plain = await startService();
    try {
      const opened = await show({ url: plain.url, apiKey: plain.adminKey });
      await opened.page.getByText('Secrets are not configured').waitFor();
      await opened.page.getByText('SERVICE_SECRETS_KEY').waitFor();
      opened.expectErrors(/503/);
      await opened.checkAccessibility();
      await opened.close();
    } finally {
      await plain.stop();
    }
  });
});
