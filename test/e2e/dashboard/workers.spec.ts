import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { registerWorkers, reportRuns } from '../../support/browser/browser-workers.js';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

describe('the page of workers', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let steps: RunSteps;

  beforeAll(async () => {
    service = await startService({
      // None of them becomes stale, however long the tests take.
      env: { SERVICE_SCHEDULER: 'fit', SERVICE_WORKER_TIMEOUT: '3600' },
    });
    steps = new RunSteps(senderTo(service.url, service.adminKey));
    await registerWorkers(steps, 500);
  });

  const show = (options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, path: '/workers', apiKey: service.adminKey, ...options });

  test('shows what a worker has, what is used and what runs on it, without being asked', async () => {
    const { page } = await show({ path: '/workers?q=busy', width: 1920 });
    await page.getByText('No worker matches these filters').waitFor();
    await reportRuns(steps, 'busy', []);
    await page.getByRole('button', { name: /^busy/ }).waitFor();
    const row = page.getByRole('row').filter({ hasText: 'busy' });
    await row.getByText('idle').waitFor();

    const constraints = { cpu: 4, ram_mb: 8192, vram_mb: 10_240 };
    const run = await steps.create({ constraints, priority: 9 });
    await steps.claimUntil(run.id, 'busy');
    await reportRuns(steps, 'busy', [run.id]);
    const meter = (name: string) => row.getByRole('meter', { name });
    await row.getByTitle(run.id).waitFor();
    assert.equal(await meter('CPU cores').getAttribute('aria-valuetext'), '4 of 16 used');
    assert.equal(await meter('RAM').getAttribute('aria-valuetext'), '8 GB of 32 GB used');
    assert.equal(await meter('GPU 0 a100').getAttribute('aria-valuetext'), '10 GB of 40 GB used');
    await steps.event(run.id, 'COMPLETED');
  });

  test('shows a silent worker without the runs that others have, and in grey what it last reported', async () => {
    const short = await startService({
      env: { SERVICE_WORKER_TIMEOUT: '5', SERVICE_REAPER_INTERVAL: '0.2' },
    });
    const of = new RunSteps(senderTo(short.url, short.adminKey));
    const run = await of.create();
    await reportRuns(of, 'silent', []);
    await of.claimUntil(run.id, 'silent');
    await reportRuns(of, 'silent', [run.id]);
    const opened = await openPage({ url: short.url, path: '/workers', apiKey: short.adminKey, width: 1920 });
    const { page } = opened;
    const row = page.getByRole('row').filter({ hasText: 'silent' });
    await row.getByText('stale').waitFor();
    await row.getByText('last reported: 1').waitFor();
    assert.equal(await row.getByTitle(run.id).count(), 0);
    await page.getByRole('button', { name: /^silent/ }).click();
    const dialog = page.getByRole('dialog', { name: 'silent' });
    await dialog.getByText('No run is assigned to the worker.').waitFor();
    await dialog.getByRole('heading', { name: 'Last reported (1)' }).waitFor();
    await opened.checkAccessibility();
    await dialog.getByRole('link', { name: 'Runs of this worker' }).click();
    await page.getByText('No run matches these filters').waitFor();
    await page.getByRole('button', { name: 'Remove the filter Worker: silent' }).click();
    await page.getByRole('row').nth(1).waitFor();
    await opened.close();
    await short.stop();
  });

  test('does not move while it is live', async () => {
    const opened = await show({ width: 1024 });
    const { page } = opened;
    await page.getByRole('button', { name: /^worker-1\b/ }).waitFor();
    for (let change = 0; change < 3; change += 1) {
      await reportRuns(steps, 'worker-2', change % 2 === 0 ? ['a', 'b', 'c'] : []);
      await page
        .getByRole('row')
        .filter({ hasText: 'worker-2' })
        .first()
        .getByText(change % 2 === 0 ? 'last reported: 3' : 'idle')
        .waitFor();
    }
    assert.ok((await opened.layoutShift()) < 0.01, String(await page.evaluate('window.layoutShifts.join()')));
  });

  test('drains a worker and lets it go on, after a question', async () => {
    const { page } = await show({ path: '/workers?q=worker-77' });
    await page.getByRole('button', { name: 'Drain worker-77' }).click();
    const dialog = page.getByRole('dialog', { name: 'Drain worker-77?' });
    await dialog.getByText('It finishes its current runs').waitFor();
    await dialog.getByRole('button', { name: 'Back' }).click();
    await dialog.waitFor({ state: 'detached' });
    assert.equal((await steps.heartbeat('worker-77')).draining, false);

    await page.getByRole('button', { name: 'Drain worker-77' }).click();
    await dialog.getByRole('button', { name: 'Drain', exact: true }).click();
    await page.getByText('worker-77 takes no new runs.').getByRole('link', { name: 'worker-77' }).waitFor();
    await page.getByRole('row').getByText('draining', { exact: true }).waitFor();
    assert.equal((await steps.heartbeat('worker-77')).draining, true);

    await page.getByRole('button', { name: 'Resume worker-77' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Resume', exact: true }).click();
    await page.getByText('worker-77 takes runs again.').waitFor();
    await page.getByRole('button', { name: 'Drain worker-77' }).waitFor();
    assert.equal((await steps.heartbeat('worker-77')).draining, false);
    await page.getByRole('button', { name: 'Dismiss' }).first().click();
  });

  test('offers no drain to a key that may not', async () => {
    const body = { name: 'reader', scopes: ['client'] };
    const { key } = (await steps.send('POST', '/api-keys', { body })).body;
    const opened = await show({ apiKey: key });
    await opened.page.getByRole('button', { name: /^worker-1\b/ }).click();
    await opened.page.getByRole('dialog', { name: 'worker-1' }).getByText('First heartbeat').waitFor();
    assert.equal(await opened.page.getByRole('button', { name: /^Drain|^Resume/ }).count(), 0);
  });

  test('filters by text and state, and keeps the filters in the address', async () => {
    const { page } = await show();
    await page.getByRole('button', { name: /^worker-1\b/ }).waitFor();
    await page.getByLabel('Search workers').fill('worker-49');
    await page.getByRole('button', { name: /^worker-499/ }).waitFor();
    await page.getByLabel('State').selectOption('active');
    await page.waitForURL('**/workers?q=worker-49&state=active');
    await page.reload();
    await page.getByRole('button', { name: /^worker-499/ }).waitFor();
    // worker-49 and worker-490 to worker-499, and the headings.
    assert.equal(await page.getByRole('table').getAttribute('aria-rowcount'), '12');
    await page.getByLabel('Search workers').fill('nothing like it');
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await page.waitForURL('**/workers');
    await page.getByLabel('Search workers').fill('x');
    await page.getByRole('button', { name: 'Clear', exact: true }).click();
    await page.waitForURL('**/workers');
  });

  test('goes by keyboard alone: search, rows, opening, closing, help', async () => {
    const { page } = await show();
    const focused = (): Promise<string> => page.evaluate('document.activeElement.innerText');
    await page.getByRole('button', { name: /^worker-1\b/ }).waitFor();
    await page.keyboard.press('Tab');
    assert.match(await focused(), /^Skip/);
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).getByText('Go to Workers').waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('/');
    assert.equal(await page.evaluate('document.activeElement.type'), 'search');
    await page.keyboard.type('worker-4');
    await page.keyboard.press('Escape');
    await page
      .getByRole('button', { name: /^busy|^worker-1\b/ })
      .first()
      .focus();
    await page.keyboard.press('End');
    await page.waitForFunction('document.activeElement.innerText.startsWith("worker-500")');
    await page.keyboard.press('ArrowUp');
    await page.waitForFunction('document.activeElement.innerText.startsWith("worker-499")');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'worker-499' }).getByText('Last heartbeat').waitFor();
    assert.match(page.url(), /worker=worker-499/);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.match(await focused(), /^worker-499/);
    await page.keyboard.press('Home');
    await page.waitForFunction('!document.activeElement.innerText.startsWith("worker-499")');
    await page.keyboard.press('g');
    await page.keyboard.press('w');
    assert.match(page.url(), /\/ui\/workers/);
  });

  test('holds 500 workers in a few rows, and scrolls through them', async () => {
    const { page } = await show({ width: 1920 });
    await page.getByRole('button', { name: /^worker-1\b/ }).waitFor();
    assert.ok(Number(await page.getByRole('table').getAttribute('aria-rowcount')) > 500);
    assert.ok((await page.getByRole('row').count()) < 60);
    await page.evaluate(`new Promise((resolve) => {
      let step = 0;
      const frame = () => {
        scrollTo(0, document.documentElement.scrollHeight * (step += 1) / 60);
        if (step < 60) requestAnimationFrame(frame); else resolve();
      };
      requestAnimationFrame(frame);
    })`);
    await page.getByRole('button', { name: /^worker-500/ }).waitFor();
  });

  test('says that a worker of a link is gone', async () => {
    const opened = await show({ path: '/workers?worker=nobody' });
    await opened.page.getByRole('dialog', { name: 'nobody' }).getByText('Worker not found').waitFor();
    await opened.page.getByRole('button', { name: 'Close' }).click();
    await opened.page.waitForURL('**/workers');
  });

  test('shows why a worker does not claim, until it does again', async () => {
    const reasons = [{ reason: 'disk_full', message: "the engine's disk is full" }];
    await steps.heartbeat('full-1', { not_claiming: reasons });
    const { page } = await show({ path: '/workers?q=full-1', width: 1920 });
    const row = page.getByRole('row').filter({ hasText: 'full-1' });
    await row.getByText('not claiming').waitFor();
    await page.getByRole('button', { name: /^full-1/ }).click();
    const dialog = page.getByRole('dialog', { name: 'full-1' });
    await dialog.getByText("disk full: the engine's disk is full").waitFor();
    await steps.heartbeat('full-1');
    await dialog.getByText('Does not claim').waitFor({ state: 'detached' });
    await dialog.getByText('active', { exact: true }).waitFor();
  });

  test('shows the jobs of a launcher in its engine, and finds it by that', async () => {
    const { page } = await show({ width: 1920 });
    await page.getByRole('button', { name: /^worker-1\b/ }).waitFor();
    const engine = { name: 'kubernetes', pending: 3, running: 1200 };
    await steps.heartbeat('launcher-1', { engine });
    await page.getByLabel('Search workers').fill('kubernetes');
    const jobs = page.getByRole('list', { name: 'Jobs in kubernetes' });
    await jobs.getByText('3 pending').waitFor();
    await jobs.getByText('1,200 running').waitFor();
    assert.equal(await page.getByRole('table').getAttribute('aria-rowcount'), '2');
    await steps.heartbeat('launcher-1', { engine: { ...engine, pending: 0 } });
    await jobs.getByText('0 pending').waitFor();
    await page.getByRole('button', { name: /^launcher-1/ }).click();
    const dialog = page.getByRole('dialog', { name: 'launcher-1' });
    await dialog.getByText('Jobs in kubernetes').waitFor();
    await dialog.getByText('0 pending, 1,200 running').waitFor();
  });

  test('works for everybody: both themes, three widths, dialog open or not', async () => {
    await steps.heartbeat('worker-4', { engine: { name: 'slurm', pending: 12, running: 345 } });
    await checkLooks(
      show,
      (page) => page.getByRole('button', { name: /^worker-4\b/ }).waitFor(),
      async (page) => {
        await page.getByRole('button', { name: /^worker-4\b/ }).click();
        await page.getByRole('dialog', { name: 'worker-4' }).waitFor();
      },
    );
  });
});
