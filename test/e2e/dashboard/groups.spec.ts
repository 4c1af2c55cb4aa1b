import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { until } from '../../support/app/passing-time.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

/** `load` waits for `extract`, `report` for `load` and for `extract`. */
const CHAIN = [
  { ref: 'extract', image: 'image' },
  { ref: 'load', image: 'image', depends_on: [{ ref: 'extract' }] },
  { ref: 'report', image: 'image', depends_on: [{ ref: 'load' }, { ref: 'extract', when: 'ended' }] },
];

describe('the pages of groups', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let send: Send;
  let steps: RunSteps;

  beforeAll(async () => {
    service = await startService();
    send = senderTo(service.url, service.adminKey);
    steps = new RunSteps(send);
  });
  afterAll(() => service?.stop());

  const show = (path: string, options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, path, apiKey: service.adminKey, ...options });
  const create = async (body: object): Promise<string> => {
    const { status, text, body: group } = await send('POST', '/groups', { body });
    assert.equal(status, 201, text);
    return group.id;
  };
  /** The runs of a group by their ref, or by their index, once there are as many. */
  const membersOf = (group: string, size = CHAIN.length): Promise<Record<string, string>> =>
    until(
      async () => {
        const { body } = await send('GET', `/runs?group=${group}&limit=100`);
        return Object.fromEntries(
          body.data.map((run: Member) => [run.group.ref ?? run.array?.index, run.id]),
        );
      },
      (members) => Object.keys(members).length === size,
    );
  const end = async (id: string | undefined, event: 'COMPLETED' | 'FAILED'): Promise<void> => {
    await steps.emptyQueue();
    await steps.event(String(id), 'STARTED', { worker_id: 'w' });
    await steps.event(String(id), event);
  };

  test('draws what waits for what, and leads from a node to its run, which leads back', async () => {
    const { id: before } = await steps.create({ name: 'import' });
    const [extract, ...rest] = CHAIN;
    const id = await create({ name: 'etl', runs: [{ ...extract, depends_on: [{ run: before }] }, ...rest] });
    const members = await membersOf(id);
    await end(before, 'COMPLETED');
    const { page } = await show(`/groups/${id}`);
    const graph = page.getByRole('group', { name: 'Graph of the group' });
    const nodes = graph.getByRole('link');
    await nodes.nth(3).waitFor();
    assert.deepEqual(await nodes.locator('> title').allTextContents(), [
      `import: completed, a run outside of the group (${before})`,
      `extract: pending (${members['extract']})`,
      `load: pending (${members['load']})`,
      `report: pending (${members['report']})`,
    ]);
    const lines = await graph.locator('path title').allTextContents();
    assert.deepEqual(lines.toSorted(), [
      'extract → load: completed, open',
      'extract → report: ended, open',
      'import → extract: completed, met',
      'load → report: completed, open',
    ]);
    await nodes.nth(2).focus();
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/runs/${members['load']}`);
    await page.getByRole('button', { name: 'Why does it wait?' }).click();
    await page.getByText('none: another run on which it depends has not ended').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'load', exact: true }).click();
    await page.waitForURL(`**/groups/${id}`);
  });

  test('shows how far the members are, names those that failed, and retries them', async () => {
    const id = await create({ name: 'failing', runs: CHAIN });
    const { extract } = await membersOf(id);
    const { page } = await show(`/groups/${id}`);
    const progress = page.getByRole('progressbar', { name: 'Members that have ended' });
    await page.getByText('3 pending').waitFor();
    assert.equal(await progress.getAttribute('aria-valuetext'), '0 %: 3 pending');
    await end(extract, 'FAILED');
    await page.getByText('1 failed').waitFor();
    const failed = page.getByRole('region', { name: 'Failed members' });
    assert.equal(
      await failed.getByRole('link', { name: 'extract' }).getAttribute('href'),
      `/ui/runs/${extract}`,
    );
    const table = page.getByRole('table', { name: 'Members' });
    await page.getByLabel('State').selectOption('CANCELLED');
    await page.waitForURL('**?state=CANCELLED');
    await table.getByRole('row').filter({ hasText: 'extract' }).waitFor({ state: 'detached' });
    await table.getByRole('row').filter({ hasText: 'load' }).getByText('cancelled').waitFor();
    await page.getByRole('button', { name: 'Retry' }).click();
    await confirm(page, 'Retry');
    await page.getByText('The failed members run again.').waitFor();
    await failed.waitFor({ state: 'detached' });
    assert.equal((await send('GET', `/groups/${id}`)).body.counts.pending, 3);
  });

  test('cancels a group for a reason, which it shows then', async () => {
    const id = await create({ name: 'unwanted', runs: CHAIN });
    const { page } = await show(`/groups/${id}`);
    await page.getByRole('main').getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').getByLabel('Reason').fill('Stocktaking');
    await confirm(page, 'Cancel');
    await page.getByText('Stocktaking').waitFor();
    await page.getByText('3 cancelled').waitFor();
    assert.equal((await send('GET', `/groups/${id}`)).body.state, 'cancelled');
  });

  test('shows the members of an array by their index, those that failed first to last, and what it waits for', async () => {
    const id = await create({ array: { size: 12, run: { image: 'image' } } });
    const members = await membersOf(id, 12);
    const waiting = await create({
      array: { size: 300, run: { image: 'image' } },
      depends_on: [{ group: id }],
    });
    await end(members['11'], 'FAILED');
    await end(members['3'], 'FAILED');
    const { page } = await show(`/groups/${id}`);
    const failed = page.getByRole('region', { name: 'Failed members' });
    await failed.getByRole('link').nth(1).waitFor();
    assert.deepEqual(await failed.getByRole('link').allTextContents(), ['3', '11']);
    await failed.getByRole('link', { name: '3', exact: true }).click();
    await page.waitForURL(`**/runs/${members['3']}`);
    await page.getByRole('link', { name: 'index 3 of 12' }).waitFor();
    await page.goto(`${service.url}/ui/groups/${waiting}`);
    await page.getByText(/^group .* \(open\) to complete$/).waitFor();
    await page.getByText('300 not created yet').waitFor();
  });

  test('lists groups, the newest first, and filters them by state', async () => {
    await create({ name: 'kept', runs: CHAIN });
    const stopped = await create({ name: 'stopped', runs: CHAIN });
    await send('POST', `/groups/${stopped}/cancel`);
    const { page } = await show('/groups');
    const rows = page.getByRole('table', { name: 'Groups' }).getByRole('row');
    await rows.filter({ hasText: 'kept' }).getByRole('cell', { name: '3', exact: true }).waitFor();
    assert.deepEqual((await rows.getByRole('link').allInnerTexts()).slice(0, 2), ['stopped', 'kept']);
    const progress = rows.filter({ hasText: 'stopped' }).getByRole('progressbar');
    assert.equal(await progress.getAttribute('aria-valuetext'), '100 %: 3 cancelled');
    await page.getByLabel('State').selectOption('cancelled');
    await page.waitForURL('**/groups?state=cancelled');
    await rows.filter({ hasText: 'kept' }).waitFor({ state: 'detached' });
    await rows.getByRole('link', { name: 'stopped' }).click();
    await page.getByRole('heading', { name: 'stopped' }).waitFor();
  });

  test('draws 200 nodes, and lists more in place of a graph', async () => {
    const { page } = await show(`/groups/${await create({ runs: fan(200) })}`);
    await page.getByRole('group', { name: 'Graph of the group' }).getByRole('link').nth(199).waitFor();
    await page.goto(`${service.url}/ui/groups/${await create({ runs: fan(201) })}`);
    await page.getByText('A graph of more than 200 nodes is not drawn.').waitFor();
    await page.getByRole('table', { name: 'Members' }).getByText('part-200').waitFor();
  });

  test('is accessible and fits, in both themes and at each width: list, group', async () => {
    await checkLooks(
      (look) => show('/groups', look),
      (page) => page.getByRole('link', { name: 'failing' }).waitFor(),
      async (page) => {
        await page.getByRole('link', { name: 'failing' }).click();
        await page.getByRole('group', { name: 'Graph of the group' }).waitFor();
      },
    );
  });
});

/** The first run, and others that wait for it. */
function fan(size: number): object[] {
  return Array.from({ length: size }, (_, index) => ({
    ref: `part-${index}`,
    image: 'image',
    ...(index > 0 && { depends_on: [{ ref: 'part-0' }] }),
  }));
}

interface Member {
  readonly id: string;
  readonly group: { readonly ref: string | null };
  readonly array: { readonly index: number } | null;
}

/** Answers the question of an action. */
async function confirm(page: Page, action: string): Promise<void> {
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: action, exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}
