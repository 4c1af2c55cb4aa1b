import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import type { Page } from 'playwright-core';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

const KEY = 'definitions-client-key-of-the-tests';

const TRAIN = {
  id: 'train',
  version: '1.0',
  image: 'registry.example/train:1',
  input_specs: {
    name: { type: 'string', required: true },
    epochs: { type: 'integer', default: 10 },
    rate: { type: 'float' },
    shuffle: { type: 'boolean', default: true },
    options: { type: 'object' },
    layers: { type: 'list' },
    warmth: { type: 'label:temperature' },
  },
  output_specs: { model: { type: 'string' } },
  constraints: { cpu: 4, ram_mb: 8192 },
  retry_policy: { max_attempts: 3, backoff_s: 30 },
  timeouts: { attempt_s: 3600 },
  event_delivery: { topic: 'training', attributes: { team: 'vision' } },
};

describe('the pages of definitions', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let send: Send;

  beforeAll(async () => {
    service = await startService({
      env: { SERVICE_API_KEYS: `admin:definitions-admin-key-of-the-tests,client:${KEY}` },
    });
    send = senderTo(service.url, KEY);
  });

  const show = (path: string, options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, path, apiKey: KEY, ...options });
  const store = async (body: object): Promise<void> => {
    const { status, text } = await send('POST', '/definitions', { body });
    assert.equal(status, 201, text);
  };

  test('helps while there is none: a command to copy, and a form that says what is wrong', async () => {
    const opened = await show('/definitions');
    const { page } = opened;
    await page.getByText(`curl ${service.url}/definitions`).waitFor();
    await page.getByRole('button', { name: 'Copy the command' }).waitFor();
    await page.getByRole('main').getByRole('button', { name: 'New definition' }).last().click();
    const dialog = page.getByRole('dialog', { name: 'New definition' });
    await dialog.getByRole('button', { name: 'Edit as JSON' }).click();
    const text = dialog.getByLabel('Definition as JSON');
    await text.fill('{');
    await dialog.getByRole('button', { name: 'Store' }).click();
    await dialog.getByText('This is not JSON').waitFor();
    await text.fill('{"id": "made-here", "version": "1 0", "image": "i"}');
    await dialog.getByRole('button', { name: 'Store' }).click();
    await dialog.getByText(/^Request validation failed\s+version must be a string that is a name/).waitFor();
    await text.fill('{"id": "made-here", "version": "1.0", "image": "i"}');
    await dialog.getByRole('button', { name: 'Store' }).click();
    await page.waitForURL('**/definitions/made-here?version=1.0');
    await page.getByText('None declared: all inputs are accepted.').waitFor();
    opened.expectErrors(/400/);
  });

  test('stores a definition with an unknown type of an input, and shows the warning of the service', async () => {
    const { page } = await show('/definitions');
    await page.getByRole('main').getByRole('button', { name: 'New definition' }).last().click();
    const dialog = page.getByRole('dialog', { name: 'New definition' });
    await dialog.getByRole('button', { name: 'Edit as JSON' }).click();
    const definition = { id: 'warned', version: '1', image: 'i', input_specs: { heat: { type: 'warmth' } } };
    await dialog.getByLabel('Definition as JSON').fill(JSON.stringify(definition));
    const stored = page.waitForResponse((response) => response.request().method() === 'POST');
    await dialog.getByRole('button', { name: 'Store' }).click();
    const [, warning = ''] = /^299 - "(.+)"$/.exec((await (await stored).headerValue('Warning')) ?? '') ?? [];
    assert.match(warning, /warmth/);
    const messages = page.getByRole('region', { name: 'Messages' });
    await messages
      .getByText(`Warning: ${warning.replaceAll(String.raw`\"`, '"')}`, { exact: true })
      .waitFor();
    await page.waitForURL('**/definitions/warned?version=1');
  });

  test('lists every definition once, by name, with its newest version, and finds them by name', async () => {
    await store(TRAIN);
    await store({ ...TRAIN, version: '1.1' });
    for (let n = 100; n < 160; n += 1) await store({ id: `many-${n}`, version: '1', image: 'i' });
    const { page } = await show('/definitions');
    await page.getByRole('link', { name: 'many-100' }).waitFor();
    await page.getByRole('button', { name: 'Next' }).click();
    const row = page.getByRole('row').filter({ hasText: 'registry.example/train:1' });
    await row.waitFor();
    assert.match((await row.innerText()).replaceAll(/\s+/g, ' '), /train 1\.1 2 registry/);
    await page.getByRole('button', { name: 'Previous' }).click();
    await page.getByRole('link', { name: 'many-100' }).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('TRAI');
    await row.waitFor();
    await page.waitForURL('**/definitions?q=TRAI');
    assert.equal(await page.getByRole('table').getAttribute('aria-rowcount'), '2');
    await page.getByRole('link', { name: 'train' }).focus();
    await page.keyboard.press('Enter');
    await page.waitForURL('**/definitions/train');
    await page.goBack();
    await page.getByLabel('Search definitions').fill('nothing like it');
    await page.getByRole('button', { name: 'Show all' }).click();
    await page.getByRole('link', { name: 'many-100' }).waitFor();
  });

  test('shows everything that a version says, and goes from version to version', async () => {
    const { page } = await show('/definitions/train');
    const inputs = page.getByRole('table', { name: 'Inputs' });
    await inputs.getByRole('row').filter({ hasText: 'epochs' }).getByText('10').waitFor();
    const facts = (await page.getByRole('main').locator('dl').innerText()).replaceAll(/\s+/g, ' ');
    for (const text of [
      'Image registry.example/train:1',
      'Needs 4 CPU, 8 GB RAM',
      'Attempts up to 3, back-off 30 s',
      'attempt 1 h 00 min',
      'Events go to training',
      'team: vision',
    ]) {
      assert.ok(facts.includes(text), `${text}: ${facts}`);
    }
    await page.getByRole('table', { name: 'Outputs' }).getByText('model').waitFor();
    await page.getByLabel('Version').selectOption('1.0');
    await page.waitForURL('**/definitions/train?version=1.0');
    await page.getByRole('tab', { name: 'Details' }).focus();
    await page.keyboard.press('End');
    await page.getByRole('table', { name: 'Versions' }).getByRole('link', { name: '1.1' }).click();
    await page.waitForURL('**/definitions/train?version=1.1');
    await page.getByRole('link', { name: 'training' }).click();
    await page.waitForURL('**/feed?topic=training');
  });

  test('shows what changed between two versions that one chooses', async () => {
    const { layers: _gone, ...specs } = TRAIN.input_specs;
    await store({
      ...TRAIN,
      version: '2.0',
      image: 'registry.example/train:2',
      input_specs: { ...specs, epochs: { type: 'integer', default: 20 }, seed: { type: 'integer' } },
    });
    const { page } = await show('/definitions/train?tab=compare');
    const changes = async (label: string): Promise<string[]> => {
      const rows = page.getByRole('table', { name: label }).locator('tbody tr');
      await rows.first().waitFor();
      return (await rows.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, ' ').trim());
    };
    assert.deepEqual(await changes('Changes from 1.1 to 2.0'), [
      '± image changed "registry.example/train:1" "registry.example/train:2"',
      '± input_specs.epochs.default changed 10 20',
      '− input_specs.layers removed { "type": "list", "required": false, "default": null } not there',
      '+ input_specs.seed added not there { "type": "integer", "required": false, "default": null }',
    ]);
    await page.getByLabel('From', { exact: true }).selectOption('1.0');
    await page.getByLabel('To', { exact: true }).selectOption('1.1');
    await page.getByText('1.0 and 1.1 say the same.').waitFor();
    assert.match(page.url(), /version=1\.1&?.*base=1\.0|base=1\.0.*version=1\.1/);
  });

  test('starts a run by a form made of the inputs: checks, the refusal at its input, then the run', async () => {
    const opened = await show('/definitions/train?version=1.0');
    const { page } = opened;
    await page.getByRole('button', { name: 'Start a run' }).click();
    const start = page.getByRole('button', { name: 'Start train 1.0' });
    await page.getByText('integer · default 10').waitFor();
    await page.getByText('string · required').waitFor();
    await start.click();
    await page.getByText('This input is required.').waitFor();
    await page.getByLabel('name', { exact: true }).fill('first');
    await page.getByLabel('epochs').fill('1.5');
    await page.getByText('Enter a whole number.').waitFor();
    await page.getByLabel('epochs').fill('3');
    await page.getByLabel('rate').fill('0.25');
    await page.getByLabel('shuffle').selectOption('false');
    await page.getByLabel('options').fill('[1]');
    await page.getByText('Enter a JSON object').waitFor();
    await page.getByLabel('options').fill('{"deep": [1, null]}');
    await page.getByLabel('layers').fill('[64, 32]');
    await page.getByLabel('warmth').fill('{"celsius": 20}');
    await page.getByText('Template of outputs').click();
    await page.getByLabel('Outputs as JSON').fill('{"model": "put-here"}');
    await page.getByLabel('Priority').fill('99999999999');
    await start.click();
    await page.getByText(/^priority must be/).waitFor();
    await page.getByLabel('Priority').fill('5');

    // As JSON and back again: what was entered stays.
    await page.getByRole('button', { name: 'Edit as JSON' }).click();
    const json = page.getByLabel('Inputs as JSON');
    const inputs = JSON.parse(await json.inputValue());
    await json.fill(JSON.stringify({ ...inputs, undeclared: 1 }));
    await start.click();
    await page.getByText('inputs.undeclared is not a declared input').waitFor();
    await json.fill(JSON.stringify({ ...inputs, epochs: 4 }));
    await page.getByRole('button', { name: 'Edit as a form' }).click();
    assert.equal(await page.getByLabel('epochs').inputValue(), '4');
    await start.click();
    await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);

    const run = (await send('GET', `/runs/${page.url().split('/').at(-1)}`)).body;
    assert.equal(run.op_definition, 'train');
    assert.equal(run.op_definition_version, '1.0');
    assert.equal(run.priority, 5);
    assert.deepEqual(run.outputs, { model: 'put-here' });
    assert.deepEqual(run.inputs, {
      name: 'first',
      epochs: 4,
      rate: 0.25,
      shuffle: false,
      options: { deep: [1, null] },
      layers: [64, 32],
      warmth: { celsius: 20 },
    });
    opened.expectErrors(/400/);
  });

  test('shows what the service refuses at the input that it is about', async () => {
    await store({ id: 'strict', version: '1', image: 'i', input_specs: { list: { type: 'string' } } });
    const opened = await show('/definitions/strict?tab=start');
    const { page } = opened;
    await page.getByLabel('list').fill('text');
    // Somebody replaces the version while the form is open, and the page has not heard of it yet.
    const body = { id: 'strict', version: '1', image: 'i', input_specs: { list: { type: 'list' } } };
    assert.equal((await send('POST', '/definitions', { body })).status, 200);
    await page.keyboard.press('Enter');
    await page.getByText('inputs.list must be an array').waitFor();
    assert.equal(await page.getByLabel('list').getAttribute('aria-invalid'), 'true');
    opened.expectErrors(/400/);
  });

  test('takes any inputs where none are declared, and starts by keyboard alone', async () => {
    const { page } = await show('/definitions/made-here?tab=start');
    await page.getByLabel('Inputs as JSON').focus();
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.type('{"anything": 1}');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);
    const run = (await send('GET', `/runs/${page.url().split('/').at(-1)}`)).body;
    assert.deepEqual(run.inputs, { anything: 1 });
  });

  test('makes a new version out of the shown one, and says when it replaces one', async () => {
    const { page } = await show('/definitions/train');
    await page.getByRole('button', { name: 'New version' }).click();
    const dialog = page.getByRole('dialog', { name: 'New version of train' });
    await dialog.getByText('This version exists and will be replaced.').waitFor();
    await dialog.getByRole('button', { name: 'Edit as JSON' }).click();
    const text = dialog.getByLabel('Definition as JSON');
    await text.fill((await text.inputValue()).replace('"2.0"', '"3.0"'));
    await dialog.getByText('will be replaced').waitFor({ state: 'detached' });
    await dialog.getByRole('button', { name: 'Store' }).click();
    await page.waitForURL('**/definitions/train?version=3.0');
    await page.getByLabel('Version').getByText('3.0 (newest)').waitFor({ state: 'attached' });
    const [old, made] = await Promise.all(
      ['2.0', '3.0'].map(
        async (version) => (await send('GET', `/definitions/train?version=${version}`)).body,
      ),
    );
    for (const field of ['input_specs', 'constraints', 'retry_policy', 'timeouts', 'event_delivery']) {
      assert.deepEqual(made[field], old[field], field);
    }
  });

  test('says that a definition or a version is not there', async () => {
    const opened = await show('/definitions/nobody');
    const { page } = opened;
    await page.getByText('There is no definition nobody').waitFor();
    opened.expectErrors(/404/);
    await page.getByRole('link', { name: 'All definitions' }).click();
    await page.waitForURL('**/definitions');
    await page.goto(`${service.url}/ui/definitions/train?version=9`);
    await page.getByText('There is no version 9').waitFor();
    await page.getByRole('button', { name: 'Show the newest' }).click();
    await page.getByRole('table', { name: 'Inputs' }).waitFor();
  });

  test('works for everybody: both themes, three widths, every tab', async () => {
    const tabs = ['Details', 'Start a run', 'Compare', 'Versions'];
    await checkLooks(
      (look) => show('/definitions', look),
      (page) => page.getByRole('link', { name: 'many-100' }).waitFor(),
      (page) => page.goto(`${service.url}/ui/definitions/train?version=2.0`),
      ...tabs.map((name) => (page: Page) => page.getByRole('tab', { name }).click()),
    );
  });
});
