import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { Page } from 'playwright-core';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { createRun } from '../../support/app/feed-app.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { skipFor } from '../../support/skip.js';

const KEYS = { SERVICE_API_KEYS: 'admin:feed-admin-key-of-the-tests,client:feed-client-key-of-the-tests' };
const KEY = 'feed-client-key-of-the-tests';

/** The messages in the order of the page; the table holds few enough to be all there. */
const messages = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`[...document.querySelectorAll('[data-index]')]
    .toSorted((left, right) => left.dataset.index - right.dataset.index)
    .map((row) => row.querySelectorAll('[role=cell]')[4].lastChild.textContent)`);

const numbers = (from: number, to: number): string[] =>
  Array.from({ length: from - to + 1 }, (_, n) => String(from - n));

const count = (page: Page, text: string) => page.getByText(`${text} events`, { exact: true }).waitFor();

describe('the page of the feed', skipFor(NO_BROWSER), () => {
  let database: TestDatabase;
  let service: ServiceProcess;
  let send: Send;

  beforeAll(async () => {
    database = await openTestDatabase();
    await begin();
  });
  afterAll(async () => {
    await service?.stop();
    await database?.close();
  });

  async function begin(port = '0'): Promise<void> {
    service = await startService({ env: { ...KEYS, DATABASE_URL: database.url, SERVICE_PORT: port } });
    send = senderTo(service.url, KEY);
  }

  const show = (path: string, options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, path, apiKey: KEY, ...options });

  async function note(id: string, msg: number | string, type = 'NOTE', payload = {}): Promise<void> {
    const { status, text } = await send('POST', `/runs/${id}/events`, { body: { type, msg, payload } });
    assert.equal(status, 200, text);
  }
  async function notes(id: string, from: number, to: number): Promise<void> {
    for (let msg = from; msg <= to; msg += 1) await note(id, msg);
  }

  test('suggests the topics of definitions and of runs, and keeps the topic in the address', async () => {
    const delivery = { topic: 'offered' };
    await send('POST', '/definitions', {
      body: { id: 'd', version: '1', image: 'i', event_delivery: delivery },
    });
    await createRun(send, 'of a run');
    const { page } = await show('/feed');
    await page.getByText('Which topic?').waitFor();
    for (const hasText of ['offered', 'of a run']) {
      await page.locator('datalist option', { hasText }).waitFor({ state: 'attached' });
    }
    await page.getByLabel('Topic').fill('offered & more');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/feed?topic=offered+%26+more');
    await page.getByText('No events yet').waitFor();
    await page.getByLabel('Topic').fill('other');
    await page.getByRole('button', { name: 'Follow' }).click();
    await page.waitForURL('**/feed?topic=other');
    await page.goBack();
    assert.equal(await page.getByLabel('Topic').inputValue(), 'offered & more');
  });

  test('shows events as they happen, newest first, with everything about each', async () => {
    const id = await createRun(send, 'live');
    const opened = await show('/feed?topic=live');
    const { page } = opened;
    await page.getByText('No events yet').waitFor();
    await note(id, 'hello', 'GREETING', { deep: { list: [1, { leaf: 'here' }] } });
    await note(id, 7, 'PROGRESS');
    await count(page, '2');
    assert.deepEqual(await messages(page), ['7', 'hello']);
    await page.getByRole('button', { name: 'GREETING' }).click();
    const dialog = page.getByRole('dialog', { name: 'GREETING' });
    await dialog.getByText('hello', { exact: true }).waitFor();
    await dialog.getByTitle(id).waitFor();
    const tree = dialog.getByRole('tree', { name: 'payload' });
    assert.equal(await tree.getByText('leaf').count(), 0);
    await tree.focus();
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowDown', 'ArrowDown', 'ArrowRight']) {
      await page.keyboard.press(key);
    }
    await tree.getByText('leaf').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    assert.ok((await opened.layoutShift()) < 0.01, String(await page.evaluate('window.layoutShifts.join()')));
  });

  test('begins with the newest 100, with new ones only, or with the first one', async () => {
    const id = await createRun(send, 'begin');
    await notes(id, 1, 105);
    const { page } = await show('/feed?topic=begin');
    await count(page, '100');
    await page.getByLabel('Begin with').selectOption('oldest');
    await page.waitForURL('**/feed?topic=begin&from=oldest');
    await count(page, '105');
    await page.getByLabel('Begin with').selectOption('new');
    await page.getByText('No new events yet').waitFor();
    await page.getByText('Live', { exact: true }).waitFor();
    await note(id, 106);
    await count(page, '1');
    assert.deepEqual(await messages(page), ['106']);
  });

  test('pauses and goes on, by mouse and by key, without missing or doubling an event', async () => {
    const id = await createRun(send, 'pause');
    const { page } = await show('/feed?topic=pause&from=new');
    await page.getByText('Live', { exact: true }).waitFor();
    await notes(id, 1, 3);
    await count(page, '3');
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByText('Paused', { exact: true }).waitFor();
    await notes(id, 4, 6);
    assert.deepEqual(await messages(page), numbers(3, 1));
    await page.getByRole('button', { name: 'Resume' }).click();
    await count(page, '6');
    await page.locator('h1').click();
    await page.keyboard.press('p');
    await page.getByText('Paused', { exact: true }).waitFor();
    await note(id, 7);
    await page.keyboard.press('p');
    await count(page, '7');
    assert.deepEqual(await messages(page), numbers(7, 1));
  });

  test('filters by type and run, in the address', async () => {
    const ids = [await createRun(send, 'filter'), await createRun(send, 'filter')] as const;
    for (const id of ids) {
      await note(id, 'a', 'ALPHA');
      await note(id, 'b', 'BETA');
    }
    const { page } = await show('/feed?topic=filter');
    await count(page, '4');
    await page.keyboard.press('/');
    await page.keyboard.type('alp');
    await count(page, '2');
    await page.waitForURL('**/feed?topic=filter&q=alp');
    await page.getByLabel('Search events').fill(ids[1]);
    await count(page, '2');
    await page.getByLabel('Search events').fill('nothing like it');
    await page.getByRole('button', { name: 'Show all' }).click();
    await count(page, '4');
    await page.getByLabel('Search events').fill('beta');
    await page.getByRole('button', { name: 'Clear', exact: true }).click();
    await count(page, '4');
  });

  test('keeps the newest 2,000, says so, and lets rows rest while one reads', async () => {
    const id = await createRun(send, 'many');
    await database.dataSource.query(
      `with grown as (
         insert into events (run_id, index, attempt, type, msg, t, state, payload, size)
         select $1::uuid, n, 1, 'NOTE', to_json(n), clock_timestamp(), 'PENDING', '{}', 0
           from generate_series(0, 9999) n
         returning index
       ),
       counted as (update runs set event_count = 10000 where id = $1::uuid),
       topic as (insert into feed_topics (topic, last_position, oldest_at) values ('many', 10000, clock_timestamp()))
       insert into feed_entries (topic, position, run_id, event_index, recorded_at)
       select 'many', index + 1, $1::uuid, index, clock_timestamp() from grown`,
      [id],
    );
    const { page } = await show('/feed?topic=many&from=oldest');
    await page.getByText('the newest 2,000 are kept, 8,000 older ones are left out').waitFor();
    assert.ok((await page.getByRole('row').count()) < 80);
    await page.evaluate('scrollTo(0, 3000)');
    const top = (): Promise<string> =>
      page.evaluate('document.elementFromPoint(innerWidth / 2, 300).closest("[role=row]").innerText');
    await page.waitForFunction('scrollY === 3000');
    await page.waitForTimeout(100);
    const place = await top();
    await notes(id, 20_001, 20_003);
    await page.getByRole('button', { name: '3 new' }).waitFor();
    assert.equal(await top(), place);
    await page.getByRole('button', { name: '3 new' }).click();
    await page.getByText('20003', { exact: true }).waitFor();
  });

  test('goes on after a restart of the service: nothing missed, nothing doubled', async () => {
    const id = await createRun(send, 'restart');
    const opened = await show('/feed?topic=restart');
    const { page } = opened;
    await page.getByText('Live', { exact: true }).waitFor();
    await notes(id, 1, 10);
    await count(page, '10');
    const { port } = new URL(service.url);
    await service.kill();
    await page.getByText('Cannot reach the service').waitFor();
    await page.getByText('Connecting', { exact: true }).waitFor();
    await begin(port);
    await notes(id, 11, 20);
    await count(page, '20');
    await page.getByText('Live', { exact: true }).waitFor();
    await note(id, 21);
    await count(page, '21');
    assert.deepEqual(await messages(page), numbers(21, 1));
    opened.expectErrors(/ERR_|status of 503/);
  });

  test('says that retention was faster and goes on with what is kept', async () => {
    const id = await createRun(send, 'overtaken');
    const opened = await show('/feed?topic=overtaken');
    const { page } = opened;
    await page.getByText('Live', { exact: true }).waitFor();
    await notes(id, 1, 2);
    await count(page, '2');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Pause' }).click();
    await notes(id, 3, 6);
    // What retention does.
    await database.dataSource.query(`delete from feed_entries where topic = 'overtaken' and position < 5`);
    await database.dataSource.query(`update feed_topics set first_position = 5 where topic = 'overtaken'`);
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByText('retention removed events, or the database was restored').waitFor();
    await count(page, '4');
    assert.deepEqual(await messages(page), ['6', '5', '2', '1']);
    await note(id, 7);
    await count(page, '5');
    opened.expectErrors(/410/);
  });

  test('says that the feed is switched off, and offers to try again', async () => {
    const off = await startService({
      env: { ...KEYS, DATABASE_URL: database.url, SERVICE_FEED_ENABLED: 'false' },
    });
    for (const from of ['', '&from=oldest']) {
      const opened = await openPage({ url: off.url, path: `/feed?topic=x${from}`, apiKey: KEY });
      const { page } = opened;
      await page.getByText('The feed is switched off').waitFor();
      await page.getByRole('button', { name: 'Try again' }).click();
      await page.getByText('The feed is switched off').waitFor();
      assert.equal(await page.getByText('Cannot reach the service').count(), 0);
      opened.expectErrors(/503/);
      await opened.close();
    }
    await off.stop();
  });

  test('works for everybody: both themes, three widths, dialog open or not', async () => {
    const id = await createRun(send, 'looks');
    await note(
      id,
      'a longer message, so that it has to be cut where there is no room for it',
      'CHECKPOINT_SAVED',
      {
        path: '/data/checkpoints/0001',
        loss: 0.25,
        tags: ['a', 'b'],
      },
    );
    await notes(id, 1, 5);
    await checkLooks(
      (look) => show('/feed?topic=looks', look),
      async (page, width) => {
        await count(page, '6');
        const hasPayload = (await page.getByText('/data/checkpoints/0001').count()) > 0;
        assert.equal(hasPayload, width !== 1024, 'the payload is where there is room for it');
      },
      async (page) => {
        await page.getByRole('button', { name: 'CHECKPOINT_SAVED' }).click();
        await page.getByRole('dialog').waitFor();
      },
    );
  });
});
