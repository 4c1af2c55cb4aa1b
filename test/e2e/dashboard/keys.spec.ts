import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

describe('the page of API keys', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let send: Send;

  beforeAll(async () => {
    service = await startService({ env: { SERVICE_API_KEYS: 'admin:keys-admin-key-of-the-tests' } });
    send = senderTo(service.url, service.adminKey);
  });

  const show = (options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, path: '/keys', apiKey: service.adminKey, ...options });
  const make = async (name: string, scopes: readonly string[]): Promise<{ id: string; key: string }> => {
    const { status, body } = await send('POST', '/api-keys', { body: { name, scopes } });
    assert.equal(status, 201);
    return body;
  };
  const statusOf = async (key: string): Promise<number> => (await send('GET', '/whoami', { key })).status;

  test('makes a key, shows it once with a warning, and lets it be copied', async () => {
    const { page } = await show();
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByText('No key has been made yet').waitFor();
    await page.getByRole('button', { name: 'New key' }).first().click();
    const form = page.getByRole('dialog', { name: 'New key' });
    await form.getByRole('button', { name: 'Create' }).click();
    await form.getByText('Say whose key it is.').waitFor();
    await form.getByLabel('Name').fill('nightly import');
    await form.getByLabel(/^client/).uncheck();
    await form.getByText('Choose at least one.').waitFor();
    await form.getByLabel(/^client/).check();
    await form.getByLabel(/^worker/).check();
    await form.getByLabel('Expires').selectOption('30');
    await form.getByRole('button', { name: 'Create' }).click();

    const dialog = page.getByRole('dialog', { name: 'The key nightly import' });
    await dialog.getByText('It is shown this once').waitFor();
    const key = await dialog.getByRole('textbox', { name: 'API key' }).inputValue();
    await dialog.getByRole('button', { name: 'Copy the API key' }).click();
    assert.equal(await page.evaluate('navigator.clipboard.readText()'), key);
    const who = (await send('GET', '/whoami', { key })).body;
    assert.deepEqual(who.scopes, ['client', 'worker']);
    const days = (Date.parse(who.expires_at) - Date.now()) / 86_400_000;
    assert.ok(days > 29.9 && days < 30.1, String(days));
    // A slip of the hand does not lose it.
    await page.keyboard.press('Escape');
    await dialog.getByText('when you close this dialog again, the key is lost').waitFor();
    assert.equal(await dialog.getByRole('textbox', { name: 'API key' }).inputValue(), key);
    await dialog.getByRole('button', { name: 'I have kept it' }).click();
    await dialog.waitFor({ state: 'detached' });

    const row = page.getByRole('row').filter({ hasText: 'nightly import' });
    await row.getByText('client, worker').waitFor();
    await row.getByText('in 29 d').waitFor();
    await row.getByText('active', { exact: true }).waitFor();
    assert.ok(!(await page.content()).includes(key), 'the key is gone from the page');
  });

  test('makes a key that ends at a date, and says why a date is refused', async () => {
    const opened = await show();
    const { page } = opened;
    await page.getByText('Live', { exact: true }).waitFor();
    await page.keyboard.press('n');
    const form = page.getByRole('dialog', { name: 'New key' });
    await page.keyboard.type('by keyboard');
    await form.getByLabel('Expires').selectOption('date');
    await page.keyboard.press('Enter');
    await form.getByRole('button', { name: 'Create' }).click();
    await form.getByText('Enter a date and a time.').waitFor();
    await form.getByLabel('Date and time, here').fill('2001-01-01T10:00');
    await form.getByRole('button', { name: 'Create' }).click();
    await form.getByText('expires_at must lie in the future').waitFor();
    await form.getByLabel('Date and time, here').fill('2100-01-01T10:00');
    await form.getByRole('button', { name: 'Create' }).click();
    const dialog = page.getByRole('dialog', { name: 'The key by keyboard' });
    await dialog.waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'New key' }).click();
    await form.getByRole('button', { name: 'Back' }).click();
    await form.waitFor({ state: 'detached' });
    opened.expectErrors(/400/);
  });

  test('revokes a key after a question', async () => {
    const { key } = await make('to be revoked', ['client']);
    const { page } = await show();
    const row = page.getByRole('row').filter({ hasText: 'to be revoked' });
    await row.getByRole('button', { name: /^Revoke to be revoked/ }).click();
    const dialog = page.getByRole('dialog', { name: 'Revoke to be revoked?' });
    await dialog.getByText('This cannot be undone').waitFor();
    assert.equal(await dialog.getByText('signed in with').count(), 0);
    await dialog.getByRole('button', { name: 'Back' }).click();
    assert.equal(await statusOf(key), 200);
    await row.getByRole('button', { name: /^Revoke/ }).click();
    await dialog.getByRole('button', { name: 'Revoke', exact: true }).click();
    await page.getByText('to be revoked is revoked.').getByRole('link').waitFor();
    await row.getByText('revoked', { exact: true }).waitFor();
    assert.equal(await row.getByRole('button', { name: /^Revoke/ }).count(), 0);
    assert.equal(await statusOf(key), 401);
  });

  test('warns when it is the key that one is signed in with, and asks for another one afterwards', async () => {
    const { key } = await make('my own', ['admin']);
    await make('my own', ['admin']);
    const opened = await show({ apiKey: key });
    const { page } = opened;
    const row = page.getByRole('row').filter({ hasText: 'your key' });
    await row.first().waitFor();
    assert.equal(await row.count(), await row.filter({ hasText: 'my own' }).count());
    await row.getByRole('button', { name: /^Revoke my own/ }).click();
    await page.getByRole('dialog').getByText('This is the key you are signed in with').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke', exact: true }).click();
    await page.getByText('The service no longer takes your key').waitFor();
    await page.getByLabel('API key').fill(service.adminKey);
    await page.keyboard.press('Enter');
    await page.getByRole('row').filter({ hasText: 'my own' }).first().waitFor();
    opened.expectErrors(/401/);
  });

  test('pages through many keys, both ways', async () => {
    for (let n = 1; n <= 60; n += 1) await make(`key-${n}`, ['worker']);
    const { page } = await show();
    await page.getByText('key-60', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Next' }).click();
    await page.getByText('key-10', { exact: true }).waitFor();
    await page.getByText('nightly import').waitFor();
    assert.ok(await page.getByRole('button', { name: 'Next' }).isDisabled());
    await page.getByRole('button', { name: 'Previous' }).click();
    await page.getByText('key-60', { exact: true }).waitFor();
  });

  test('works for everybody: both themes, three widths, dialog open or not', async () => {
    await checkLooks(
      show,
      async (page) => {
        await page.getByText('key-60', { exact: true }).waitFor();
        const [table, button] = await Promise.all(
          [page.getByRole('table'), page.getByRole('button', { name: /^Revoke key-60/ })].map((part) =>
            part.boundingBox(),
          ),
        );
        assert.ok(table && button && button.x + button.width <= table.x + table.width, 'nothing is cut off');
      },
      async (page) => {
        await page.getByRole('button', { name: 'New key' }).click();
        await page.getByRole('dialog').waitFor();
      },
    );
  });
});
