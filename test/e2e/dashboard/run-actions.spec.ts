import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { NO_BROWSER, openPage } from '../../support/browser/browser.js';
import { execute } from '../../../src/database/sql/sql.js';
import { until } from '../../support/app/passing-time.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { skipFor } from '../../support/skip.js';

const ADMIN = 'actions-admin-key-of-the-tests';
const CLIENT = 'actions-client-key-of-the-tests';
const WORKER = 'actions-worker-key-of-the-tests';

describe('what may be done to a run on its page', skipFor(NO_BROWSER), () => {
  let database: TestDatabase;
  let service: ServiceProcess;
  let steps: RunSteps;

  beforeAll(async () => {
    database = await openTestDatabase();
    const keys = `admin:${ADMIN},client:${CLIENT},worker:${WORKER}`;
    service = await startService({ env: { DATABASE_URL: database.url, SERVICE_API_KEYS: keys } });
    steps = new RunSteps(senderTo(service.url, ADMIN));
  });
  afterAll(async () => {
    await service?.stop();
    await database?.close();
  });

  const show = (id: string, apiKey = ADMIN) => openPage({ url: service.url, path: `/runs/${id}`, apiKey });

  test('is cancelled after a question, by mouse and by key', async () => {
    const { id } = await steps.running();
    const { page } = await show(id, CLIENT);
    await page.getByRole('button', { name: 'Cancel', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Cancel this run?' });
    await dialog.getByText('stops the container').waitFor();
    await dialog.getByRole('button', { name: 'Back' }).click();
    assert.equal((await steps.get(id)).state, 'RUNNING');
    await page.keyboard.press('c');
    await dialog.getByLabel('Reason').fill('no longer needed');
    await dialog.getByRole('button', { name: 'Cancel the run' }).click();
    await page.getByText(/^Run \S+ is cancelled\.$/).waitFor();
    await page.getByRole('status').getByText('Cancelled').waitFor();
    const { state, execution_summary: summary } = await steps.get(id);
    assert.deepEqual([state, summary.cancel_reason], ['CANCELLED', 'no longer needed']);
    await page.getByText('no longer needed').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Cancel', exact: true }).isDisabled(), true);
    await page.keyboard.press('c');
    assert.equal(await page.getByRole('dialog').count(), 0);
  });

  test('is retried after saying that it opens another attempt', async () => {
    const { id } = await steps.running();
    await steps.event(id, 'FAILED', { error_message: 'no' });
    const { page } = await show(id);
    await page.getByRole('button', { name: 'Cancel', exact: true }).waitFor();
    await page.keyboard.press('r');
    const dialog = page.getByRole('dialog', { name: 'Retry this run?' });
    await dialog.getByText('It opens attempt 2 of this run').waitFor();
    await dialog.getByRole('button', { name: 'Open attempt 2' }).click();
    await page.getByText(/^Attempt 2 of run \S+ is in the queue\.$/).waitFor();
    await page.getByRole('button', { name: /^Attempt 2/ }).waitFor();
    await page.getByRole('button', { name: /^Attempt 1.*no/s }).waitFor();
    assert.equal((await steps.get(id)).current_attempt, 2);
  });

  test('is retried with what it had cancelled, which is open again once the run is completed', async () => {
    const { id } = await steps.running();
    const child = await steps.create({ depends_on: [{ run: id }] });
    await steps.event(id, 'FAILED', { error_message: 'no' });
    await until(
      () => steps.get(child.id),
      ({ state }) => state === 'CANCELLED',
    );
    const { page } = await show(id);
    await page.getByRole('button', { name: 'Retry' }).click();
    const dialog = page.getByRole('dialog', { name: 'Retry this run?' });
    await dialog.getByLabel('And what it had cancelled').check();
    await dialog.getByRole('button', { name: 'Open attempt 2' }).click();
    await page.getByText(/^Attempt 2 of run \S+ is in the queue\.$/).waitFor();
    await steps.send('PATCH', `/runs/${id}`, { body: { state: 'RUNNING' } });
    await steps.event(id, 'COMPLETED');
    await until(
      () => steps.get(child.id),
      ({ state }) => state === 'PENDING',
    );
  });

  test('starts another run with other inputs, which are checked first, and goes there', async () => {
    const run = await steps.create({
      image: 'examples/train',
      inputs: { text: 'old' },
      priority: 5,
      constraints: { cpu: 2 },
      retry_policy: { max_attempts: 3, backoff_s: 7 },
      timeouts: { attempt_s: 60 },
      event_delivery: { topic: 'orders' },
    });
    const opened = await show(run.id, CLIENT);
    const { page } = opened;
    assert.equal(await page.getByRole('button', { name: 'Run again' }).isDisabled(), true);
    await steps.send('POST', `/runs/${run.id}/cancel`);
    await page.getByRole('button', { name: 'Run again', disabled: false }).click();
    const dialog = page.getByRole('dialog', { name: 'Run again' });
    assert.equal(await dialog.getByLabel('Image').inputValue(), 'examples/train');
    await dialog.getByLabel('Inputs').fill('{ nonsense');
    await dialog.getByRole('button', { name: 'Start a new run' }).click();
    await dialog.getByText(/This is not JSON/).waitFor();
    await opened.checkAccessibility();
    await dialog.getByLabel('Inputs').fill('{"text": "new"}');
    await dialog.getByLabel('Priority').fill('9');
    const sent = page.waitForRequest((request) => request.url().endsWith('/rerun'));
    await dialog.getByRole('button', { name: 'Start a new run' }).click();
    assert.deepEqual((await sent).postDataJSON(), { changes: { inputs: { text: 'new' }, priority: 9 } });
    await page.getByText(/^Run \S+ is in the queue\.$/).waitFor();
    await page.waitForURL((url) => url.pathname.startsWith('/ui/runs/') && !url.pathname.endsWith(run.id));
    const made = await steps.get(new URL(page.url()).pathname.split('/').at(-1) ?? '');
    assert.deepEqual(made.inputs, { text: 'new' });
    assert.equal(made.priority, 9);
    for (const field of ['image', 'constraints', 'retry_policy', 'timeouts', 'event_delivery']) {
      assert.deepEqual(made[field], run[field], field);
    }
    const facts = page.getByRole('main').locator('dl').first();
    await facts.getByText('Rerun of').waitFor();
    await facts.getByTitle(run.id).click();
    await facts.getByText('Reruns').waitFor();
    await facts.getByRole('link', { name: '1', exact: true }).click();
    await page
      .getByRole('row')
      .filter({ has: page.getByTitle(made.id) })
      .waitFor();
    await page.waitForFunction(`document.querySelectorAll('[role=row]').length === 2`);
  });

  test('starts another run of the definition that the run came from', async () => {
    const definition = {
      id: 'word-count',
      version: '1',
      image: 'longshore/word-count',
      input_specs: { text: { type: 'string' } },
    };
    const stored = await steps.send('POST', '/definitions', { body: definition });
    assert.ok(stored.status < 300, stored.text);
    const made = await steps.send('POST', '/definitions/word-count/runs', {
      body: { inputs: { text: 'a' } },
    });
    assert.equal(made.status, 201, made.text);
    await steps.send('POST', `/runs/${made.body.id}/cancel`);
    const { page } = await show(made.body.id);
    await page.getByRole('button', { name: 'Run again' }).click();
    const dialog = page.getByRole('dialog', { name: 'Run again' });
    await dialog.getByText('everything else comes from there').waitFor();
    assert.equal(await dialog.getByLabel('Image').count(), 0);
    await dialog.getByLabel('Inputs').fill('{"text": "b"}');
    await dialog.getByRole('button', { name: 'Start a new run' }).click();
    await page.waitForURL((url) => !url.pathname.endsWith(made.body.id));
    const again = await steps.get(new URL(page.url()).pathname.split('/').at(-1) ?? '');
    assert.equal(again.op_definition, made.body.op_definition);
    assert.deepEqual(again.inputs, { text: 'b' });
  });

  test('is changed by an admin, who is told what that does', async () => {
    const { id } = await steps.running({ priority: 1 });
    const opened = await show(id);
    const { page } = opened;
    await page.getByRole('button', { name: 'Change', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Change this run directly?' });
    await dialog.getByText('It writes no event').waitFor();
    await dialog.getByText('The audit log keeps who did it').waitFor();
    await dialog.getByRole('button', { name: 'Change the run' }).click();
    await dialog.getByText('Nothing is changed yet.').waitFor();
    await dialog.getByLabel('State').selectOption('completed');
    await dialog.getByText('The run ends as completed').waitFor();
    await dialog.getByLabel('Priority').fill('8');
    await dialog.getByRole('checkbox').check();
    await dialog.getByLabel('Outputs', { exact: true }).fill('{"by": "hand"}');
    await opened.checkAccessibility();
    await dialog.getByRole('button', { name: 'Change the run' }).click();
    await page.getByText(/^Run \S+ is changed\.$/).waitFor();
    const changed = await steps.get(id);
    assert.deepEqual([changed.state, changed.priority, changed.outputs], ['COMPLETED', 8, { by: 'hand' }]);
    await page.getByText('set by an admin').waitFor();
  });

  test('shows no button that the key may not press, and lists its keys in the help', async () => {
    const { id } = await steps.running();
    const client = await show(id, CLIENT);
    await client.page.getByRole('button', { name: 'Retry', exact: true }).waitFor();
    assert.equal(await client.page.getByRole('button', { name: 'Change', exact: true }).count(), 0);
    await client.page.keyboard.press('?');
    const help = client.page.getByRole('dialog', { name: 'Keyboard shortcuts' });
    for (const text of ['Cancel the run', 'Retry the run', 'Run again with other inputs', 'Show the log']) {
      await help.getByText(text).waitFor();
    }
    await client.close();
    const worker = await show(id, WORKER);
    await worker.page.getByRole('progressbar').waitFor();
    assert.equal(await worker.page.getByRole('button', { name: 'Retry', exact: true }).count(), 0);
    await worker.page.keyboard.press('r');
    assert.equal(await worker.page.getByRole('dialog').count(), 0);
  });

  test('says so when the run is removed while it is open', async () => {
    const { id } = await steps.running();
    const opened = await show(id);
    const { page } = opened;
    await page.getByRole('progressbar').waitFor();
    await execute(database.dataSource, 'delete from runs where id = $1::uuid', [id]);
    await page.getByText('This run has been removed').waitFor();
    opened.expectErrors(/404/);
  });

  test('finds out by the first thing that is done that a run which had ended is gone', async () => {
    const { id } = await steps.running();
    await steps.event(id, 'COMPLETED');
    const opened = await show(id);
    const { page } = opened;
    await page.getByRole('status').getByText('Completed').waitFor();
    await execute(database.dataSource, 'delete from runs where id = $1::uuid', [id]);
    await page.getByRole('button', { name: 'Retry', exact: true }).click();
    await page.getByRole('button', { name: 'Open attempt 2' }).click();
    await page.getByText('This run has been removed').waitFor();
    opened.expectErrors(/404/);
  });
});
