import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, until, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { endWorker, ScriptImages, untilFile } from '../../support/workers/worker-process.js';
import { skipFor } from '../../support/skip.js';

describe('the overview', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let steps: RunSteps;

  beforeAll(async () => {
    service = await startService({ env: { SERVICE_SCHEDULER: 'fit' } });
    steps = new RunSteps(senderTo(service.url, service.adminKey));
  });

  const show = (options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, apiKey: service.adminKey, ...options });

  test('tells who comes first how to get a worker and a run', async () => {
    await checkLooks(show, (page) => page.getByText('Nothing here yet').waitFor());
    const { page } = await show();
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByText(`SERVICE_URL=${service.url}`).waitFor();
    await page.getByRole('button', { name: 'Copy the command that creates a run' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const copied = await page.evaluate<string>('navigator.clipboard.readText()');
    assert.ok(copied.startsWith(`curl -sS ${service.url}/runs`), copied);
  });

  test('follows a worker and its runs from the first to the last, and does not move', async () => {
    const images = await ScriptImages.make();
    const gate = images.gate('go');
    await images.add('held', untilFile(gate.path));
    await images.add('bad', 'exit 3');
    const opened = await show();
    const { page } = opened;
    await page.getByText('Nothing here yet').waitFor();
    const pending = await steps.create({ image: 'held', constraints: { cpu: 1 } });
    await page.getByRole('link', { name: 'pending 1', exact: true }).waitFor();
    await page.getByText('No worker takes runs now').waitFor();
    const known = await opened.layoutShift();

    const worker = await images.startWorker({ url: service.url, key: service.adminKey, id: 'real-worker' });
    await page.getByRole('link', { name: 'running 1' }).waitFor();
    await page.getByRole('link', { name: '1 active' }).waitFor();
    const cpu = page.getByRole('meter', { name: 'CPU cores' });
    await until(async () => (await cpu.getAttribute('aria-valuenow')) === '1', 'a core in use');
    assert.match((await cpu.getAttribute('aria-valuetext')) ?? '', /^1 of \d+ used$/);
    await page.getByText('No run is pending.').waitFor();

    await gate.open();
    await steps.create({ image: 'bad' });
    await page.getByRole('link', { name: 'completed 1' }).waitFor();
    await page.getByRole('link', { name: 'failed 1' }).waitFor();
    assert.equal((await steps.get(pending.id)).state, 'COMPLETED');
    const table = page.getByRole('table', { name: /Runs by minute/ });
    assert.match((await table.innerText()).replaceAll(/\s+/g, ' '), /completed failed cancelled created/i);
    const readout = page.locator('dl');
    assert.match(
      (await readout.innerText()).replaceAll(/\s+/g, ' '),
      /failed 1 .*created 2 failure rate 50 %/,
    );
    assert.ok((await opened.layoutShift()) - known < 0.01, await page.evaluate('window.layoutShifts.join()'));
    await endWorker(worker);
  });

  test('says what happened in a minute, by pointer and by keyboard', async () => {
    const { page } = await show({ width: 1920 });
    const chart = page.getByRole('slider', { name: 'Runs by minute over the last hour' });
    const words = async (): Promise<string> => (await chart.getAttribute('aria-valuetext')) ?? '';
    await chart.focus();
    assert.match(
      await words(),
      /^Last hour: 1 completed, 1 failed, 0 cancelled, 2 created, failure rate 50 %$/,
    );
    await page.keyboard.press('Home');
    assert.match(await words(), /^\d\d:\d\d: 0 completed, .* failure rate –$/);
    assert.equal(await chart.getAttribute('aria-valuenow'), '0');
    await page.keyboard.press('ArrowRight');
    assert.equal(await chart.getAttribute('aria-valuenow'), '1');
    await page.keyboard.press('End');
    await page.keyboard.press('ArrowLeft');
    assert.equal(await chart.getAttribute('aria-valuenow'), '58');
    await page.keyboard.press('Escape');
    assert.match(await words(), /^Last hour/);
    const box = (await chart.boundingBox()) ?? assert.fail();
    await page.mouse.move(box.x + box.width * 0.505, box.y + 10);
    assert.equal(await chart.getAttribute('aria-valuenow'), '30');
    await page.mouse.move(box.x + box.width / 2, box.y - 100);
    assert.match(await words(), /^Last hour/);
  });

  test('leads to the runs of each state, to the one that waits longest, and to the workers', async () => {
    const oldest = await steps.create({ image: 'never', constraints: { cpu: 100_000 } });
    const { page } = await show();
    for (const state of ['pending', 'assigned', 'running', 'completed', 'failed', 'cancelled']) {
      await page.getByRole('link', { name: new RegExp(`^${state} \\d`) }).click();
      await page.waitForURL(`**/ui/runs?state=${state.toUpperCase()}`);
      await page.getByRole('button', { name: `Remove the filter State: ${state}` }).waitFor();
      await page.goBack();
    }
    await page
      .getByRole('link', { name: /^\d+ s$|^\d+\.\d s$|^\d+ ms$/ })
      .first()
      .click();
    await page.waitForURL('**/ui/runs?state=PENDING&to=*');
    await page
      .getByRole('row')
      .filter({ hasText: oldest.id.slice(0, 8) })
      .waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('o');
    for (const group of ['active', 'draining', 'away', 'stale']) {
      await page.getByRole('link', { name: new RegExp(`^\\d ${group}$`) }).click();
      await page.waitForURL(`**/ui/workers?state=${group}`);
      await page.goBack();
    }
    await page.getByRole('link', { name: '1 pending' }).click();
    await page.waitForURL('**/ui/runs?state=PENDING');
  });

  test('adds up the jobs of launchers by engine, and leads to them', async () => {
    await steps.heartbeat('k-1', { engine: { name: 'kubernetes', pending: 3, running: 12 } });
    await steps.heartbeat('k-2', { engine: { name: 'kubernetes', pending: 1, running: 0 } });
    const opened = await show();
    const engines = opened.page.getByRole('list', { name: 'Engines' });
    await engines.getByText('kubernetes: 4 jobs pending, 12 running, by 2 launchers').waitFor();
    await engines.getByRole('link', { name: 'kubernetes' }).click();
    await opened.page.waitForURL('**/ui/workers?q=kubernetes');
    await opened.page.getByRole('button', { name: /^k-2/ }).waitFor();
  });

  test('works for everybody: both themes, three widths', async () => {
    await checkLooks(show, (page) => page.getByRole('heading', { name: 'Capacity' }).waitFor());
  });
});
