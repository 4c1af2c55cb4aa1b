import assert from 'node:assert/strict';
import type { Locator, Page, Response } from 'playwright-core';
import { describe, test } from 'vitest';
import { NO_BROWSER, openPage } from '../../support/browser/browser.js';
import { newSecretsKey } from '../../support/app/test-app.js';
import { ApiDescription, readApiDocument, type Operation } from '../../support/fuzz/api-document.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

/** What a newcomer tries first, one after the other; the other operations follow as the page lists them, what deletes last. */
const STORY = [
  'whoami',
  'upsertDefinition',
  'createDefinitionRun',
  'createRun',
  'listRuns',
  'sendHeartbeat',
  'claimRuns',
];

/** What the worker does with the run that it has claimed, and at the end what clients do with it. */
const OF_THE_WORKER = ['addEvent', 'putLogChunk', 'getRunSecrets'];
const OF_CLIENTS = ['patchRun', 'cancelRun', 'retryRun'];

/** Negative: of the story; 1: deletes. */
const place = ({ id, method }: Operation): number =>
  STORY.includes(id) ? STORY.indexOf(id) - STORY.length : Number(method === 'DELETE');

const close = (block: Locator): Promise<void> => block.locator('.opblock-summary-control').click();

/** Negative: the worker's; positive: what clients do at the end. */
const turnOf = ({ id }: Operation): number =>
  1 + OF_CLIENTS.indexOf(id) || (OF_THE_WORKER.includes(id) ? OF_THE_WORKER.indexOf(id) - 3 : 0);

const isOfRun = ({ path }: Operation): boolean => path.startsWith('/runs/{id}');

/** Operations of what the service names itself: with the id of the example, their descriptions announce 404. */
const isOfExample = (operation: Operation): boolean =>
  isOfRun(operation) || operation.path.startsWith('/bulk-operations/{id}');

describe('Swagger UI', { ...skipFor(NO_BROWSER), timeout: 1_200_000 }, () => {
  const { operations } = new ApiDescription(readApiDocument());
  const inOrder = operations.toSorted((a, b) => place(a) - place(b));
  let service: ServiceProcess;
  let page: Page;

  /** Opens the page with the key of an admin. */
  async function open(): Promise<void> {
    service = await startService({
      // Nobody sends heartbeats while a person reads.
      env: { SERVICE_SECRETS_KEY: newSecretsKey(), SERVICE_WORKER_TIMEOUT: '3600' },
    });
    ({ page } = await openPage({ url: service.url, width: 1920 }));
    // What the console says of refused requests is no error of the page.
    page.removeAllListeners('console');
    await page.goto(`${service.url}/docs`);
    await page.getByRole('button', { name: 'Authorize' }).first().click();
    const dialog = page.locator('.modal-ux');
    await dialog.locator('input').first().fill(service.adminKey);
    await dialog.getByRole('button', { name: 'Apply credentials' }).first().click();
    await dialog.getByRole('button', { name: 'Close' }).first().click();
  }

  /** Opens an operation, ready to be executed. */
  async function tryOut({ id, path, method }: Operation): Promise<Locator> {
    const block = page.locator(`.opblock[id$="-${id}"]`);
    await block.locator('.opblock-summary-control').click();
    const start = block.getByRole('button', { name: 'Try it out' });
    // A block that was open before is still in use.
    await start
      .or(block.getByRole('button', { name: 'Execute' }))
      .first()
      .waitFor();
    if (await start.isVisible()) await start.click();
    await block.getByRole('button', { name: 'Execute' }).waitFor();
    assert.equal(await block.locator('.opblock-summary-method').innerText(), method, path);
    return block;
  }

  /** Presses Execute. @returns what the service answers */
  async function execute(block: Locator, { method }: Operation): Promise<Response> {
    const answer = page.waitForResponse(
      (response) => response.url().startsWith(service.url) && response.request().method() === method,
    );
    await block.getByRole('button', { name: 'Execute' }).click();
    return answer;
  }

  test('executes every operation with the defaults as they are; what deletes needs a name first', async () => {
    await open();
    const problems: string[] = [];
    let run = '';
    for (const operation of inOrder) {
      const { id, method, path } = operation;
      const block = await tryOut(operation);
      if (method === 'DELETE') {
        await block.getByRole('button', { name: 'Execute' }).click();
        await block.locator('input.invalid').first().waitFor();
        await close(block);
        continue;
      }
      const answer = await execute(block, operation);
      const status = answer.status();
      const isFine = isOfExample(operation) ? status === 404 : status >= 200 && status < 300;
      if (!isFine) problems.push(`${method} ${path}: ${status} ${await answer.text()}`);
      if (id === 'claimRuns') run = String(Object(await answer.json()).ops[0].id);
      await close(block);
    }
    assert.equal(problems.join('\n'), '');

    // With the id of the claimed run in place of the example, its story goes on: events, log, feed, result.
    for (const operation of inOrder.filter(isOfRun).toSorted((a, b) => turnOf(a) - turnOf(b))) {
      const { path, method } = operation;
      const block = await tryOut(operation);
      await block.locator('input[placeholder="id"]').fill(run);
      const answer = await execute(block, operation);
      const status = answer.status();
      if (status < 200 || status >= 300) problems.push(`${method} ${path}: ${status} ${await answer.text()}`);
      await close(block);
    }
    assert.equal(problems.join('\n'), '');
    const feed = operations.find(({ id }) => id === 'readFeed') ?? assert.fail('no readFeed');
    const read = Object(await (await execute(await tryOut(feed), feed)).json());
    assert.ok(
      read.events.some((event: { run_id: string }) => event.run_id === run),
      'the topic of the story has its events',
    );
  });
});
