import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { beforeAll, describe, test } from 'vitest';
import type { Page } from 'playwright-core';
import { LogSteps, numbered } from '../../support/browser/run-page-scene.js';
import { NO_BROWSER, openPage } from '../../support/browser/browser.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { RunViews } from '../../support/runs/run-views.js';
import { makeDataDir, startService, until, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { endWorker, ScriptImages, untilFile } from '../../support/workers/worker-process.js';
import { skipFor } from '../../support/skip.js';

const KEY = 'page-admin-key-of-the-tests';

describe('the log on the page of a run', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let steps: RunSteps;
  let logs: LogSteps;
  const env = { SERVICE_API_KEYS: `admin:${KEY}` };

  beforeAll(async () => {
    service = await startService({ dataDir: await makeDataDir(), env });
    const send = senderTo(service.url, KEY);
    steps = new RunSteps(send);
    logs = new LogSteps(steps);
  });

  const show = (id: string, query = '') =>
    openPage({ url: service.url, path: `/runs/${id}${query}`, apiKey: KEY });

  test('shows what a container prints while it prints it', async () => {
    const images = await ScriptImages.make();
    const gate = images.gate('printer');
    await images.add(
      'printer',
      `echo "hello from here"; echo "to the other stream" >&2; ${untilFile(gate.path)}; echo "good bye"`,
    );
    const worker = await images.startWorker({ url: service.url, key: KEY, id: 'printer' });
    const runs = new RunViews(senderTo(service.url, KEY));
    const id = await runs.create('printer');
    const { page } = await show(id);
    const log = page.getByRole('log');
    await log.getByText('hello from here').waitFor();
    await log.locator('[data-stream=stderr]').getByText('to the other stream').waitFor();
    await page.getByText('2 lines printed', { exact: true }).waitFor();
    await gate.open();
    await log.getByText('good bye').waitFor();
    await page.getByText('3 lines printed, complete').waitFor();
    await page.getByRole('status').getByText('Completed').waitFor();
    await endWorker(worker);
  });

  test('begins at the end, loads what is older as one scrolls, and jumps', async () => {
    const { id } = await steps.running();
    await logs.print({ run: id, lines: numbered(12_000) });
    const { page } = await show(id);
    const log = page.getByRole('log');
    await log.getByText('line 11999', { exact: true }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Jump to end' }).count(), 0);
    for (let scroll = 0; scroll < 4; scroll += 1) {
      const top = await topLine(page);
      await inLog(page, 'box.scrollTop = 100');
      await until(async () => Number(await inLog(page, 'box.scrollTop')) > 2000, 'older lines are there');
      assert.ok((await topLine(page)) < top, 'it is further up');
    }
    await page.getByRole('button', { name: 'Jump to end' }).click();
    await log.getByText('line 11999', { exact: true }).waitFor();
    await log.focus();
    await page.keyboard.press('Home');
    await log.getByText('line 0', { exact: true }).waitFor();
    await page.getByText(/^lines 1 to/).waitFor();
    await page.keyboard.press('End');
    await log.getByText('line 11999', { exact: true }).waitFor();
  });

  test('tries a read of older lines that failed again after a pause, and until then says so', async () => {
    const { id } = await steps.running();
    await logs.print({ run: id, lines: numbered(3000) });
    const opened = await show(id);
    const { page } = opened;
    await page.getByRole('log').getByText('line 2999', { exact: true }).waitFor();
    const askedAt: number[] = [];
    await page.route(/\/logs\?.*before=/, async (route) => {
      askedAt.push(Date.now());
      if (askedAt.length > 2) await route.continue();
      else await route.fulfill({ status: 500, json: { detail: 'out of order' } });
    });
    await inLog(page, 'box.scrollTop = 100');
    await page.getByText('out of order').waitFor();
    await until(async () => Number(await inLog(page, 'box.scrollTop')) > 2000, 'older lines are there');
    assert.equal(await page.getByText('out of order').count(), 0);
    const [first = 0, , third = 0] = askedAt;
    assert.equal(askedAt.length, 3);
    assert.ok(third - first > 3000, `${third - first} ms for two pauses`);
    opened.expectErrors(/500/);
  });

  test('keeps in place what somebody reads while more is printed', async () => {
    const { id } = await steps.running();
    await logs.print({ run: id, lines: numbered(3000), isLast: false });
    const { page } = await show(id);
    const log = page.getByRole('log');
    await log.getByText('line 2999', { exact: true }).waitFor();
    await inLog(page, 'box.scrollTop -= 5000');
    await page.getByRole('button', { name: 'Jump to end' }).waitFor();
    const top = await topLine(page);
    await logs.print({ run: id, lines: numbered(500, 3000) });
    await page.getByText('3,500 lines printed, complete').waitFor();
    assert.equal(await topLine(page), top);
    await page.getByRole('button', { name: 'Jump to end' }).click();
    await log.getByText('line 3499', { exact: true }).waitFor();
  });

  test('finds lines in the whole log, and shows one of them where it stands', async () => {
    const { id } = await steps.running();
    const lines = numbered(9000).map((line, n) => (n % 3000 === 7 ? `${line} NEEDLE in hay` : line));
    await logs.print({ run: id, lines });
    const { page } = await show(id);
    const log = page.getByRole('log');
    await log.getByText('line 8999').waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('needle');
    await page.getByText('3 lines found', { exact: true }).waitFor();
    assert.equal(await log.locator('mark').count(), 3);
    assert.match(page.url(), /search=needle/);
    await page.getByRole('button', { name: 'Show line 3008 in the whole log' }).click();
    await log.getByText('line 3008', { exact: true }).waitFor();
    await log.getByText('line 3006', { exact: true }).waitFor();
    assert.equal(await page.getByRole('searchbox').inputValue(), '');

    await page.getByRole('searchbox').fill('nowhere to be found');
    await page.getByText('No line contains this text').waitFor();
    await page.keyboard.press('Escape');
    await log.getByText('line 8999').waitFor();
  });

  test('finds and marks a text across colours', async () => {
    const { id } = await steps.running();
    await logs.print({ run: id, lines: ['fine', '\u001B[31mERROR\u001B[0m: \u001B]0;title\u0007disk full'] });
    const { page } = await show(id, '?search=error:%20disk');
    const log = page.getByRole('log');
    await page.getByText('1 line found', { exact: true }).waitFor();
    assert.deepEqual(await log.locator('mark').allTextContents(), ['ERROR', ': disk']);
    assert.equal(await log.locator('[data-stream]').innerText(), 'ERROR: disk full');
  });

  test('names gaps, wraps, shows times and colours, and strips the rest', async () => {
    const { id } = await steps.running();
    const put = async (chunk: number, body: Readonly<Record<string, unknown>>): Promise<void> => {
      const headers = { 'X-Worker-Id': 'w', 'X-Run-Attempt': '1' };
      const answer = await steps.send('PUT', `/runs/${id}/logs/${chunk}`, { headers, body });
      assert.equal(answer.status, 200, answer.text);
    };
    await put(0, {
      first_line: 0,
      lines: [
        printedLine('\u001B[1;31mred\u001B[0m\u001B[2K\u001B]0;title\u0007 plain <b>tag</b>'),
        printedLine('10 %\r90 %'),
      ],
      is_last: false,
    });
    await put(1, {
      first_line: 12_002,
      lines: [printedLine('wide '.repeat(300))],
      skipped_bytes: 5000,
      is_last: true,
    });
    const opened = await show(id);
    const { page } = opened;
    const log = page.getByRole('log');
    await log.getByText('12,000 lines left out (4.9 kB)').waitFor();
    assert.equal(await log.locator('[data-stream]').first().innerText(), 'red plain <b>tag</b>');
    assert.match((await log.getByText('red', { exact: true }).getAttribute('class')) ?? '', /red.*bold/);
    assert.equal(await log.getByText('90 %', { exact: true }).count(), 1);
    const isWide = 'box.scrollWidth > box.clientWidth';
    assert.equal(await inLog(page, isWide), true);
    await page.getByRole('checkbox', { name: 'Wrap' }).check();
    assert.equal(await inLog(page, isWide), false);
    assert.equal(await log.locator('time').count(), 0);
    await page.getByRole('checkbox', { name: 'Times' }).check();
    assert.equal(await log.locator('time').count(), 3);
    await opened.checkWidth();
    await opened.checkAccessibility();

    const saving = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download' }).click();
    const saved = await saving;
    assert.equal(saved.suggestedFilename(), `run-${id}-attempt-1.log`);
    const text = await readFile((await saved.path()) ?? '', 'utf8');
    assert.equal(text.split('\n')[2], '[... 12000 lines left out ...]');
  });

  test('misses nothing and doubles nothing when the service goes away while it follows', async () => {
    const { id } = await steps.running();
    await logs.print({ run: id, lines: numbered(300), isLast: false });
    const opened = await show(id);
    const { page } = opened;
    await page.getByRole('log').getByText('line 299', { exact: true }).waitFor();
    await page.getByRole('tabpanel').getByText('Live', { exact: true }).waitFor();
    const { port } = new URL(service.url);
    const { dataDir } = service;
    await service.kill('SIGKILL');
    await page.getByText('Cannot reach the service, trying again.').waitFor();
    service = await startService({ dataDir, env: { ...env, SERVICE_PORT: port } });
    await logs.print({ run: id, lines: numbered(300, 300) });
    await page.getByText('600 lines printed, complete').waitFor();
    assert.deepEqual(await allLines(page), numbered(600));
    opened.expectErrors(/ERR_|status of 503/);
  });

  test('goes on with the next attempt when the run is retried', async () => {
    const { id } = await steps.running();
    await logs.print({ run: id, lines: ['the first attempt'] });
    const { page } = await show(id);
    await page.getByRole('log').getByText('the first attempt').waitFor();
    assert.equal((await steps.send('POST', `/runs/${id}/retry`)).status, 200);
    await page.getByText('The log begins when a worker starts the container.').waitFor();
    await steps.claimUntil(id, 'w');
    await logs.print({ run: id, attempt: 2, lines: ['the second attempt'] });
    await page.getByRole('log').getByText('the second attempt').waitFor();
    await page.getByRole('button', { name: /^Attempt 1/ }).click();
    await page.getByRole('log').getByText('the first attempt').waitFor();
  });
});

function printedLine(text: string) {
  return { t: '2026-01-02T03:04:05.678Z', stream: 'stdout', text };
}

/** Evaluates an expression about the element that scrolls, `box`. */
function inLog(page: Page, expression: string): Promise<unknown> {
  return page.evaluate(
    `(() => { const box = document.querySelector('[data-log]'); return ${expression}; })()`,
  );
}

/** The number of the line at the top of the view, once one is drawn there. */
async function topLine(page: Page): Promise<number> {
  return page.evaluate<number>(`new Promise((resolve) => {
    const look = () => {
      const { left, top } = document.querySelector('[data-log]').getBoundingClientRect();
      const row = document.elementFromPoint(left + 20, top + 14).closest('[data-index]');
      if (row === null) requestAnimationFrame(look);
      else resolve(Number(row.innerText.trim().split(/\\s/)[0]));
    };
    look();
  })`);
}

/** Every line from the first to the last, scrolled through. */
async function allLines(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`(async () => {
    const box = document.querySelector('[data-log]');
    const lines = new Map();
    const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 30)));
    for (let top = 0; ; top += 300) {
      box.scrollTop = top;
      await frame();
      for (const row of box.querySelectorAll('[data-index]')) {
        lines.set(Number(row.dataset.index), row.querySelector('[data-stream]').innerText);
      }
      if (top > box.scrollHeight) break;
    }
    return [...lines].sort(([a], [b]) => a - b).map(([, text]) => text);
  })()`);
}
