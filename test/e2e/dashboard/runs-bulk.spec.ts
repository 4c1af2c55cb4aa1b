import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { seedRuns } from '../../support/browser/browser-runs.js';
import { NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { skipFor } from '../../support/skip.js';

describe('many runs at once, in the list of runs', skipFor(NO_BROWSER), () => {
  let database: TestDatabase;
  let service: ServiceProcess;
  let steps: RunSteps;

  beforeAll(async () => {
    database = await openTestDatabase();
    await seedRuns(database.dataSource, 120);
    service = await startService({ env: { DATABASE_URL: database.url } });
    steps = new RunSteps(senderTo(service.url, service.adminKey));
  });
  afterAll(async () => {
    await service?.stop();
    await database?.close();
  });

  const show = (options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, path: '/runs', apiKey: service.adminKey, ...options });
  const row = (opened: Awaited<ReturnType<typeof show>>, id: string) =>
    opened.page.getByRole('row').filter({ has: opened.page.getByTitle(id) });
  const rowIds = (opened: Awaited<ReturnType<typeof show>>): Promise<string[]> =>
    opened.page.evaluate(`[...document.querySelectorAll('[role=row] code')].map(({ title }) => title)`);

  test('selects by click, range, page and keyboard, and holds the rows still meanwhile', async () => {
    const opened = await show();
    const { page } = opened;
    await page.getByRole('row').nth(5).waitFor();
    const boxes = page.getByRole('row').getByRole('checkbox');
    const count = (text: string): Promise<void> =>
      page.getByRole('region', { name: 'Selected runs' }).getByText(text).waitFor();
    await boxes.nth(2).click();
    await boxes.nth(6).click({ modifiers: ['Shift'] });
    await count('5 selected');
    await boxes.nth(4).click();
    await count('4 selected');
    const known = await rowIds(opened);
    const run = await steps.create({ image: 'unseen' });
    await page.getByRole('button', { name: '1 new run' }).waitFor();
    assert.deepEqual(await rowIds(opened), known);
    await page.keyboard.press('Escape');
    await row(opened, run.id).waitFor();

    await page
      .getByRole('link', { name: /run/ })
      .filter({ has: page.locator('span') })
      .nth(3)
      .focus();
    await page.keyboard.press('Space');
    await count('1 selected');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Shift+Space');
    await count('3 selected');
    await page.keyboard.press('a');
    await count('50 selected');
    await page.getByLabel('Select all rows').click();
    await page.getByRole('region', { name: 'Selected runs' }).waitFor({ state: 'detached' });
    await page.getByLabel('Select all rows').click();
    await count('50 selected');
    await page.keyboard.press('n');
    await page.waitForURL('**starting_after=*');
    await count('50 selected');
    await page.getByRole('button', { name: 'Clear the selection' }).click();
    await page.getByRole('region', { name: 'Selected runs' }).waitFor({ state: 'detached' });
  });

  test('cancels and retries many runs, with what will happen before and what has happened after', async () => {
    const image = 'many';
    const pending = await steps.create({ image });
    const running = await steps.running({ image });
    const failed = await steps.inState('FAILED', { image });
    const opened = await show({ path: `/runs?image=${image}` });
    const { page } = opened;
    await row(opened, failed.id).waitFor();
    await page.keyboard.press('a');
    await page.getByRole('button', { name: 'Cancel…' }).click();
    const question = page.getByRole('dialog', { name: 'Cancel 3 runs?' });
    await question.getByText('2 of 3 runs can be cancelled.').waitFor();
    await question.getByText('Refused: they have failed.').waitFor();
    await question.getByText('Which').first().click();
    await question.getByTitle(pending.id).waitFor();
    await opened.checkAccessibility();
    await question.getByRole('button', { name: 'Back' }).click();
    assert.equal((await steps.get(pending.id)).state, 'PENDING');

    await page.getByRole('button', { name: 'Cancel…' }).click();
    await page.keyboard.press('Enter');
    const answer = page.getByRole('dialog', { name: '2 runs cancelled, 1 refused' });
    const lines = answer.getByRole('listitem');
    await lines.first().getByText('Refused: Run is already in terminal state FAILED').waitFor();
    await lines.first().getByTitle(failed.id).waitFor();
    assert.equal(await lines.count(), 3);
    await opened.checkAccessibility();
    await answer.getByRole('button', { name: 'Done' }).click();
    for (const { id } of [pending, running]) assert.equal((await steps.get(id)).state, 'CANCELLED');
    await row(opened, running.id).getByText('cancelled', { exact: true }).waitFor();

    await page.getByLabel('Select all rows').click();
    await page.getByRole('button', { name: 'Retry…' }).click();
    await page.getByRole('button', { name: 'Retry 3 runs' }).click();
    await page.getByRole('dialog', { name: '3 runs retried' }).getByRole('button', { name: 'Done' }).click();
    for (const { id } of [pending, running, failed]) {
      const { state, current_attempt: attempt } = await steps.get(id);
      assert.deepEqual([state, attempt], ['PENDING', 2]);
    }
  });

  test('changes all runs that match the filters, on every page, with their number before and the progress after', async () => {
    const image = 'registry.example/team/image-1';
    const ids = await Promise.all(Array.from({ length: 60 }, () => steps.create({ image })));
    const opened = await show({ path: `/runs?state=PENDING&image=${encodeURIComponent(image)}` });
    const { page } = opened;
    await page.getByRole('row').nth(5).waitFor();
    await page.keyboard.press('a');
    const bar = page.getByRole('region', { name: 'Selected runs' });
    await bar.getByRole('button', { name: 'Select all that match' }).click();
    await bar.getByText('All 60 that match selected').waitFor();
    await opened.checkAccessibility();

    await bar.getByRole('button', { name: 'Labels…' }).click();
    const labels = page.getByRole('dialog', { name: 'Label 60 runs?' });
    await labels.getByLabel('Labels: name 1').fill('team');
    await labels.getByLabel('Labels: value 1').fill('vision');
    await opened.checkAccessibility();
    await labels.getByRole('button', { name: 'Label 60 runs' }).click();
    const labelled = page.getByRole('dialog', { name: '60 runs labelled' });
    await labelled.getByRole('button', { name: 'Done' }).click();
    for (const { id } of ids) assert.deepEqual((await steps.get(id)).labels, { team: 'vision' });
    await bar.waitFor({ state: 'detached' });

    await page.keyboard.press('a');
    await bar.getByRole('button', { name: 'Select all that match' }).click();
    await bar.getByText('All 60 that match selected').waitFor();
    await bar.getByRole('button', { name: 'Cancel…' }).click();
    const late = await steps.create({ image });
    const question = page.getByRole('dialog', { name: 'Cancel 60 runs?' });
    await question.getByRole('button', { name: 'Cancel 60 runs' }).click();
    await page.getByRole('dialog').getByText('The filter matches 61 runs, not 60').waitFor();
    const again = page.getByRole('dialog', { name: 'Cancel 61 runs?' });
    await again.getByRole('button', { name: 'Cancel 61 runs' }).click();
    const cancelled = page.getByRole('dialog', { name: '61 runs cancelled' });
    await opened.checkAccessibility();
    await cancelled.getByRole('button', { name: 'Done' }).click();
    for (const { id } of [...ids, late]) assert.equal((await steps.get(id)).state, 'CANCELLED');
    opened.expectErrors(/409/);
  });

  test('retries of all that match only the failed and cancelled ones, and says how many these are', async () => {
    const image = 'registry.example/team/image-of-retries';
    const runs = await Promise.all(Array.from({ length: 55 }, () => steps.create({ image })));
    const ids: string[] = runs.map(({ id }) => id);
    const ended = ids.slice(0, 3);
    const send = senderTo(service.url, service.adminKey);
    for (const id of ended) assert.equal((await send('POST', `/runs/${id}/cancel`)).status, 200);
    const opened = await show({ path: `/runs?image=${encodeURIComponent(image)}` });
    const { page } = opened;
    await page.getByRole('row').nth(5).waitFor();
    await page.keyboard.press('a');
    const bar = page.getByRole('region', { name: 'Selected runs' });
    await bar.getByRole('button', { name: 'Select all that match' }).click();
    await bar.getByText('All 55 that match selected').waitFor();
    await bar.getByRole('button', { name: 'Retry…' }).click();
    const question = page.getByRole('dialog', { name: 'Retry 3 runs?' });
    await question.getByText('3 CANCELLED', { exact: true }).waitFor();
    await opened.checkAccessibility();
    await question.getByRole('button', { name: 'Retry 3 runs' }).click();
    await page.getByRole('dialog', { name: '3 runs retried' }).waitFor();
    for (const id of ids) {
      assert.equal((await steps.get(id)).current_attempt, ended.includes(id) ? 2 : 1);
    }
  });

  test('does nothing twice when an answer is lost and the person tries again', async () => {
    const run = await steps.inState('FAILED', { image: 'once' });
    const opened = await show({ path: '/runs?image=once' });
    const { page } = opened;
    await row(opened, run.id).getByRole('checkbox').click();
    await page.getByRole('button', { name: 'Retry…' }).click();
    let isLost = false;
    await page.route('**/runs/batch/retry', async (route) => {
      if (isLost) return route.continue();
      isLost = true;
      await route.fetch();
      return route.abort();
    });
    await page.getByRole('button', { name: 'Retry 1 run' }).click();
    await page.getByRole('dialog').getByText('The service cannot be reached').waitFor();
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('dialog', { name: '1 run retried' }).waitFor();
    opened.expectErrors(/ERR_FAILED/);
    assert.equal((await steps.get(run.id)).current_attempt, 2);
  });
});
