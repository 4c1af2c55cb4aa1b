import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { NO_BROWSER, openPage } from '../../support/browser/browser.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

const KEY = 'inputs-client-key-of-the-tests';

describe('the form that starts a run of a definition', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let send: Send;

  beforeAll(async () => {
    service = await startService({ env: { SERVICE_API_KEYS: `client:${KEY}` } });
    send = senderTo(service.url, KEY);
  });

  test('shows the command that the entered inputs make, and starts it', async () => {
    const body = {
      id: 'convert',
      version: '1',
      image: 'convert',
      description: 'Converts a file.\nAsk the team of vision.',
      command: ['convert'],
      args: [
        { flag: '--in', input: 'file' },
        '--mode=${inputs.mode}',
        { flag: '--all', input: 'all' },
        { flag: '-n', input: 'mode', join: '' },
      ],
      env: { NAME: '${inputs.file}' },
      input_specs: {
        file: { type: 'string', required: true, description: 'What to read.' },
        mode: { type: 'string', enum: ['fast', 'slow'], default: 'fast' },
        all: { type: 'boolean' },
      },
    };
    assert.equal((await send('POST', '/definitions', { body })).status, 201);
    const { page } = await openPage({ url: service.url, path: '/definitions/convert', apiKey: KEY });
    await page.getByRole('row', { name: 'mode string, one of "fast", "slow"' }).waitFor();
    const line = "convert --in '${inputs.file}' '--mode=${inputs.mode}' --all '-n${inputs.mode}'";
    await page.getByRole('main').locator('dl').getByText(line, { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Start a run' }).click();
    const [above, first] = [page.getByText('Ask the team of vision.'), page.getByText('What to read.')];
    const [description, input] = [await above.boundingBox(), await first.boundingBox()];
    assert.ok(description && input && description.y < input.y, 'the description is above the form');
    await page.getByLabel('Name', { exact: true }).fill('of monday');
    await page.getByRole('button', { name: 'Labels: add a row' }).click();
    await page.getByLabel('Labels: name 1').fill('team');
    await page.getByLabel('Labels: value 1').fill('vision');
    await page.getByText('What to read. · string · required').waitFor();
    await page.getByLabel('file', { exact: true }).fill('a "b" $(c)');
    const command = page.getByLabel('Command', { exact: true });
    await command.getByText(`convert --in 'a "b" $(c)' --mode=fast -nfast`).waitFor();
    await command.getByText(`'NAME=a "b" $(c)'`).waitFor();
    await page.getByLabel('mode').selectOption('slow');
    await command.getByText('--mode=slow').waitFor();
    assert.equal((await send('GET', '/runs?op_definition=convert')).body.data.length, 0);
    await page.getByRole('button', { name: 'Start convert 1' }).click();
    await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);
    const run = (await send('GET', `/runs/${page.url().split('/').at(-1)}`)).body;
    assert.deepEqual(run.args, ['--in', 'a "b" $(c)', '--mode=slow', '-nslow']);
    assert.deepEqual([run.name, run.labels], ['of monday', { team: 'vision' }]);
  });
});
