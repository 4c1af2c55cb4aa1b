import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import type { Page } from 'playwright-core';
import { LogSteps } from '../../support/browser/run-page-scene.js';
import { NO_BROWSER, openPage } from '../../support/browser/browser.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, until, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

const LINES = 100_000;
const LINE = 'x'.repeat(1000);
/** Room for the log as a whole: nothing of it is dropped. */
const LOG_LIMIT_BYTES = 128 * 1024 * 1024;
/** More than a tab holds of such lines, in pages of 1000. */
const PAGES_UP = 12;
const EVENTS = 10_000;

describe('the page of a large run', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let steps: RunSteps;

  beforeAll(async () => {
    // Nobody sends heartbeats here: the run must not be taken back.
    service = await startService({
      env: { SERVICE_WORKER_TIMEOUT: '3600', SERVICE_LOG_LIMIT_BYTES: String(LOG_LIMIT_BYTES) },
    });
    steps = new RunSteps(senderTo(service.url, service.adminKey));
  });

  const show = (path: string) => openPage({ url: service.url, path, apiKey: service.adminKey, width: 1920 });

  test('shows a timeline of 10,000 events in few rows, and scrolls through it', async () => {
    const { id } = await steps.running();
    for (let sent = 1; sent < EVENTS; sent += 100) {
      const events = Array.from({ length: Math.min(100, EVENTS - sent) }, (_, n) => ({
        run_id: id,
        attempt: 1,
        type: 'NOTE',
        msg: `note ${sent + n}`,
        payload: { n: sent + n },
      }));
      const answer = await steps.send('POST', '/workers/w/events', { body: { events } });
      assert.equal(answer.status, 200, answer.text);
    }
    const warm = await show('/workers');
    const { page } = warm;
    await page.getByRole('table').waitFor();
    const list = page.getByRole('list', { name: 'Events' });
    await page.goto(`${service.url}/ui/runs/${id}?tab=timeline`);
    await list.getByText('STARTED').waitFor();
    await page.getByRole('tab', { name: 'Timeline (10,000)' }).waitFor();
    assert.ok((await page.getByRole('listitem').count()) < 200);
    await scrollThrough(page, '[role=group]:has([aria-label=Events])');
    await list.getByText('note 9999').waitFor();
    await page.getByRole('searchbox').fill('note 777');
    await page.getByText('11 of 10,000 events').waitFor();
  });

  test('shows a log of 100 MB, follows it, and holds a bounded part of it', async (t) => {
    const logs = new LogSteps(steps);
    const { id } = await steps.running();
    const opened = await show(`/runs/${id}`);
    const { page } = opened;
    await page.getByText('No output yet').waitFor();
    const lines = Array.from({ length: LINES }, () => LINE);
    await logs.print({ run: id, lines: [...lines, 'the very last line'] });
    const log = page.getByRole('log');
    await log.getByText('the very last line').waitFor();
    await page.getByText('100,001 lines printed, complete').waitFor();
    const heapMb = await heapOf(page);
    await opened.close();

    const again = await show('/workers');
    await again.page.getByRole('table').waitFor();
    await again.page.goto(`${service.url}/ui/runs/${id}`);
    await again.page.getByRole('log').getByText('the very last line').waitFor();
    for (let scroll = 0; scroll < PAGES_UP; scroll += 1) {
      await again.page.evaluate(`document.querySelector('[data-log]').scrollTop = 200`);
      await until(
        () => again.page.evaluate<boolean>(`document.querySelector('[data-log]').scrollTop > 1000`),
        'older lines are there',
      );
    }
    await again.page.getByText(/^lines [\d,]+ to/).waitFor();
    await scrollThrough(again.page, '[data-log]');
    assert.ok((await again.page.locator('[data-log] [data-index]').count()) < 150);
    const scrolledMb = await heapOf(again.page);
    await again.page.getByRole('log').focus();
    await again.page.keyboard.press('Home');
    await again.page.getByText(/^lines 1 to/).waitFor();
    await t.annotate(
      `heap ${heapMb.toFixed(0)} MB after following, ${scrolledMb.toFixed(0)} MB after scrolling`,
    );
    assert.ok(heapMb < 100 && scrolledMb < 100, `${heapMb} MB and ${scrolledMb} MB`);
  });
});

/** Scrolls from the top to the end. */
function scrollThrough(page: Page, selector: string): Promise<void> {
  return page.evaluate<void>(`new Promise((resolve) => {
    const box = document.querySelector('${selector}');
    let step = 0;
    const frame = () => {
      box.scrollTop = box.scrollHeight * (step += 1) / 60;
      if (step < 60) requestAnimationFrame(frame); else resolve();
    };
    requestAnimationFrame(frame);
  })`);
}

/** Memory that the page's scripts hold once what is not needed is gone, in MB. */
async function heapOf(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return usedSize / 1024 / 1024;
}
