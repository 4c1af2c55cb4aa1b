import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { seedRuns } from '../../support/browser/browser-runs.js';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, until, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { skipFor } from '../../support/skip.js';

const SEEDED = 100_000;

describe('the list of runs', skipFor(NO_BROWSER), () => {
  let database: TestDatabase;
  let service: ServiceProcess;
  let steps: RunSteps;

  beforeAll(async () => {
    database = await openTestDatabase();
    await seedRuns(database.dataSource, SEEDED);
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
  const untilFirst = (opened: Awaited<ReturnType<typeof show>>, fits: (id: string | undefined) => boolean) =>
    until(async () => fits((await rowIds(opened))[0]), 'another first row');
  const total = (opened: Awaited<ReturnType<typeof show>>) =>
    opened.page.getByRole('table', { name: 'Runs' }).getAttribute('aria-rowcount');

  test('shows the newest of 100,000 runs, and turns deep pages', async () => {
    const opened = await show({ width: 1920 });
    const { page } = opened;
    await page.getByRole('row').nth(5).waitFor();
    assert.equal(await total(opened), '51');
    const [deep] = await database.dataSource.query(
      `select id from runs order by created_at offset ${SEEDED / 2} limit 1`,
    );
    await page.goto(`${service.url}/ui/runs?starting_after=${deep.id}`);
    await page.getByRole('row').nth(5).waitFor();
    const [first] = await rowIds(opened);
    await page.keyboard.press('n');
    await untilFirst(opened, (id) => id !== first);
  });

  test('says everything about a run in its row, and leads to it', async () => {
    const run = await steps.running(
      { image: 'examples/train:2', retry_policy: { max_attempts: 4 }, priority: 2_000_000_000 },
      'one-worker',
    );
    await steps.event(run.id, 'PROGRESS', undefined, 40);
    const opened = await show({ width: 1920 });
    await opened.page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    const line = row(opened, run.id);
    await line.getByText('running', { exact: true }).waitFor();
    for (const text of ['examples/train:2', '2,000,000,000', '1 / 4', '40 %', 'one-worker']) {
      await line.getByText(text, { exact: true }).first().waitFor();
    }
    await line.getByRole('button', { name: 'Copy the run id' }).click();
    assert.equal(await opened.page.evaluate('navigator.clipboard.readText()'), run.id);
    const href = await line.getByRole('link', { name: /^running run/ }).getAttribute('href');
    assert.equal(href, `/ui/runs/${run.id}`);
    await steps.event(run.id, 'COMPLETED');
    await line.getByText('completed', { exact: true }).waitFor();
    await line.getByRole('link', { name: 'one-worker' }).click();
    await opened.page.waitForURL('**/ui/workers?worker=one-worker');
  });

  test('filters by everything the API filters by, in the address, with chips to remove', async () => {
    const opened = await show();
    const { page } = opened;
    await page.getByRole('row').nth(5).waitFor();
    await page.keyboard.press('f');
    const set = async (label: string, text: string): Promise<void> => {
      await page.getByLabel(label, { exact: true }).fill(text);
      await page.keyboard.press('Enter');
    };
    await page.getByRole('button', { name: /^failed/ }).click();
    await set('Definition', 'definition-4');
    await set('Image', 'registry.example/team/image-4');
    await set('Topic', 'topic-2');
    await page.getByText('No run matches these filters').waitFor();
    await page.getByRole('button', { name: 'Remove the filter Topic: topic-2' }).click();
    await page.getByRole('row').nth(1).waitFor();
    assert.equal(
      new URL(page.url()).search,
      '?state=FAILED&op_definition=definition-4&image=registry.example%2Fteam%2Fimage-4',
    );
    await page.reload();
    await page.getByRole('row').nth(1).waitFor();
    const shown = await page.getByRole('row').allInnerTexts();
    for (const text of shown.slice(1)) assert.match(text, /failed[\s\S]*definition-4/);

    await page.getByRole('button', { name: 'Clear filters' }).click();
    await page.waitForURL('**/ui/runs');
    await page.getByRole('button', { name: 'Filters', exact: true }).click();
    const created = page.getByRole('group', { name: 'Created in the last' });
    await created.getByRole('button', { name: '15 minutes' }).click();
    await page.getByRole('button', { name: /^Remove the filter Created from/ }).waitFor();
    await page.getByLabel('Created to').fill('2001-02-03T04:05:06');
    await page.getByText('No run matches these filters').waitFor();
    assert.match(page.url(), /from=20.*&to=2001-02-0[234]T/);
    await page.getByRole('button', { name: /^Remove the filter Created to/ }).click();
    await page.getByRole('row').nth(1).waitFor();
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await set('Worker', 'worker-3');
    await page
      .getByRole('group', { name: 'Ended in the last' })
      .getByRole('button', { name: 'hour' })
      .click();
    await page.getByRole('button', { name: /^Remove the filter Ended from/ }).waitFor();
    assert.match(new URL(page.url()).search, /^\?worker_id=worker-3&ended_from=20/);
    const [newest] = await database.dataSource.query(
      `select id from runs where worker_id = 'worker-3' order by created_at desc, id desc limit 1`,
    );
    await untilFirst(opened, (id) => id === newest.id);
    await page.goto(`${service.url}/ui/runs?state=NONE`);
    await page.getByText("Invalid state 'NONE'").waitFor();
    opened.expectErrors(/400/);
    await page.getByRole('button', { name: /^All/ }).click();
    await page.getByRole('row').nth(1).waitFor();
  });

  test('finds runs by labels and names, shows both, changes them, and keeps a view under a name', async () => {
    const run = await steps.create({ name: 'nightly training', labels: { team: 'vision', stage: 'train' } });
    await steps.create({ labels: { team: 'vision' } });
    const opened = await show({ width: 1920 });
    const { page } = opened;
    await page.getByRole('row').nth(5).waitFor();
    await page.keyboard.press('f');
    await page.getByLabel('Labels', { exact: true }).fill('team=vision, stage');
    await page.keyboard.press('Enter');
    await page.getByLabel('Name begins with', { exact: true }).fill('night');
    await page.keyboard.press('Enter');
    await untilFirst(opened, (id) => id === run.id);
    assert.equal(await total(opened), '2');
    await row(opened, run.id).getByText('nightly training').waitFor();
    await row(opened, run.id).getByText('team=vision').waitFor();
    await page.getByRole('button', { name: 'Save view' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Nightly');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.goto(`${service.url}/ui/runs`);
    await page.getByRole('link', { name: 'Nightly', exact: true }).click();
    await untilFirst(opened, (id) => id === run.id);
    await page.getByRole('button', { name: 'Remove the view Nightly' }).click();
    await page.getByRole('link', { name: 'Nightly', exact: true }).waitFor({ state: 'detached' });

    await page.goto(`${service.url}/ui/runs/${run.id}`);
    await page.getByRole('button', { name: 'Labels', exact: true }).click();
    await page.getByLabel('Name', { exact: true }).fill('');
    await page.getByRole('button', { name: 'Labels: remove row 2' }).click();
    await page.getByLabel('Labels: value 1').fill('audio');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await until(async () => (await steps.get(run.id)).labels.team === 'audio', 'the change');
    const changed = await steps.get(run.id);
    assert.deepEqual([changed.name, changed.labels], [null, { team: 'audio' }]);
  });

  test('pages both ways, and keeps the place over reloads, back and forward', async () => {
    const opened = await show();
    const { page } = opened;
    await page.getByRole('row').nth(5).waitFor();
    const newer = page.getByRole('button', { name: 'Previous' }).first();
    const older = page.getByRole('button', { name: 'Next' }).first();
    const [first] = await rowIds(opened);
    assert.equal(await newer.isDisabled(), true);
    await older.click();
    await page.waitForURL('**starting_after=*');
    await untilFirst(opened, (id) => id !== first);
    const [second] = await rowIds(opened);
    await page.reload();
    await untilFirst(opened, (id) => id === second);
    await older.click();
    await untilFirst(opened, (id) => id !== second);
    await newer.click();
    await page.waitForURL('**ending_before=*');
    await untilFirst(opened, (id) => id === second);
    await page.goBack();
    await page.goBack();
    await untilFirst(opened, (id) => id === second);
    await page.goForward();
    await page.goForward();
    await untilFirst(opened, (id) => id === second);
    await newer.click();
    await untilFirst(opened, (id) => id === first);
    assert.equal(new URL(page.url()).search, '', 'the newest page needs no cursor');
  });

  test('shows new runs on the newest page, and only their number on others', async () => {
    const opened = await show();
    const { page } = opened;
    await page.getByRole('row').nth(5).waitFor();
    const run = await steps.create({ image: 'fresh-1' });
    await row(opened, run.id).waitFor();
    assert.equal((await rowIds(opened))[0], run.id);
    assert.ok((await opened.layoutShift()) < 0.01, await page.evaluate('window.layoutShifts.join()'));

    await page.getByRole('button', { name: 'Next' }).first().click();
    await page.waitForURL('**starting_after=*');
    await untilFirst(opened, (id) => id !== run.id);
    const known = await rowIds(opened);
    // The number counts from when the page was opened, which the service has to be asked for.
    await page.waitForResponse((answer) => answer.url().includes('limit=20'));
    await steps.create({ image: 'fresh-2' });
    const last = await steps.create({ image: 'fresh-3' });
    const button = page.getByRole('button', { name: '2 new runs' });
    await button.waitFor();
    assert.deepEqual(await rowIds(opened), known);
    await button.click();
    await row(opened, last.id).waitFor();
    assert.equal(new URL(page.url()).search, '');
  });

  test('creates a run, and shows what is wrong with it at its fields', async () => {
    const opened = await show();
    const { page } = opened;
    await page.getByRole('row').nth(5).waitFor();
    await page.keyboard.press('c');
    const dialog = page.getByRole('dialog', { name: 'New run' });
    assert.equal(await page.evaluate('document.activeElement.placeholder'), 'longshore/word-count');
    await page.keyboard.press('Enter');
    await dialog.getByText('Name a container image.').waitFor();
    const noteOf = async (label: string): Promise<string> => {
      const field = dialog.getByLabel(label, { exact: true });
      assert.equal(await field.getAttribute('aria-invalid'), 'true');
      return page.locator(`[id="${await field.getAttribute('aria-describedby')}"]`).innerText();
    };
    await dialog.getByLabel('Image', { exact: true }).fill('not an image');
    await dialog.getByLabel('Inputs').fill('{"text": ');
    await dialog.getByLabel('CPUs').fill('many');
    await dialog.getByRole('button', { name: 'Create run' }).click();
    assert.match(await noteOf('Inputs'), /This is not JSON/);
    assert.equal(await noteOf('CPUs'), 'Enter a whole number.');
    await dialog.getByLabel('Inputs').fill('{"text": "to be"}');
    await dialog.getByLabel('CPUs').fill('-1');
    await dialog.getByLabel('Attempts').fill('5000');
    await dialog.getByLabel('Attempt timeout in s').fill('0');
    await dialog.getByRole('button', { name: 'Create run' }).click();
    await dialog.getByText(/image must be/).waitFor();
    opened.expectErrors(/400/);
    assert.match(await noteOf('Image'), /^image must be an image reference/);
    assert.match(await noteOf('CPUs'), /^constraints\.cpu must be/);
    assert.match(await noteOf('Attempts'), /^retry_policy\.max_attempts must be/);
    assert.match(await noteOf('Attempt timeout in s'), /^timeouts\.attempt_s must be/);
    await opened.checkAccessibility();

    await dialog.getByLabel('Image', { exact: true }).fill('made/here');
    await dialog.getByLabel('CPUs').fill('2');
    await dialog.getByLabel('Attempts').fill('5');
    await dialog.getByLabel('Priority').fill('-7');
    await dialog.getByLabel('Start within, in s').fill('600');
    await dialog.getByLabel('Attempt timeout in s').fill('90');
    await dialog.getByLabel('Topic').fill('orders');
    await dialog.getByRole('button', { name: 'Create run' }).click();
    await page.getByText(/^Created run/).waitFor();
    await dialog.waitFor({ state: 'detached' });
    const line = page.getByRole('row').filter({ hasText: 'made/here' });
    const run = await steps.get((await line.locator('code').getAttribute('title')) ?? '');
    assert.deepEqual(
      [
        run.inputs,
        run.constraints.cpu,
        run.retry_policy.max_attempts,
        run.priority,
        run.event_delivery.topic,
        run.timeouts,
      ],
      [{ text: 'to be' }, 2, 5, -7, 'orders', { start_within_s: 600, attempt_s: 90 }],
    );
    await page.getByRole('region', { name: 'Messages' }).getByRole('link').click();
    await page.waitForURL(`**/ui/runs/${run.id}`);
  });

  test('says what to do where there is nothing', async () => {
    const opened = await show({ path: '/runs?image=none/such' });
    await opened.page.getByText('No run matches these filters').waitFor();
    await opened.page.getByText('compared to the letter').waitFor();
    await opened.page.getByRole('button', { name: 'Clear filters' }).last().click();
    await opened.page.getByRole('row').nth(5).waitFor();
    await opened.page.goto(`${service.url}/ui/runs?starting_after=00000000-0000-7000-8000-000000000000`);
    await opened.page.getByText('The cursor is not the id of a run').waitFor();
    opened.expectErrors(/400/);
    await opened.page.getByRole('button', { name: 'Newest runs' }).click();
    await opened.page.getByRole('row').nth(5).waitFor();
  });

  test('works for everybody: both themes, three widths, filters and selection open', async () => {
    await checkLooks(
      (look) => show({ ...look, path: '/runs?state=FAILED' }),
      async (page) => {
        await page.getByRole('row').nth(2).waitFor();
        await page.getByRole('button', { name: 'Filters', exact: true }).click();
        await page.getByRole('row').nth(1).getByRole('checkbox').click();
      },
    );
  });
});
