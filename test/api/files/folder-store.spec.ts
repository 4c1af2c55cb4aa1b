import assert from 'node:assert/strict';
import { hash, randomBytes } from 'node:crypto';
import { appendFile, mkdir, mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { PutOptions, SignedUrl } from '../../../src/files/stores/file-store.js';
import { Stores } from '../../../src/files/stores/stores.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { RawConnection } from '../../support/http/raw-http.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { until } from '../../support/service-process.js';

const HOUR = 3600;
const CONTENT = randomBytes(300_000);
const SHA256 = hash('sha256', CONTENT);

function put(url: string, body: Uint8Array): Promise<Response> {
  return fetch(url, { method: 'PUT', body: Buffer.from(body) });
}

async function detailOf(answer: Response): Promise<[number, string]> {
  const { detail }: { detail?: string } = JSON.parse(await answer.text());
  return [answer.status, String(detail)];
}

/** Sends the head of an upload, then its body. @returns the status of the first answer */
async function askFirst(url: string): Promise<number> {
  const { port, pathname, search } = new URL(url);
  const connection = await RawConnection.open(Number(port));
  const head = `PUT ${pathname}${search} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n`;
  const { status } = await connection.send(head).next();
  if (status === 100) assert.equal((await connection.send('12345').next()).status, 200);
  connection.destroy();
  return status;
}

describe('a folder that the service serves', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-folder-'));
  });
  const service = useTestApp(() => ({
    env: { SERVICE_FILES_URL: `file:${folder}`, SERVICE_MAX_BODY_BYTES: '1000' },
  }));
  afterAll(() => rm(folder, { recursive: true, force: true }));

  let names = 0;
  const store = () => service.app.get(Stores, { strict: false }).required();
  const newKey = (): string => `files/object-${(names += 1)}`;
  const signPut = (key: string, options: Partial<PutOptions> = {}): Promise<SignedUrl> =>
    store().signPut(key, { validS: HOUR, base: service.url, ...options });
  const signGet = async (
    key: string,
    options: { name?: string; contentType?: string } = {},
  ): Promise<string> => (await store().signGet(key, { validS: HOUR, base: service.url, ...options })).url;
  const stored = async (content: Uint8Array = CONTENT): Promise<string> => {
    const key = newKey();
    assert.equal((await put((await signPut(key)).url, content)).status, 200);
    return key;
  };
  const arriving = (): Promise<string[]> => readdir(join(folder, '.tmp'));

  test('takes an upload of any size without an API key, and knows its bytes and checksum', async () => {
    const key = newKey();
    const { method, url, headers } = await signPut(key, {
      bytes: CONTENT.length,
      sha256: SHA256,
      isOnce: true,
    });
    assert.deepEqual([method, headers], ['PUT', {}]);
    const answer = await put(url, CONTENT);
    assert.equal(answer.status, 200);
    const object = await store().head(key);
    assert.deepEqual(
      [object?.key, object?.bytes, object?.sha256, object?.etag],
      [key, CONTENT.length, SHA256, answer.headers.get('etag')],
    );
    assert.deepEqual(Buffer.from(await (await fetch(await signGet(key))).arrayBuffer()), CONTENT);
    assert.deepEqual(await arriving(), []);
  });

  test('gives ranges, an attachment with its name, and nothing that a browser would execute', async () => {
    const key = await stored(Buffer.from('<script>alert(1)</script>'));
    const url = await signGet(key, { name: 'Größe "1".html', contentType: 'text/html' });
    const whole = await fetch(url);
    const header = (name: string): string | null => whole.headers.get(name);
    assert.equal(whole.status, 200);
    assert.match(
      header('content-disposition') ?? '',
      /^attachment; filename=.*; filename\*=UTF-8''Gr%C3%B6%C3%9Fe%20%221%22\.html$/,
    );
    assert.equal(header('content-type'), 'text/html');
    assert.equal(header('x-content-type-options'), 'nosniff');
    assert.equal(header('content-security-policy'), "default-src 'none'; sandbox");
    const etag = header('etag') ?? '';
    const part = await fetch(url, { headers: { Range: 'bytes=8-13', 'If-Range': etag } });
    assert.deepEqual([part.status, await part.text()], [206, 'alert(']);
    assert.equal(part.headers.get('content-range'), 'bytes 8-13/25');
    const rest = await fetch(url, { headers: { Range: 'bytes=16-' } });
    assert.equal(await rest.text(), '</script>');
    const other = await fetch(url, { headers: { Range: 'bytes=8-13', 'If-Range': '"other"' } });
    assert.equal(other.status, 200);
    assert.equal((await fetch(url, { headers: { Range: 'bytes=99-' } })).status, 416);
    const head = await fetch(url, { method: 'HEAD' });
    assert.deepEqual([head.status, head.headers.get('content-length')], [200, '25']);
    assert.equal(
      (await fetch(url, { headers: { 'If-None-Match': etag, 'Cache-Control': 'max-age=0' } })).status,
      304,
    );
  });

  test('refuses a URL of which anything was changed, for another method or object, and one that has expired', async () => {
    const key = await stored();
    const other = await stored();
    const url = await signGet(key, { name: 'a' });
    const wrong = [403, 'The signature of the URL is wrong'];
    for (const changed of [
      url.replace('name=a', 'name=b'),
      url.replace(/expires=(\d)/, 'expires=9$1'),
      url.replace(key, other),
      url.replace(/.$/, (digit) => (digit === '0' ? '1' : '0')),
      url.replace(/&signature=.*/, ''),
      url.replace(/\?.*/, ''),
      `${url}&name=b`,
      url.replace('?', '?name=b&'),
    ]) {
      assert.notEqual(changed, url);
      assert.deepEqual(await detailOf(await fetch(changed)), wrong, changed);
    }
    assert.deepEqual(await detailOf(await put(url, CONTENT)), wrong);
    assert.deepEqual(await detailOf(await fetch((await signPut(key)).url)), wrong);
    const { url: past } = await store().signGet(key, { validS: -1, base: service.url });
    assert.deepEqual(await detailOf(await fetch(past)), [403, 'The URL has expired']);
  });

  test('answers 404 for an object that does not exist or was removed', async () => {
    const key = await stored();
    const url = await signGet(key);
    await store().remove([key, 'files/never']);
    assert.deepEqual(await detailOf(await fetch(url)), [404, 'No such object']);
    assert.equal(await store().head(key), undefined);
  });

  test('refuses another number of bytes and another checksum, and keeps nothing of them', async () => {
    const key = newKey();
    const { url } = await signPut(key, { bytes: CONTENT.length, sha256: SHA256 });
    const other = Buffer.from(CONTENT);
    other[7] = (other[7] ?? 0) ^ 1;
    assert.deepEqual(await detailOf(await put(url, other)), [
      400,
      'The content has another SHA-256 than that of the URL',
    ]);
    assert.match(
      (await detailOf(await put(url, CONTENT.subarray(1)))).join(),
      /^400,.*Content-Length is another number$/,
    );
    const chunks = async (body: Uint8Array): Promise<Response> =>
      fetch(url, {
        method: 'PUT',
        body: new Blob([Buffer.from(body)]).stream(),
        duplex: 'half',
      });
    assert.match((await detailOf(await chunks(CONTENT.subarray(1)))).join(), /^400,.*fewer were sent$/);
    assert.match(
      (await detailOf(await chunks(Buffer.concat([CONTENT, CONTENT])))).join(),
      /^400,.*more were sent$/,
    );
    assert.equal(await store().head(key), undefined);
    assert.deepEqual(await arriving(), []);
    assert.equal((await chunks(CONTENT)).status, 200);
  });

  test('keeps nothing of an upload that breaks off', async () => {
    const key = newKey();
    const { url } = await signPut(key, { bytes: CONTENT.length });
    const { port, pathname, search } = new URL(url);
    const socket = connect(Number(port), '127.0.0.1');
    socket.write(`PUT ${pathname}${search} HTTP/1.1\r\nHost: x\r\nContent-Length: ${CONTENT.length}\r\n\r\n`);
    socket.write(CONTENT.subarray(0, 100_000));
    await until(async () => (await arriving()).length === 1, 'the upload has begun');
    socket.destroy();
    await until(async () => (await arriving()).length === 0, 'the upload is gone');
    assert.equal(await store().head(key), undefined);
    assert.equal((await put(url, CONTENT)).status, 200);
  });

  test('lets a client that waits for 100 Continue send its body only if it is wanted', async () => {
    const key = await stored();
    assert.equal(await askFirst((await signPut(key, { isOnce: true })).url), 412);
    assert.equal(await askFirst((await signPut(newKey(), { isOnce: true })).url), 100);
  });

  test('takes one of several uploads of an object that is stored once, also of those at the same time', async () => {
    const key = newKey();
    const { url } = await signPut(key, { isOnce: true });
    const bodies = ['a', 'bb', 'ccc', 'dddd'].map((text) => Buffer.from(text.repeat(50_000)));
    const statuses = await Promise.all(bodies.map(async (body) => (await put(url, body)).status));
    assert.deepEqual(
      statuses.toSorted((one, other) => one - other),
      [200, 412, 412, 412],
    );
    const kept = bodies[statuses.indexOf(200)] ?? Buffer.alloc(0);
    assert.equal((await store().head(key))?.sha256, hash('sha256', kept));
    assert.deepEqual(await detailOf(await put(url, CONTENT)), [412, 'The object exists already']);
  });

  test('replaces an object that is not stored once, with its checksum', async () => {
    const key = await stored();
    assert.equal((await put((await signPut(key)).url, Buffer.from('new'))).status, 200);
    assert.equal((await store().head(key))?.sha256, hash('sha256', 'new'));
  });

  test('tells the checksum of the object of several uploads that are alike but for their content', async () => {
    const key = newKey();
    const { url } = await signPut(key);
    const at = new Date();
    for (const content of ['one', 'two', 'six']) {
      assert.equal((await put(url, Buffer.from(content))).status, 200);
      // As of uploads of one moment, of which each knows its own checksum.
      await utimes(join(folder, key), at, at);
      const { mtimeNs, ino } = await stat(join(folder, key), { bigint: true });
      await appendFile(join(folder, '.sums', key), `3 ${mtimeNs} ${hash('sha256', content)} ${ino}\n`);
    }
    await appendFile(
      join(folder, '.sums', key),
      `3 ${(await stat(join(folder, key), { bigint: true })).mtimeNs} ${SHA256} 1\n`,
    );
    assert.equal((await store().head(key))?.sha256, hash('sha256', 'six'));
  });

  test('refuses an upload that would leave too little of the disk free', async () => {
    const full = await startTestApp({ env: { SERVICE_FILES_MIN_FREE_MB: '1000000000' } });
    try {
      const { url } = await full.app
        .get(Stores, { strict: false })
        .required()
        .signPut('files/x', { validS: HOUR, base: full.url });
      assert.deepEqual(await detailOf(await put(url, CONTENT)), [
        507,
        'The upload would leave too little of the disk free (SERVICE_FILES_MIN_FREE_MB)',
      ]);
    } finally {
      await full.close();
    }
  });

  describe('of an attempt', () => {
    test('refuses uploads after the attempt was sealed, also those that have begun before', async () => {
      const attempt = 'runs/r-1/1';
      const { url } = await signPut(`${attempt}/plots/a.png`);
      assert.equal((await put(url, Buffer.from('early'))).status, 200);
      let send: ReadableStreamDefaultController<Uint8Array> | undefined;
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => {
          send = controller;
        },
      });
      const late = fetch((await signPut(`${attempt}/late`)).url, {
        method: 'PUT',
        body,
        duplex: 'half',
      });
      send?.enqueue(CONTENT);
      await until(async () => (await arriving()).length === 1, 'the late upload has begun');
      await store().seal(attempt);
      await store().seal(attempt);
      send?.close();
      const refused = [409, 'The attempt has ended: it takes no more uploads'];
      assert.deepEqual(await detailOf(await late), refused);
      assert.deepEqual(await detailOf(await put(url, Buffer.from('later'))), refused);
      assert.deepEqual(await arriving(), []);
      assert.equal(await (await fetch(await signGet(`${attempt}/plots/a.png`))).text(), 'early');
      assert.deepEqual(
        (await store().list('runs/r-1/', { limit: 10 })).map(({ key }) => key),
        [`${attempt}/plots/a.png`],
      );
    });

    test('can be sealed without an upload', async () => {
      await store().seal('runs/r-2/1');
      assert.equal((await put((await signPut('runs/r-2/1/x')).url, CONTENT)).status, 409);
      assert.equal((await put((await signPut('runs/r-2/2/x')).url, CONTENT)).status, 200);
    });

    for (const state of ['open', 'sealed', 'about to be sealed'] as const) {
      test(`leaves nothing when its objects are removed, also of uploads whose process died: ${state}`, async () => {
        const run = `r-${state.replaceAll(' ', '-')}`;
        const attempt = `runs/${run}/1`;
        const path = join(folder, `${attempt}.open`);
        await mkdir(join(path, 'plots/deep'), { recursive: true });
        await mkdir(join(folder, '.sums', attempt), { recursive: true });
        await writeFile(join(folder, '.sums', attempt, 'never'), '');
        assert.equal((await put((await signPut(`${attempt}/plots/a.png`)).url, CONTENT)).status, 200);
        if (state === 'sealed') await store().seal(attempt);
        if (state === 'about to be sealed') await writeFile(join(path, '.sealed'), '');
        const left = async (): Promise<string[]> =>
          (await readdir(folder, { recursive: true })).filter((one) => one.includes(run));
        await store().remove([`${attempt}/none`]);
        assert.ok((await left()).some((one) => one.endsWith('plots/a.png')));
        await store().remove([`${attempt}/plots/a.png`]);
        assert.deepEqual(await left(), []);
      });
    }
  });

  test('is one for several processes: URLs of one are served by the other, with one secret', async () => {
    const second: TestApp = await startTestApp({
      env: { SERVICE_FILES_URL: `file:${folder}` },
      database: service.database,
    });
    try {
      const url = await signGet(await stored());
      const answer = await fetch(url.replace(service.url, second.url));
      assert.equal(answer.status, 200);
      assert.equal((await answer.arrayBuffer()).byteLength, CONTENT.length);
    } finally {
      await second.close();
    }
  });
});
