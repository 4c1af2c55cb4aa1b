import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { beforeAll, describe, test } from 'vitest';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

const KEY = 'schedules-client-key-of-the-tests';
const DAY_S = 86_400;
const RUN = { image: 'longshore/word-count', inputs: { text: '${schedule.date}' } };

describe('the pages of schedules', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let send: Send;

  beforeAll(async () => {
    service = await startService({
      env: { SERVICE_API_KEYS: `admin:schedules-admin-key-of-the-tests,client:${KEY}` },
    });
    send = senderTo(service.url, KEY);
  });

  const show = (path: string, options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, path, apiKey: KEY, timezone: 'Europe/Berlin', ...options });
  const store = async (id: string, body: object = {}): Promise<void> => {
    const { status, text } = await send('PUT', `/schedules/${id}`, {
      body: { every_s: 30 * DAY_S, run: RUN, ...body },
    });
    assert.equal(status, 201, text);
  };
  const act = async (id: string, action: string, body?: object) => {
    const answer = await send('POST', `/schedules/${id}/${action}`, { ...(body && { body }) });
    assert.ok(answer.status < 300, answer.text);
    return answer.body;
  };
  test('creates a schedule in a form that shows its next times, what the clock does to them, and what is wrong', async () => {
    const opened = await show('/schedules');
    const { page } = opened;
    await page.getByText('There is no schedule yet').waitFor();
    await page.keyboard.press('n');
    const dialog = page.getByRole('dialog', { name: 'New schedule' });
    const times = dialog.getByRole('region', { name: 'Next times' });
    await times.getByText('Enter an expression or an interval').waitFor();
    await page.keyboard.type('nightly');
    await dialog.getByLabel('Cron expressions').fill('30 25 * * *');
    await times.getByText(/^Request validation failed\s+cron\.0: /).waitFor();
    await dialog.getByLabel('Cron expressions').fill('30 2 * * *');
    await dialog.getByLabel('Time zone').fill('Europe/Berlin');
    await dialog.getByText('Overlap, missed times').click();
    await dialog.getByLabel('From', { exact: true }).fill('2030-03-29T00:00');
    await times.getByText('Fri, 29 Mar 2030, 02:30 CET').waitFor();
    const skipped = times.getByRole('listitem').filter({ hasText: 'skipped hour' });
    assert.match(await skipped.innerText(), /^Sun, 31 Mar 2030, 03:30 CEST/);
    await dialog.getByLabel('From', { exact: true }).fill('2030-10-27T02:30');
    await times.getByText('repeated hour').waitFor();
    const repeated = times.getByRole('listitem').first();
    assert.match(
      (await repeated.innerText()).replaceAll(/\s+/g, ' '),
      /^Sun, 27 Oct 2030, 02:30 CEST .*repeated/,
    );
    assert.equal(await times.getByRole('listitem').count(), 10);
    await dialog.getByLabel('Until', { exact: true }).fill('2030-10-28T12:00');
    await times.getByRole('listitem').nth(2).waitFor({ state: 'detached' });
    assert.equal(await times.getByRole('listitem').count(), 2);

    const submit = dialog.getByRole('button', { name: 'Store' });
    await submit.click();
    await dialog.getByText(/^run: image is required/).waitFor();
    assert.equal(await dialog.getByLabel('Image').getAttribute('aria-invalid'), 'true');
    await dialog.getByLabel('Image').fill(RUN.image);
    await dialog.getByLabel('Arguments').fill('--day\n${schedule.date}');
    await dialog.getByLabel('Time zone').fill('Europe/Berlim');
    await submit.click();
    await dialog
      .getByText(/^timezone: Europe\/Berlim/)
      .last()
      .waitFor();
    assert.equal(await dialog.getByLabel('Time zone').getAttribute('aria-invalid'), 'true');
    await dialog.getByLabel('Time zone').fill('Europe/Berlin');
    await dialog.getByLabel('While a run has not ended').selectOption('queue_one');
    await dialog.getByRole('button', { name: 'Edit as JSON' }).click();
    const json = dialog.getByLabel('Schedule as JSON');
    await json.fill(JSON.stringify({ ...JSON.parse(await json.inputValue()), labels: { team: 'night' } }));
    await submit.click();
    await page.waitForURL('**/schedules/nightly');
    const { body } = await send('GET', '/schedules/nightly');
    assert.deepEqual(
      [body.cron, body.timezone, body.overlap],
      [['30 2 * * *'], 'Europe/Berlin', 'queue_one'],
    );
    assert.deepEqual(body.run, { image: RUN.image, args: ['--day', '${schedule.date}'] });
    assert.deepEqual(body.labels, { team: 'night' });
    assert.equal(body.starts_at, '2030-10-27T00:30:00.000Z');
    opened.expectErrors(/400/);
  });

  test('lists schedules with their next time or the note of their pause, and a mark for each of the last times', async () => {
    await store('marked', { run: { ...RUN, inputs: {} } });
    const { run_id: run } = await act('marked', 'trigger');
    await act('marked', 'trigger');
    await store('halted');
    await act('halted', 'pause', { note: 'The warehouse is being moved' });
    const { page } = await show('/schedules');
    const row = page.getByRole('row').filter({ hasText: 'marked' });
    await row.getByText(/^in \d+ d$/).waitFor();
    await row.getByText(/, 01:00 CET|, 00:00 UTC/).waitFor();
    const marks = row.getByRole('list', { name: 'Last times' }).getByRole('listitem');
    assert.equal(await marks.count(), 2);
    await marks
      .nth(1)
      .getByRole('img', { name: `: skipped: run ${run} has not ended` })
      .waitFor();
    await page
      .getByRole('row')
      .filter({ hasText: 'halted' })
      .getByText('The warehouse is being moved')
      .waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('MARK');
    await page.waitForURL('**/schedules?q=MARK');
    await page.getByText('halted').waitFor({ state: 'detached' });
    await marks.nth(0).getByRole('link', { name: ': pending' }).click();
    await page.waitForURL(`**/runs/${run}`);
    await page.getByRole('link', { name: 'marked', exact: true }).click();
    await page.waitForURL('**/schedules/marked');
  });

  test('triggers, pauses with a note, resumes, edits and deletes a schedule, and says what became of it', async () => {
    await store('worked');
    const { page } = await show('/schedules/worked');
    const button = (name: string) => page.getByRole('main').getByRole('button', { name, exact: true });
    const messages = page.getByRole('region', { name: 'Messages' });
    await button('Trigger').click();
    await confirm(page, 'Trigger');
    await messages.getByText(/^Run .* is created\.$/).waitFor();
    await button('Trigger').click();
    await confirm(page, 'Trigger');
    await messages.getByText(/^No run is created: run .* has not ended$/).waitFor();
    const history = page.getByRole('table', { name: 'Times' });
    await history
      .getByRole('row')
      .filter({ hasText: 'skipped' })
      .getByText(/^run .* has not ended$/)
      .waitFor();
    const pending = history.getByRole('row').filter({ hasText: 'pending' });
    assert.match((await pending.innerText()).replaceAll(/\s+/g, ' '), /trigger pending/);

    await button('Pause').click();
    await page.getByRole('dialog').getByLabel('Note').fill('Stocktaking');
    await confirm(page, 'Pause');
    await page.getByText(/by settings:client:.*: Stocktaking/).waitFor();
    await page.getByText('None while it is paused.').waitFor();
    await button('Resume').click();
    await confirm(page, 'Resume');
    await page.getByText('None while it is paused.').waitFor({ state: 'detached' });

    await button('Edit').click();
    const dialog = page.getByRole('dialog', { name: 'Edit worked' });
    assert.equal(await dialog.getByLabel('Or every so many seconds').inputValue(), String(30 * DAY_S));
    await dialog.getByLabel('Inputs').fill('{"text": "edited"}');
    await dialog.getByRole('button', { name: 'Store' }).click();
    await page.getByText('The schedule worked is stored.').waitFor();
    const { body } = await send('GET', '/schedules/worked');
    assert.deepEqual(body.run, { ...RUN, inputs: { text: 'edited' } });
    assert.equal(body.every_s, 30 * DAY_S);

    await button('Delete').click();
    await confirm(page, 'Delete');
    await page.waitForURL('**/schedules');
    await page.getByRole('row').filter({ hasText: 'worked' }).waitFor({ state: 'detached' });
    assert.equal((await send('GET', '/schedules/worked')).status, 404);
  });

  test('backfills a range, says how many runs there are now, and pages through the history', async () => {
    await store('filled', { every_s: DAY_S });
    const { page } = await show('/schedules/filled');
    await page.getByText('No time has passed yet').waitFor();
    await page.getByRole('button', { name: 'Backfill' }).click();
    const dialog = page.getByRole('dialog', { name: 'Backfill filled?' });
    assert.ok(await dialog.getByRole('button', { name: 'Backfill' }).isDisabled());
    await dialog.getByLabel('From').fill('2026-01-01T00:00');
    await dialog.getByLabel('Until').fill('2026-03-01T12:00');
    await confirm(page, 'Backfill');
    await page.getByText('Of 60 times, 60 have a new run, 0 had one, 0 can have none.').waitFor();
    const history = page.getByRole('table', { name: 'Times' });
    await history.getByText('Sun, 1 Mar 2026, 00:00 UTC').waitFor();
    await page.getByRole('button', { name: 'Next' }).click();
    await history.getByText('Thu, 1 Jan 2026, 00:00 UTC').waitFor();
    assert.equal(await history.getAttribute('aria-rowcount'), '11');
  });

  test('is accessible and fits, in both themes and at each width: list, schedule, form', async () => {
    await checkLooks(
      (look) => show('/schedules', look),
      (page) => page.getByRole('list', { name: 'Last times' }).first().waitFor(),
      async (page) => {
        await page.getByRole('link', { name: 'marked' }).first().click();
        await page.getByRole('table', { name: 'Times' }).getByText('skipped').first().waitFor();
      },
      async (page) => {
        await page.getByRole('button', { name: 'Edit' }).click();
        await page.getByRole('region', { name: 'Next times' }).getByRole('listitem').first().waitFor();
      },
    );
  });
});

/** Answers the question of an action. */
async function confirm(page: Page, action: string): Promise<void> {
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: action, exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}
