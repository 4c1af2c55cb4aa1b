import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import type { Page } from 'playwright-core';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

const change = (page: Page) => page.getByRole('button', { name: 'state PENDING → FAILED' });

describe('the page of the audit log', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let steps: RunSteps;

  beforeAll(async () => {
    service = await startService();
    steps = new RunSteps(senderTo(service.url, service.adminKey));
  });

  const show = (options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, path: '/audit', apiKey: service.adminKey, ...options });
  const patch = async (id: string, body: object): Promise<void> => {
    assert.equal((await steps.send('PATCH', `/runs/${id}`, { body })).status, 200);
  };

  test('says what it is for while it is empty, and shows a change by itself, field by field', async () => {
    const opened = await show();
    const { page } = opened;
    await page.getByText('No recorded changes').waitFor();
    const { id } = await steps.create({ outputs: { kept: 1, gone: true, url: 'old' } });
    await patch(id, { state: 'FAILED', priority: 7, outputs: { kept: 1, url: 'new', list: [1] } });
    const row = page
      .getByRole('row')
      .filter({ hasText: 'state PENDING → FAILED · priority 0 → 7 · 3 outputs' });
    await row.waitFor();
    await row.getByTitle(id).waitFor();
    await row.getByRole('button').click();
    const dialog = page.getByRole('dialog', { name: /^Change \d+$/ });
    const lines = dialog.getByRole('table', { name: 'What changed' }).getByRole('row');
    const text = (await lines.allInnerTexts()).map((line) => line.replaceAll(/\s+/g, ' ').trim());
    for (const line of [
      /state changed "PENDING" "FAILED"/,
      /priority changed 0 7/,
      /outputs\.gone removed true not there/,
      /outputs\.url changed "old" "new"/,
      /outputs\.list added not there \[ 1 \]/,
    ]) {
      assert.ok(
        text.some((one) => line.test(one)),
        `${line}: ${JSON.stringify(text)}`,
      );
    }
    assert.ok(!text.some((line) => line.includes('kept')));
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    assert.ok((await opened.layoutShift()) < 0.01, String(await page.evaluate('window.layoutShifts.join()')));
  });

  test('pages both ways, also by the history of the browser, and from a link', async () => {
    const { id } = await steps.create();
    for (let priority = 1; priority <= 110; priority += 1) await patch(id, { priority });
    const { page } = await show();
    const first = page.getByText('priority 109 → 110');
    await first.waitFor();
    const next = page.getByRole('button', { name: 'Next' });
    const previous = page.getByRole('button', { name: 'Previous' });
    assert.ok(await previous.isDisabled());
    await next.click();
    await page.getByText('priority 59 → 60').waitFor();
    await next.click();
    await page.getByText('priority 9 → 10').waitFor();
    assert.ok(await next.isDisabled());
    await previous.click();
    await page.getByText('priority 59 → 60').waitFor();
    await page.reload();
    await page.getByText('priority 59 → 60').waitFor();
    await previous.click();
    await first.waitFor();
    assert.ok(!page.url().includes('after'));
    await page.goBack();
    await page.waitForURL('**/audit?after=*');
    await page.getByText('priority 109 → 110').waitFor({ state: 'detached' });
  });

  test('goes by keyboard', async () => {
    const { page } = await show();
    await page.getByText('priority 109 → 110').waitFor();
    await page.getByRole('button', { name: 'priority 109 → 110' }).focus();
    await page.keyboard.press('ArrowDown');
    await page.waitForFunction('document.activeElement.innerText.includes("108 → 109")');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByText('priority').waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('g');
    await page.keyboard.press('w');
    await page.waitForURL('**/workers');
    await page.keyboard.press('g');
    await page.keyboard.press('a');
    await page.waitForURL('**/audit');
  });

  test('works for everybody: both themes, three widths, dialog open or not', async () => {
    await checkLooks(
      (look) => show({ ...look, path: '/audit?after=2' }),
      (page) => change(page).waitFor(),
      async (page) => {
        await change(page).click();
        await page.getByRole('dialog').waitFor();
      },
    );
  });
});
