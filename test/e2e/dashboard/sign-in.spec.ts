import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { checkLooks, NO_BROWSER, openPage } from '../../support/browser/browser.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

describe('signing in to the dashboard', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;

  beforeAll(async () => {
    service = await startService();
  });

  async function makeKey(...scopes: string[]): Promise<{ id: string; key: string }> {
    const body = { name: `${scopes.join('-')} key`, scopes };
    return (await senderTo(service.url, service.adminKey)('POST', '/api-keys', { body })).body;
  }

  test('leads to where one wanted to go, and lasts as long as the tab', async () => {
    const { key } = await makeKey('client');
    const { page } = await openPage({ url: service.url, path: '/workers?q=gpu' });
    await page.getByLabel('API key').fill(` ${key} `);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Workers', exact: true }).waitFor();
    assert.equal(await page.getByLabel('Search workers').inputValue(), 'gpu');
    assert.equal(await page.title(), 'Workers · Longshore');
    await page.reload();
    await page.getByRole('heading', { name: 'Workers', exact: true }).waitFor();
    assert.equal(await page.evaluate('localStorage.length + document.cookie.length'), 0);

    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  });

  test('says what is wrong with a key, and keeps it out of sight unless asked', async () => {
    const opened = await openPage({ url: service.url });
    const { page } = opened;
    const field = page.getByLabel('API key');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('Enter an API key.').waitFor();
    await field.fill('ключ');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('A key has no spaces and no special characters.').waitFor();
    await field.fill('no-such-key');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('The service does not know this key').waitFor();
    opened.expectErrors(/401/);
    assert.equal(await field.getAttribute('aria-invalid'), 'true');
    assert.equal(await field.getAttribute('type'), 'password');
    await page.getByRole('button', { name: 'Show the key' }).click();
    assert.equal(await field.getAttribute('type'), 'text');
    assert.equal(await page.evaluate('sessionStorage.length'), 0);
  });

  test('is asked for again when the key is revoked, with the reason and the way back', async () => {
    const { id, key } = await makeKey('client');
    const opened = await openPage({ url: service.url, path: '/workers?state=stale', apiKey: key });
    const { page } = opened;
    await page.getByText('Live', { exact: true }).waitFor();
    await senderTo(service.url, service.adminKey)('DELETE', `/api-keys/${id}`);
    await page.getByText('it has expired or was revoked').waitFor();
    opened.expectErrors(/401/);
    await page.getByLabel('API key').fill(service.adminKey);
    await page.keyboard.press('Enter');
    await page.getByText('No worker matches these filters').waitFor();
    assert.equal(new URL(page.url()).search, '?state=stale');
  });

  for (const [name, path, scope, needed] of [
    ['Workers', '/workers', 'worker', 'client or admin'],
    ['Definitions', '/definitions/any', 'worker', 'client or admin'],
    ['Audit', '/audit', 'client', 'admin'],
    ['Keys', '/keys', 'client', 'admin'],
    ['Secrets', '/secrets', 'client', 'admin'],
  ] as const) {
    test(`shows ${name} only to a key that may see it: else no link, and the address says which one is needed`, async () => {
      const { page } = await openPage({ url: service.url, path, apiKey: (await makeKey(scope)).key });
      await page.getByText('Your key has no access to this page').waitFor();
      await page.getByText(`It needs a key with the scope ${needed}.`).waitFor();
      assert.equal(await page.getByRole('link', { name }).count(), 0);
    });
  }

  test('works for everybody: both themes, three widths', async () => {
    await checkLooks(
      (look) => openPage({ url: service.url, ...look }),
      (page) => page.getByRole('heading', { name: 'Sign in' }).waitFor(),
    );
  });

  test('keeps a theme that was chosen, from the first paint on', async () => {
    const opened = await openPage({ url: service.url, theme: 'light' });
    const { page } = opened;
    const ground = (): Promise<string> =>
      page.evaluate('getComputedStyle(document.documentElement).backgroundColor');
    const light = await ground();
    await page.getByRole('button', { name: /^Theme: system/ }).click();
    await page.getByRole('button', { name: /^Theme: light/ }).click();
    await page.getByRole('button', { name: /^Theme: dark/ }).waitFor();
    const dark = await ground();
    assert.notEqual(dark, light);
    // Without the application itself only what comes before the first paint has run.
    await page.route('**/assets/*.js', (route) => route.abort());
    await page.reload();
    assert.equal(await ground(), dark);
    opened.expectErrors(/ERR_FAILED/);
  });
});
