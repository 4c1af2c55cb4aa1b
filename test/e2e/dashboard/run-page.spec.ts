import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import type { Page } from 'playwright-core';
import { LogSteps, numbered } from '../../support/browser/run-page-scene.js';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

const UNKNOWN = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

async function seen(text: Promise<string>): Promise<string> {
  return (await text).replaceAll(/\s+/g, ' ');
}

describe('the page of a run', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let steps: RunSteps;
  let logs: LogSteps;

  beforeAll(async () => {
    service = await startService();
    steps = new RunSteps(senderTo(service.url, service.adminKey));
    logs = new LogSteps(steps);
  });

  const show = (id: string, options: Partial<PageOptions> & { query?: string } = {}) =>
    openPage({
      url: service.url,
      path: `/runs/${id}${options.query ?? ''}`,
      apiKey: service.adminKey,
      ...options,
    });

  /** A run that has failed once, was retried by itself, and failed for good. */
  async function failedTwice(): Promise<string> {
    const { id } = await steps.running({
      retry_policy: { max_attempts: 2 },
      inputs: { text: 'to be', list: [1, 2, { deep: true }] },
      event_delivery: { topic: 'orders' },
      timeouts: { attempt_s: 900 },
    });
    await logs.print({ run: id, lines: ['first try'] });
    await steps.event(id, 'FAILED', { error_message: 'no space left' });
    await steps.claimUntil(id, 'w');
    await steps.event(id, 'STARTED', { worker_id: 'w' });
    await steps.event(id, 'PROGRESS', undefined, 40);
    await logs.print({
      run: id,
      attempt: 2,
      lines: ['second try', '\u001B[31mbroken\u001B[0m pipe', 'Traceback: it is over'],
      stderr: new Set([2]),
    });
    await steps.event(id, 'FAILED', { error_message: 'the disk is broken', cause: 'exit', exit_code: 28 });
    return id;
  }

  test('tells a failed run at one glance: why, the end of its log, its attempts', async () => {
    const id = await failedTwice();
    const { page } = await show(id, { width: 1920 });
    await page.getByRole('alert').getByText('the disk is broken').waitFor();
    await page.getByRole('log').getByText('Traceback: it is over').waitFor();
    await page.getByText('3 lines printed, complete').waitFor();
    assert.equal(await page.getByRole('log').locator('[data-stream=stderr]').count(), 1);
    assert.equal(await page.getByRole('progressbar').getAttribute('aria-valuenow'), '40');
    assert.equal(await page.getByText('15 min 00 s').count(), 1);
    assert.equal(await page.getByText('exit, exit code 28').count(), 1);
    assert.match(await page.getByRole('log').innerText(), /broken pipe/);

    await page.getByRole('button', { name: /^Attempt 1/ }).click();
    await page.getByRole('log').getByText('first try').waitFor();
    assert.match(page.url(), /attempt=1/);
    await page.getByRole('tab', { name: /^Timeline/ }).click();
    const events = page.getByRole('list', { name: 'Events' });
    await events
      .getByText('no space left')
      .or(events.getByText('FAILED', { exact: true }))
      .first()
      .waitFor();
    assert.equal(await events.getByText('#1').count(), 3);
    assert.equal(await events.getByText('#2').count(), 0);
  });

  test('shows the whole of a long reason from its end, cause and exit code at the top, on a phone too', async () => {
    const lines = Array.from({ length: 80 }, (_, n) => `line ${n + 1} of the program`);
    const { id } = await steps.running();
    await steps.event(id, 'FAILED', { error_message: lines.join('\n'), cause: 'exit', exit_code: 3 });
    await checkLooks(
      (look) => show(id, look),
      async (page) => {
        const reason = page.getByRole('group', { name: 'Why it failed' });
        await reason.waitFor();
        assert.equal((await reason.innerText()).trim(), lines.join('\n'));
        const [box, words] = [await reason.boundingBox(), await reason.locator('p').boundingBox()];
        const height = page.viewportSize()?.height ?? 0;
        assert.ok(box && words && box.y >= 0 && box.y + box.height <= height);
        const below = words.y + words.height - (box.y + box.height);
        assert.ok(words.height > box.height && below <= 1, 'the last line is in sight, the first one is not');
        const badge = await page.getByText('exit, exit code 3', { exact: true }).boundingBox();
        assert.ok(badge && badge.y < box.y, 'the cause is above the reason');
      },
    );
  });

  test('shows what a program or a worker says of a failure without colours, cursor movements and turned words', async () => {
    const { id } = await steps.running({ retry_policy: { max_attempts: 2 } });
    const words = 'lost\n\u001B[31mdisk\u001B[0m \u001B[2Kfull\u0007 \u202Eexe.txt';
    const shown = String.raw`lost disk full \u202eexe.txt`;
    await steps.event(id, 'NOTE', { reason: words }, words);
    for (const attempt of [1, 2]) {
      await steps.event(id, 'FAILED', { error_message: words });
      if (attempt === 1) {
        await steps.claimUntil(id, 'w');
        await steps.event(id, 'STARTED', { worker_id: 'w' });
      }
    }
    const { page } = await show(id, { query: '?tab=timeline' });
    const standing = page.getByRole('alert').filter({ hasText: 'full' });
    await standing.waitFor();
    assert.ok((await seen(standing.innerText())).includes(shown));
    const first = page.getByRole('button', { name: /^Attempt 1/ });
    assert.ok((await seen(first.innerText())).includes(shown));
    const events = page.getByRole('list', { name: 'Events' });
    const note = events.getByRole('listitem').filter({ hasText: 'NOTE' });
    await note.waitFor();
    assert.ok((await seen(note.innerText())).includes(shown));
    await note.getByRole('button', { name: /^Payload/ }).click();
    assert.match(await note.getByRole('tree').innerText(), /\\u202eexe/);
    assert.match(await events.getByRole('listitem').filter({ hasText: 'FAILED' }).last().innerText(), /disk/);
    await page.goto(new URL('/ui/runs', page.url()).href);
    await page.getByText('exe.txt').first().waitFor();
    // oxlint-disable-next-line no-control-regex -- these must not be there
    assert.doesNotMatch(await page.locator('main').innerText(), /[\x07\x1b\r\u202e]/);
  });

  test('says where the job of a launcher waits and why, as it changes, and that it is executed', async () => {
    const { id } = await steps.assigned({ timeouts: { start_within_s: 3600 } });
    const { page } = await show(id, { query: '?tab=timeline' });
    const standing = page.getByRole('status').filter({ hasText: 'Handed to' });
    await standing.waitFor();
    const job = { engine: 'kubernetes', engine_id: 'b6f1c0de-8a5d-4f0e-9d53-2f1f7a0c4e11' };
    const reasons = ['0/3 nodes are available: 3 Insufficient cpu.', 'ContainerCreating'];
    for (const reason of reasons) {
      await steps.event(id, 'SUBMITTED', { ...job, reason }, 'Submitted to kubernetes');
      const told = `It waits in kubernetes as job ${job.engine_id}: ${reason.replace(/\.$/, '')}.`;
      await standing.getByText(told).waitFor();
      await page.getByRole('list', { name: 'Events' }).getByText(reason).waitFor();
    }
    await checkLooks(
      (look) => show(id, { ...look, query: '?tab=timeline' }),
      (other) => other.getByText('It waits in kubernetes').waitFor(),
    );
    await steps.event(id, 'STARTED', { worker_id: 'w' });
    await page
      .getByRole('status')
      .getByText(`It is executed by kubernetes as job ${job.engine_id}.`)
      .waitFor();
  });

  test('unfolds payloads, filters the timeline by type, and turns it around', async () => {
    const id = await failedTwice();
    const { page } = await show(id, { query: '?tab=timeline' });
    const events = page.getByRole('list', { name: 'Events' });
    await events.getByText('PROGRESS').waitFor();
    assert.equal(await page.getByRole('tab', { name: 'Timeline (6)' }).count(), 1);
    await events.getByText('40 %').waitFor();
    assert.equal(await events.getByText(/^\+/).count(), 5);
    await page.getByRole('button', { name: 'Payload of event 1' }).click();
    await page.getByRole('tree').getByText('"no space left"').waitFor();
    await page.getByRole('searchbox', { name: 'Filter events' }).fill('retr');
    await page.getByText('1 of 6 events').waitFor();
    assert.match(page.url(), /type=retr/);
    await page.keyboard.press('Escape');
    await page.getByRole('checkbox', { name: 'Newest first' }).check();
    assert.match(await events.getByRole('listitem').first().innerText(), /FAILED/);
  });

  test('shows inputs and outputs as JSON that folds', async () => {
    const id = await failedTwice();
    const { page } = await show(id);
    await page.getByRole('log').waitFor();
    await page.keyboard.press('i');
    const inputs = page.getByRole('tree', { name: 'inputs' });
    await inputs.getByText('"to be"').waitFor();
    await inputs.focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowLeft');
    await inputs.getByText('"to be"').waitFor({ state: 'detached' });
    await page.keyboard.press('ArrowRight');
    await inputs.getByText('"to be"').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Copy the inputs' }).count(), 1);
    await page.getByRole('tab', { name: 'Inputs and outputs' }).focus();
    await page.keyboard.press('ArrowLeft');
    await page.getByRole('list', { name: 'Events' }).waitFor();
  });

  test('says why a run waits, in plain words, until it does not', async () => {
    await steps.heartbeat('small', { resources: { cpu_cores: 1, ram_mb: 512, gpus: [] } });
    const { id } = await steps.create({ constraints: { cpu: 64 }, image: 'huge' });
    const opened = await show(id);
    const { page } = opened;
    await page
      .getByRole('status')
      .getByText(/in the queue/)
      .waitFor();
    await page.getByText('There is no log').waitFor();
    await page.getByRole('button', { name: 'Why does it wait?' }).click();
    const dialog = page.getByRole('dialog', { name: 'Why does it wait?' });
    await dialog.getByRole('link', { name: 'small' }).waitFor();
    await dialog.getByText('Place in the queue').waitFor();
    await opened.checkAccessibility();
    assert.equal((await steps.send('POST', `/runs/${id}/cancel`)).status, 200);
    await dialog.getByText('It does not wait any more.').waitFor();
    await page.keyboard.press('Escape');
    await page.getByText('The attempt ended before a worker had it').waitFor();
  });

  test('follows a run without moving, and rests when it has ended', async () => {
    const { id } = await steps.running({ image: 'lively' });
    const opened = await show(id);
    const { page } = opened;
    await page.getByText('No output yet').waitFor();
    const shiftBefore = await opened.layoutShift();
    for (const percent of [10, 50, 90]) {
      await steps.event(id, 'PROGRESS', undefined, percent);
      await page.getByText(`${percent} %`, { exact: true }).waitFor();
    }
    await logs.print({ run: id, lines: numbered(30), isLast: false });
    await page.getByRole('log').getByText('line 29').waitFor();
    await logs.print({ run: id, lines: numbered(30, 30) });
    await steps.event(id, 'COMPLETED', { outputs: { answer: 42 } });
    await page.getByText('60 lines printed, complete').waitFor();
    await page.getByRole('tab', { name: 'Timeline (5)' }).waitFor();
    const shift = (await opened.layoutShift()) - shiftBefore;
    assert.ok(shift < 0.02, `${shift}: ${await page.evaluate<string>('window.layoutShifts.join()')}`);

    // What came with the end may still be asked for; one that is followed is asked for every second.
    let asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    for (let tries = 0; tries < 4; tries += 1) {
      asked = [];
      await page.waitForTimeout(2500);
      if (!asked.some((url) => url.includes(id))) break;
    }
    assert.deepEqual(
      asked.filter((url) => url.includes(id)),
      [],
    );
  });

  test('says that a run is not there, or no longer', async () => {
    const nowhere = await show(UNKNOWN);
    await nowhere.page.getByText('There is no such run').waitFor();
    nowhere.expectErrors(/404/);
  });

  test('is for everybody: both themes, three widths, every part', async () => {
    const id = await failedTwice();
    const tabs = [
      ['Log', 'second try'],
      ['Timeline', 'STARTED'],
      ['Inputs', 'to be'],
    ] as const;
    await checkLooks(
      (look) => show(id, look),
      ...tabs.map(([tab, text]) => async (page: Page) => {
        await page.getByRole('tab', { name: new RegExp(`^${tab}`) }).click();
        await page.getByRole('tabpanel').getByText(text).first().waitFor();
      }),
    );
  });
});
