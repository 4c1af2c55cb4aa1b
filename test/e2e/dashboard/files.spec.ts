import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { Page } from 'playwright-core';
import { KEYS, senderTo, type Send } from '../../support/app/test-app.js';
import { checkLooks, NO_BROWSER, openPage, type PageOptions } from '../../support/browser/browser.js';
import { FileSteps } from '../../support/files/file-steps.js';
import { useS3Bucket } from '../../support/files/s3-bucket.js';
import { BUCKET_KEYS, StrictBucket } from '../../support/files/strict-bucket.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, until, type ServiceProcess } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

const SERVICE_API_KEYS = Object.entries(KEYS)
  .map(([scope, key]) => `${scope}:${key}`)
  .join(',');

/** A picture of 4 x 4 pixels. */
const PNG = Uint8Array.from(
  Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAEElEQVR42mP4z8AARwzEcQCukw/x0F8jngAAAABJRU5ErkJggg==',
    'base64',
  ),
);
const bytes = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);
const SCRIPT = `<script>localStorage.setItem('hacked', '1'); (opener ?? top).localStorage.setItem('hacked', '1')</script>`;
const SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">${SCRIPT}</svg>`;

/** Waits until the picture is drawn. */
async function isDrawn(page: Page, name: string): Promise<void> {
  await page.locator(`img[alt="${name}"]`).waitFor();
  await until(
    async () => (await page.evaluate(`document.querySelector('img[alt="${name}"]').naturalWidth`)) === 4,
    `${name} is drawn`,
  );
}

/** What a click downloads. */
async function download(page: Page, name: string): Promise<string> {
  const [saved] = await Promise.all([
    page.waitForEvent('download'),
    page
      .getByRole('button', { name: `Download ${name}`, exact: true })
      .first()
      .click(),
  ]);
  return `${saved.suggestedFilename()}: ${await readFile(await saved.path(), 'utf8')}`;
}

/** Paths of requests about files that a page makes from now on. */
function filesAskedBy(page: Page): string[] {
  const asked: string[] = [];
  page.on('request', (request) => {
    const { pathname } = new URL(request.url());
    if (/files|artifacts/.test(pathname)) asked.push(pathname);
  });
  return asked;
}

describe('files in the dashboard', skipFor(NO_BROWSER), () => {
  let service: ServiceProcess;
  let send: Send;
  let files: FileSteps;

  beforeAll(async () => {
    service = await startService({ env: { SERVICE_API_KEYS } });
    send = senderTo(service.url);
    files = new FileSteps(send);
  });

  const show = (path: string, options: Partial<PageOptions> = {}) =>
    openPage({ url: service.url, path, apiKey: KEYS.client, ...options });

  /** A run that has got and left files. @returns its id */
  async function leave(): Promise<string> {
    const earlier = (
      await send('POST', '/runs', { body: { image: 'i', artifacts: { out: { base: { path: '/b' } } } } })
    ).body;
    await files.execute({ base: bytes('base') });
    const { id: file } = await files.stored('a,b\n', { name: 'train set.csv', bytes: 4 });
    const body = {
      image: 'i',
      inputs: { table: { $artifact: { file } } },
      outputs: { report: { $artifact: 'report' } },
      artifacts: {
        in: { '/data/train.csv': { file }, '/base/model.bin': { run: earlier.id, name: 'base' } },
        out: { plots: { path: '/out/plots/*' }, page: { path: '/out/page' } },
      },
    };
    const run = (await send('POST', '/runs', { body })).body;
    const left = {
      'plots/loss.png': PNG,
      'plots/liar.png': bytes(`<html>${SCRIPT}</html>`),
      'plots/x.svg': bytes(SVG),
      page: bytes(`<html>${SCRIPT}</html>`),
      report: bytes('all is well'),
    };
    await files.execute(left, {
      types: { 'plots/x.svg': 'image/svg+xml', page: 'text/html', report: 'text/plain' },
      outputs: body.outputs,
    });
    return run.id;
  }

  test('a run shows what it gets and has left, gives it as a download, and shows pictures in place', async () => {
    const { page } = await show(`/runs/${await leave()}`);
    await page.getByRole('tab', { name: 'Files' }).click();
    const given = page.getByRole('list', { name: 'Files that the run gets' });
    await given.getByText('/data/train.csv').waitFor();
    await given.getByRole('button', { name: 'Download train set.csv' }).nth(1).waitFor();
    await given.getByText('base of run').waitFor();
    assert.equal(await download(page, 'train set.csv'), 'train set.csv: a,b\n');
    const left = page.getByRole('list', { name: 'Files that the run has left' });
    const report = left.getByRole('listitem').filter({ hasText: 'report' });
    assert.match(await report.innerText(), /stored\s+11 B\s+text\/plain\s+\/out\/report\s+[0-9a-f]{12}/);
    await isDrawn(page, 'plots/loss.png');
    await left.getByText('The browser cannot show this as a picture.').waitFor();
    assert.equal(await left.locator('img').count(), 1);
    await page.getByRole('tab', { name: 'Inputs and outputs' }).click();
    assert.equal(await download(page, 'report'), 'report: all is well');
  });

  test('a run shows what only the template of its outputs named, whatever its own outputs are', async () => {
    const body = { image: 'i', outputs: { deep: [{ $artifact: 'report' }] } };
    const { id } = (await send('POST', '/runs', { body })).body;
    await files.execute({ report: bytes('all is well') }, { outputs: { a: 1 } });
    const { page } = await show(`/runs/${id}?tab=files`);
    const left = page.getByRole('list', { name: 'Files that the run has left' });
    await left.getByText('report', { exact: true }).waitFor();
    assert.equal(await download(page, 'report'), 'report: all is well');
  });

  test('a run without files has no list of them, and asks for none', async () => {
    const { id } = (await send('POST', '/runs', { body: { image: 'i', inputs: { artifact: 'x' } } })).body;
    await send('POST', `/runs/${id}/cancel`, { body: {} });
    const { page } = await show('/');
    const asked = filesAskedBy(page);
    await page.goto(`${service.url}/ui/runs/${id}?tab=files`);
    await page.getByRole('tab', { name: 'Inputs and outputs' }).waitFor();
    await page.getByText('There is no log').waitFor();
    assert.equal(await page.getByRole('tab', { name: 'Files' }).count(), 0);
    assert.deepEqual(asked, []);
  });

  test('where files are not configured, a run that has completed has no list of them, and asks for none', async () => {
    const { url } = await startService({ env: { SERVICE_API_KEYS, SERVICE_FILES_URL: 'none' } });
    const { id } = await new RunSteps(senderTo(url)).inState('COMPLETED');
    const { page } = await show('/definitions', { url });
    const asked = filesAskedBy(page);
    const overview = page.waitForResponse((answer) => answer.url().endsWith('/overview'));
    await page.goto(`${url}/ui/runs/${id}?tab=files`);
    await overview;
    await page.getByRole('tab', { name: 'Inputs and outputs' }).click();
    await page.getByRole('heading', { name: 'Outputs' }).waitFor();
    assert.equal(await page.getByRole('tab', { name: 'Files' }).count(), 0);
    assert.deepEqual(asked, []);
  });

  test('no script of a file is executed in the origin of the dashboard', async () => {
    const id = await leave();
    const { page } = await show(`/runs/${id}?tab=files`);
    await isDrawn(page, 'plots/loss.png');
    assert.equal(await page.locator('img[alt="plots/x.svg"]').count(), 0);
    assert.equal(await download(page, 'plots/x.svg'), `x.svg: ${SVG}`);
    assert.equal(await download(page, 'page'), `page: <html>${SCRIPT}</html>`);
    for (const name of ['plots/x.svg', 'page', 'plots/liar.png']) {
      const { url } = (await send('GET', `/runs/${id}/artifacts/${name}?redirect=false`)).body;
      // As one who opens the link in a tab of its own would.
      const [popup] = await Promise.all([
        page.waitForEvent('popup'),
        page.evaluate(`window.open(${JSON.stringify(url)}), undefined`),
      ]);
      if (!popup.isClosed()) await popup.waitForEvent('close');
    }
    assert.equal(await page.evaluate(`localStorage.getItem('hacked')`), null);
  });

  /** The page of a definition with an input of the type file. */
  async function define(): Promise<string> {
    const body = {
      id: 'convert',
      version: '1',
      image: 'i',
      input_specs: { table: { type: 'file', required: true } },
    };
    assert.ok([200, 201].includes((await send('POST', '/definitions', { body })).status));
    return '/definitions/convert';
  }

  test('a file is dropped or chosen for an input, sent, and shown with its name and size; a rerun names it', async () => {
    const { page } = await show(await define());
    await page.getByRole('button', { name: 'Start a run' }).click();
    const field = page.getByLabel('table', { exact: true });
    const start = page.getByRole('button', { name: 'Start convert 1' });
    await field.fill('train');
    await start.click();
    await page.getByText('Choose a file and wait until it is sent, or enter the id of one.').waitFor();
    const file = { name: 'train set.csv', mimeType: 'text/csv', buffer: Buffer.alloc(3000, 'x') };
    await page.getByLabel('File for table', { exact: true }).setInputFiles(file);
    await page.getByRole('button', { name: 'Download train set.csv' }).waitFor();
    await page.getByText('2.9 kB').waitFor();
    const chosen = await field.inputValue();
    await page.evaluate(`(() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(['a,b'], 'dropped.csv'));
      const zone = document.querySelector('input[type=file]').parentElement;
      for (const type of ['dragover', 'drop']) zone.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
    })()`);
    await page.getByRole('button', { name: 'Download dropped.csv' }).waitFor();
    assert.notEqual(await field.inputValue(), chosen);
    assert.equal((await files.get(chosen)).state, 'stored');
    assert.deepEqual((await files.get(chosen)).content_type, 'text/csv');
    const dropped = await field.inputValue();
    await start.click();
    await page.waitForURL(/\/runs\/[0-9a-f-]{36}$/);
    const id = page.url().split('/').at(-1) ?? '';
    assert.deepEqual((await send('GET', `/runs/${id}`)).body.inputs, {
      table: { $artifact: { file: dropped } },
    });
    await send('POST', `/runs/${id}/cancel`, { body: {} });
    await page.getByRole('button', { name: /^Run again/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Download dropped.csv' }).waitFor();
  });

  test('an upload that is refused says why, and leaves nothing in its field', async () => {
    const opened = await show(await define());
    const { page } = opened;
    await page.getByRole('button', { name: 'Start a run' }).click();
    await page.route('**/file-store/**', (route) =>
      route.fulfill({ status: 507, json: { detail: 'The disk of the service is full' } }),
    );
    await page
      .getByLabel('File for table', { exact: true })
      .setInputFiles({ name: 'x.csv', mimeType: 'text/csv', buffer: Buffer.from('x') });
    await page.getByText('The disk of the service is full').waitFor();
    assert.equal(await page.getByLabel('table', { exact: true }).inputValue(), '');
    opened.expectErrors(/507/);
  });

  test('the field of a file is accessible and fits the screen', async () => {
    const { id } = await files.stored('a,b\n', { name: 'train set.csv', bytes: 4 });
    const path = await define();
    await checkLooks(
      (look) => show(path, look),
      async (page) => {
        await page.getByRole('button', { name: 'Start a run' }).click();
        await page.getByLabel('table', { exact: true }).fill(id);
        await page.getByRole('button', { name: 'Download train set.csv' }).waitFor();
      },
    );
  });

  test('all of it is accessible and fits the screen', async () => {
    const id = await leave();
    await checkLooks(
      (look) => show(`/runs/${id}?tab=files`, look),
      async (page) => {
        await isDrawn(page, 'plots/loss.png');
        await page.getByText('The browser cannot show this as a picture.').waitFor();
      },
    );
  });
});

describe('files in the dashboard, in a bucket', skipFor(NO_BROWSER), () => {
  let bucket: StrictBucket;
  let service: ServiceProcess;
  let files: FileSteps;

  beforeAll(async () => {
    bucket = await StrictBucket.start();
    service = await startService({
      env: {
        SERVICE_API_KEYS,
        SERVICE_FILES_URL: `s3://pictures/prefix?endpoint=${bucket.url}`,
        AWS_ACCESS_KEY_ID: BUCKET_KEYS.accessKeyId,
        AWS_SECRET_ACCESS_KEY: BUCKET_KEYS.secretAccessKey,
      },
    });
    files = new FileSteps(senderTo(service.url));
  });
  afterAll(() => bucket?.close());

  test('pictures are shown from the bucket, whose origin is the only one beside that of the service', async () => {
    const body = { image: 'i', artifacts: { out: { plot: { path: '/p.png' } } } };
    const { id } = (await senderTo(service.url)('POST', '/runs', { body })).body;
    await files.execute({ plot: PNG });
    const policy = String((await fetch(`${service.url}/ui/`)).headers.get('Content-Security-Policy'));
    assert.ok(
      policy.includes(`img-src 'self' data: ${bucket.url}; connect-src 'self' ${bucket.url};`),
      policy,
    );
    const { page } = await openPage({ url: service.url, path: `/runs/${id}?tab=files`, apiKey: KEYS.client });
    await isDrawn(page, 'plot');
    assert.match(await download(page, 'plot'), /^plot: .PNG/);
  });

  test('a file goes to the bucket where its rules for CORS allow it, and else the field says so', async () => {
    const body = { id: 'convert', version: '1', image: 'i', input_specs: { table: { type: 'file' } } };
    await senderTo(service.url)('POST', '/definitions', { body });
    const opened = await openPage({ url: service.url, path: '/definitions/convert', apiKey: KEYS.client });
    const { page } = opened;
    await page.getByRole('button', { name: 'Start a run' }).click();
    const file = { name: 'x.csv', mimeType: 'text/csv', buffer: Buffer.from('a,b') };
    await page.getByLabel('File for table', { exact: true }).setInputFiles(file);
    await page.getByText(/does not allow this page to use it \(CORS\)/).waitFor();
    opened.expectErrors(/CORS policy|net::ERR_FAILED/);
    bucket.origin = service.url;
    await page.getByLabel('File for table', { exact: true }).setInputFiles(file);
    await page.getByRole('button', { name: 'Download x.csv' }).waitFor();
    assert.equal(await download(page, 'x.csv'), 'x.csv: a,b');
  });
});

describe('files in the dashboard, in a bucket that takes parts', skipFor(NO_BROWSER), () => {
  const bucket = useS3Bucket(`<CORSConfiguration><CORSRule>
    <AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod>
    <AllowedHeader>*</AllowedHeader><ExposeHeader>ETag</ExposeHeader>
  </CORSRule></CORSConfiguration>`);
  const partBytes = 5 * 2 ** 20;
  let service: ServiceProcess;

  beforeAll(async () => {
    const env = { ...bucket.env, SERVICE_API_KEYS, SERVICE_FILE_PART_BYTES: String(partBytes) };
    service = await startService({ env });
  });

  test('a large file goes there in parts, and what is kept is the file', async () => {
    const send = senderTo(service.url);
    const body = { id: 'convert', version: '1', image: 'i', input_specs: { table: { type: 'file' } } };
    await send('POST', '/definitions', { body });
    const { page } = await openPage({ url: service.url, path: '/definitions/convert', apiKey: KEYS.client });
    const sent: string[] = [];
    page.on('request', (request) => {
      if (request.method() === 'PUT') sent.push(request.url());
    });
    await page.getByRole('button', { name: 'Start a run' }).click();
    const buffer = Buffer.alloc(2 * partBytes + 1, 'abc');
    const file = { name: 'large.bin', mimeType: 'application/octet-stream', buffer };
    await page.getByLabel('File for table', { exact: true }).setInputFiles(file);
    await page.getByRole('button', { name: 'Download large.bin' }).waitFor();
    assert.deepEqual(
      sent.map((url) => new URL(url).searchParams.get('partNumber')),
      ['1', '2', '3'],
    );
    const id = await page.getByLabel('table', { exact: true }).inputValue();
    const { url } = (await send('GET', `/files/${id}/content?redirect=false`)).body;
    assert.ok(buffer.equals(Buffer.from(await (await fetch(url)).arrayBuffer())));
  });
});
