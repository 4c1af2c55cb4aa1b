import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import type { Locator } from 'playwright-core';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { newSecretsKey, senderTo, type Send } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

/** What a run may say besides its image, inputs and resources. */
const OPTIONS = {
  env: { MODE: 'fast', TEXT: 'two words' },
  command: ['sh', '-c'],
  args: ['echo "a\nb"'],
  secrets: { TOKEN: 'hub-token' },
  image_pull_secret: 'registry',
  selector: ['gpu', 'eu'],
  concurrency: { key: 'disk', limit: 2 },
};

const addPair = async (form: Locator, label: string, row: number, name: string, value: string) => {
  await form.getByRole('button', { name: `${label}: add a row` }).click();
  await form.getByLabel(`${label}: name ${row}`).fill(name);
  await form.getByLabel(`${label}: value ${row}`).fill(value);
};

const fillOptions = async (form: Locator): Promise<void> => {
  await form.getByText('Advanced').click();
  await addPair(form, 'Environment variables', 1, 'MODE', 'fast');
  await addPair(form, 'Environment variables', 2, 'GONE', 'x');
  await addPair(form, 'Environment variables', 3, 'TEXT', 'two words');
  await form.getByRole('button', { name: 'Environment variables: remove row 2' }).click();
  await addPair(form, 'Secrets', 1, 'TOKEN', 'hub-token');
  await form.getByLabel('Command').fill('sh\n-c\n');
  await form.getByLabel('Arguments').fill(JSON.stringify(OPTIONS.args));
  await form.getByLabel('Image pull secret').fill('registry');
  await form.getByLabel('Selector').fill('gpu, eu');
  await form.getByLabel('Concurrency key').fill('disk');
  await form.getByLabel('Concurrency limit').fill('2');
  await form.getByLabel('Retry only after').fill('oom, exit:75');
};

const assertOptions = (body: typeof OPTIONS, retryOn: readonly string[] | null): void => {
  for (const [name, value] of Object.entries(OPTIONS)) {
    assert.deepEqual(Object.entries(body).find(([field]) => field === name)?.[1], value, name);
  }
  const { retry_policy: policy }: { retry_policy?: { retry_on?: unknown } } = Object(body);
  assert.deepEqual(policy?.retry_on, retryOn);
};

describe('what runs say of their container, worker, key and start', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let send: Send;
  let steps: RunSteps;

  beforeAll(async () => {
    service = await startService({ env: { SERVICE_SECRETS_KEY: newSecretsKey() } });
    send = senderTo(service.url, service.adminKey);
    steps = new RunSteps(send);
  });

  const show = (path: string, options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, path, apiKey: service.adminKey, ...options });

  test('are entered in the form of a new run, and refused at their fields', async () => {
    const opened = await show('/runs');
    const { page } = opened;
    await page.getByRole('button', { name: 'New run' }).first().click();
    const dialog = page.getByRole('dialog', { name: 'New run' });
    await dialog.getByLabel('Image', { exact: true }).fill('made/here');
    await fillOptions(dialog);
    await dialog.getByLabel('Start at').fill('2001-02-03T04:05:06');
    const name = dialog.getByLabel('Environment variables: name 1');
    await name.fill('SERVICE_RUN_ID');
    await dialog.getByLabel('Concurrency limit').fill('0');
    await dialog.getByLabel('Retry only after').fill('rain');
    await dialog.getByRole('button', { name: 'Create run' }).click();
    await dialog.getByRole('group', { name: 'Environment variables' }).getByText(/^env/).waitFor();
    await dialog.getByText(/^concurrency\.limit must/).waitFor();
    await dialog.getByText(/^retry_policy\.retry_on/).waitFor();
    await opened.checkAccessibility();
    await name.fill('MODE');
    await dialog.getByLabel('Concurrency limit').fill('2');
    await dialog.getByLabel('Retry only after').fill('oom, exit:75');
    await dialog.getByRole('button', { name: 'Create run' }).click();
    await page.getByText(/^Created run/).waitFor();
    opened.expectErrors(/400/);
    const { body } = await send('GET', '/runs?image=made%2Fhere');
    assertOptions(body.data[0], ['oom', 'exit:75']);
    assert.equal(body.data[0].start_at, new Date('2001-02-03T04:05:06').toISOString());
  });

  test('have a start whose offset is shown; a time that the clocks skip is refused', async () => {
    const { page } = await show('/runs', { timezone: 'Europe/Berlin' });
    await page.getByRole('button', { name: 'New run' }).first().click();
    const dialog = page.getByRole('dialog', { name: 'New run' });
    await dialog.getByLabel('Image', { exact: true }).fill('made/in-berlin');
    await dialog.getByText(/^Advanced/).click();
    const start = dialog.getByLabel('Start at');
    await start.fill('2027-03-27T02:30');
    await dialog.getByText('UTC+01:00, Europe/Berlin').waitFor();
    await start.fill('2027-03-28T02:30');
    await dialog.getByRole('button', { name: 'Create run' }).click();
    await dialog.getByText(/does not exist in Europe\/Berlin.*2027-03-28 03:30 UTC\+02:00/).waitFor();
    assert.equal((await send('GET', '/runs?image=made%2Fin-berlin')).body.data.length, 0);
    await start.fill('2027-03-28T03:30');
    await dialog.getByText('UTC+02:00, Europe/Berlin').waitFor();
    await dialog.getByRole('button', { name: 'Create run' }).click();
    await page.getByText(/^Created run/).waitFor();
    const { body } = await send('GET', '/runs?image=made%2Fin-berlin');
    assert.equal(body.data[0].start_at, '2027-03-28T01:30:00.000Z');
  });

  test('are entered in the form of a definition, as fields or as JSON', async () => {
    const opened = await show('/definitions');
    const { page } = opened;
    await page.getByRole('main').getByRole('button', { name: 'New definition' }).first().click();
    const dialog = page.getByRole('dialog', { name: 'New definition' });
    assert.equal(await page.evaluate('document.activeElement.value'), '');
    await page.keyboard.type('full');
    await dialog.getByLabel('Image', { exact: true }).fill('i');
    await dialog.getByLabel('Inputs').fill('');
    await dialog.getByLabel('CPUs').fill('2');
    await dialog.getByLabel('Topic').fill('orders');
    await addPair(dialog, 'Attributes of events', 1, 'team', 'blue');
    await fillOptions(dialog);
    await dialog.getByRole('button', { name: 'Edit as JSON' }).click();
    const json = dialog.getByLabel('Definition as JSON');
    const entered = JSON.parse(await json.inputValue());
    assertOptions(entered, ['oom', 'exit:75']);
    await json.fill(JSON.stringify({ ...entered, version: '1 0' }));
    await dialog.getByRole('button', { name: 'Edit as a form' }).click();
    assert.equal(await dialog.getByLabel('CPUs').inputValue(), '2');
    await dialog.getByRole('button', { name: 'Store' }).click();
    await dialog.getByText(/^version must be a string that is a name/).waitFor();
    assert.equal(await dialog.getByLabel('Version').getAttribute('aria-invalid'), 'true');
    opened.expectErrors(/400/);
    await dialog.getByLabel('Version').fill('1');
    await dialog.getByRole('button', { name: 'Store' }).click();
    await page.waitForURL('**/definitions/full?version=1');
    const { body } = await send('GET', '/definitions/full');
    assertOptions(body, ['oom', 'exit:75']);
    assert.deepEqual(body.event_delivery, { topic: 'orders', attributes: { team: 'blue' } });
    await page.getByText('disk, at most 2').waitFor();
    await page.getByRole('heading', { name: 'Container' }).waitFor();
  });

  test('are entered for a run of a definition, where they win over its own', async () => {
    await send('POST', '/definitions', { body: { id: 'base', version: '1', image: 'i', ...OPTIONS } });
    const opened = await show('/definitions/base?tab=start');
    const { page } = opened;
    const form = page.getByRole('tabpanel');
    await form.getByText('Advanced').click();
    await addPair(form, 'Environment variables', 1, 'MODE', 'slow');
    await form.getByLabel('Concurrency key').fill('other');
    await form.getByLabel('Retry only after').fill('rain');
    await form.getByRole('button', { name: 'Start base 1' }).click();
    await form.getByText(/^retry_policy\.retry_on/).waitFor();
    await form.getByLabel('Retry only after').fill('image');
    await form.getByRole('button', { name: 'Start base 1' }).click();
    await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);
    const run = await steps.get(page.url().split('/').at(-1) ?? '');
    assert.deepEqual(run.env, { ...OPTIONS.env, MODE: 'slow' });
    assert.deepEqual(run.concurrency, { key: 'other', limit: 1 });
    assert.deepEqual(run.retry_policy.retry_on, ['image']);
    assert.deepEqual(run.selector, OPTIONS.selector);
    // Of the start and, unless it was started before that, of the preview of the command.
    opened.expectErrors(/400/);
  });

  test('are shown on the page of a run, with the other runs that hold its key, and copied by Run again', async () => {
    const concurrency = { key: 'shown', limit: 1 };
    const holder = await steps.create({ concurrency, priority: 9 });
    await steps.heartbeat('w');
    assert.equal((await steps.claim('w'))[0]?.id, holder.id);
    const run = await steps.create({
      ...OPTIONS,
      concurrency,
      start_at: '2001-02-03T04:05:06Z',
      retry_policy: { max_attempts: 2, retry_on: ['oom'] },
    });
    const opened = await show(`/runs/${run.id}`, { timezone: 'Europe/Berlin' });
    const { page } = opened;
    const facts = page.getByRole('main').locator('dl').first();
    for (const text of ['gpu, eu', 'shown', 'oom']) await facts.getByText(text, { exact: true }).waitFor();
    await page.getByText('Others that execute').getByTitle(holder.id).waitFor();
    await page.getByRole('tab', { name: 'Container' }).click();
    for (const text of ['hub-token', 'two words', 'registry']) await page.getByText(text).first().waitFor();
    await opened.checkAccessibility();
    await send('POST', `/runs/${run.id}/cancel`);
    await page.getByRole('button', { name: 'Run again', disabled: false }).click();
    await page
      .getByText('The start time of this run, 2001-02-03 05:05:06 UTC+01:00, is not taken over.')
      .waitFor();
    await page.getByRole('button', { name: 'Start a new run' }).click();
    await page.waitForURL(
      (url) => /\/runs\/[0-9a-f-]{36}$/.test(url.pathname) && !url.pathname.endsWith(run.id),
    );
    const again = await steps.get(page.url().split('/').at(-1) ?? '');
    for (const field of [...Object.keys(OPTIONS), 'retry_policy']) {
      assert.deepEqual(again[field], run[field], field);
    }
    assert.equal(again.start_at, null);
  });

  test('let the RAM grow as the form says, and each attempt is shown with its own', async () => {
    const opened = await show('/runs');
    const { page } = opened;
    await page.getByRole('button', { name: 'New run' }).first().click();
    const dialog = page.getByRole('dialog', { name: 'New run' });
    await dialog.getByLabel('Image', { exact: true }).fill('made/growing');
    await dialog.getByLabel('RAM in MB', { exact: true }).fill('1024');
    await dialog.getByText('Advanced').click();
    await dialog.getByLabel('RAM grows by the factor').fill('1.5');
    await dialog.getByRole('button', { name: 'Create run' }).click();
    await dialog.getByText('retry_policy.grow.ram_mb.max is required').waitFor();
    opened.expectErrors(/400/);
    await dialog.getByLabel('RAM at most, in MB').fill('4096');
    await dialog.getByRole('button', { name: 'Create run' }).click();
    await page.getByText(/^Created run/).waitFor();
    await opened.close();
    const { id, retry_policy: policy } = (await send('GET', '/runs?image=made%2Fgrowing')).body.data[0];
    assert.deepEqual(policy, { max_attempts: 1, grow: { ram_mb: { factor: 1.5, max: 4096 } } });
    await steps.heartbeat('w');
    await steps.claimUntil(id, 'w');
    await steps.event(id, 'FAILED', { cause: 'oom', exit_code: 137 });
    await send('POST', `/runs/${id}/retry`);
    const shown = await show(`/runs/${id}`);
    const facts = shown.page.getByRole('main').locator('dl').first();
    for (const text of ['1.5 GB RAM', 'Grew from 1 GB', 'RAM x 1.5 after oom, at most 4 GB'])
      await facts.getByText(text, { exact: true }).waitFor();
    const attempts = shown.page.getByRole('region', { name: 'Attempts' });
    for (const text of ['1 GB RAM', '1.5 GB RAM']) await attempts.getByText(text).waitFor();
    await shown.checkAccessibility();
  });

  test('filter the list of runs by selector and concurrency key', async () => {
    const { id } = await steps.create({
      selector: ['filter-a', 'filter-b'],
      concurrency: { key: 'filter', limit: 1 },
    });
    await steps.create({ selector: ['filter-a'] });
    const { page } = await show('/runs');
    await page.getByRole('row').nth(2).waitFor();
    await page.keyboard.press('f');
    await page.getByLabel('Selector').fill('filter-a,filter-b');
    await page.keyboard.press('Enter');
    await page.getByLabel('Concurrency key').fill('filter');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Remove the filter Concurrency key: filter' }).waitFor();
    await page
      .getByRole('row')
      .filter({ has: page.getByTitle(id) })
      .waitFor();
    await page.waitForFunction(`document.querySelectorAll('[role=row]').length === 2`);
    assert.equal(new URL(page.url()).search, '?selector=filter-a%2Cfilter-b&concurrency_key=filter');
  });

  test('can be entered by everybody: both themes, three widths', async () => {
    await checkLooks(
      (look) => show('/runs', look),
      async (page) => {
        await page.getByRole('button', { name: 'New run' }).first().click();
        const dialog = page.getByRole('dialog', { name: 'New run' });
        await dialog.getByText('Advanced').click();
        await addPair(dialog, 'Environment variables', 1, 'A', '1');
      },
    );
  });
});
