import assert from 'node:assert/strict';
import type { LookupFunction } from 'node:net';
import { hash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import { afterAll, afterEach, beforeAll, beforeEach, describe, test } from 'vitest';
import type { BucketAddress } from '../../../src/config/file-stores.js';
import type { SignedUrl } from '../../../src/files/stores/file-store.js';
import { S3Store } from '../../../src/files/stores/s3-store.js';
import { PartsRefused, StoreUnavailable } from '../../../src/files/stores/stores.errors.js';
import { BUCKET_KEYS, StrictBucket } from '../../support/files/strict-bucket.js';

interface S3rver {
  run(): Promise<AddressInfo>;
  close(): Promise<void>;
}
/** A server for tests of others, without types. */
const S3rver: new (options: object) => S3rver = createRequire(import.meta.url)('@20minutes/s3rver');

const ADDRESS: BucketAddress = {
  kind: 'bucket',
  bucket: 'bucket',
  prefix: 'some/prefix/',
  endpoint: '',
  publicEndpoint: '',
  region: 'us-east-1',
  isPathStyle: true,
};
const MB = 1024 * 1024;

/** `fetch` sends the length of the body by itself. */
function send({ method, url, headers }: SignedUrl, body?: Uint8Array | string): Promise<Response> {
  const { 'Content-Length': _, ...others } = headers;
  return fetch(url, { method, headers: others, ...(body === undefined ? {} : { body: Buffer.from(body) }) });
}

/** Finds every name at this machine. */
const toThisMachine: LookupFunction = (_, options, done) => {
  const [address, family] = ['127.0.0.1', 4] as const;
  if (options.all === true) done(null, [{ address, family }]);
  else done(null, address, family);
};

// S3rver ignores If-None-Match and checksums, cannot end a page of a list on OpenSSL 3, does not encode all characters of a query that it verifies, and fails on an upload
// in parts that does not exist: the second suite tests these. Of a bucket in the host it computes another signature
// than AWS, whose example s3-client.spec.ts has.
for (const isPathStyle of [true, false]) {
  describe(`a bucket of s3rver, whose name is in the ${isPathStyle ? 'path' : 'host'}`, () => {
    const before = getGlobalDispatcher();
    let folder: string;
    let server: S3rver;
    let store: S3Store;

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'longshore-s3-'));
      server = new S3rver({
        address: '127.0.0.1',
        port: 0,
        silent: true,
        directory: folder,
        allowMismatchedSignatures: !isPathStyle,
        configureBuckets: [{ name: 'bucket' }],
      });
      const { port } = await server.run();
      setGlobalDispatcher(new Agent({ connect: { lookup: toThisMachine } }));
      const endpoint = isPathStyle ? `http://127.0.0.1:${port}` : `http://s3.us-east-1.amazonaws.com:${port}`;
      const keys = { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER', sessionToken: undefined };
      store = new S3Store({ ...ADDRESS, endpoint, publicEndpoint: endpoint, isPathStyle }, () => keys);
    });
    afterAll(async () => {
      const ours = getGlobalDispatcher();
      setGlobalDispatcher(before);
      await ours.close();
      await server.close();
      await rm(folder, { recursive: true, force: true });
    });

    test('stores and gives an object at signed URLs, and nothing at others', async () => {
      const key = `runs/1/ä +&'(b).bin`;
      const content = randomBytes(100_000);
      const upload = await store.signPut(key, {
        validS: 60,
        bytes: content.length,
        contentType: 'image/png',
      });
      assert.deepEqual(upload.headers, { 'Content-Length': '100000', 'Content-Type': 'image/png' });
      assert.equal((await send(upload, content)).status, 200);
      const object = await store.head(key);
      assert.equal(object?.bytes, content.length);
      assert.equal(object.etag, `"${hash('md5', content)}"`);
      const url = await store.signGet(key, {
        validS: 60,
        name: 'a b.bin',
        contentType: 'application/x-test',
      });
      const answer = await send(url);
      assert.equal(answer.status, 200);
      assert.deepEqual(Buffer.from(await answer.arrayBuffer()), content);
      assert.equal(answer.headers.get('content-disposition'), 'attachment; filename="a b.bin"');
      assert.equal(answer.headers.get('content-type'), 'application/x-test');
      const part = await fetch(url.url, { headers: { Range: 'bytes=10-19' } });
      assert.deepEqual([part.status, Buffer.from(await part.arrayBuffer())], [206, content.subarray(10, 20)]);
      const wrong = await fetch(url.url.replace(/X-Amz-Expires=\d+/, 'X-Amz-Expires=61'));
      assert.equal(wrong.status, isPathStyle ? 403 : 200);
      assert.equal(store.keyOf(new URL(url.url)), key);
    });

    test('gives upload URLs that need no header', async () => {
      const url = await store.signPut('plain', { validS: 60 });
      assert.deepEqual(url.headers, {});
      assert.equal((await send(url, 'x')).status, 200);
    });

    test('lists objects in the order of their keys, and removes them', async () => {
      const keys = ['l/a', 'l/a.b', 'l/b +c', 'l/c'];
      await Promise.all(keys.map((key) => store.write(key, key)));
      const all = await store.list('l/', { limit: 100 });
      const rest = await store.list('l/', { limit: 100, after: 'l/a.b' });
      assert.deepEqual(
        all.map(({ key, bytes }) => [key, bytes]),
        keys.map((key) => [key, key.length]),
      );
      assert.deepEqual(rest, all.slice(2));
      assert.deepEqual(await store.list('none/', { limit: 5 }), []);
      assert.equal(all[0]?.etag, (await store.head('l/a'))?.etag);
      await store.remove([...keys, 'l/never']);
      assert.deepEqual(await store.list('l/', { limit: 5 }), []);
      assert.equal(await store.head('l/a'), undefined);
    });

    test('keeps small texts of the service', async () => {
      assert.equal(await store.read('.longshore'), undefined);
      await store.write('.longshore', 'id');
      assert.equal(await store.read('.longshore'), 'id');
      await store.remove(['.longshore', ...(await store.list('', { limit: 100 })).map(({ key }) => key)]);
      await store.probe();
    });

    test('puts parts together, or forgets them', async () => {
      const parts = [randomBytes(5 * MB), randomBytes(1000)];
      const id = await store.parts.start('large', 'image/png');
      const etags = await Promise.all(
        parts.map(async (part, index) => {
          const url = await store.parts.signPart('large', id, index + 1, { bytes: part.length, validS: 60 });
          const answer = await send(url, part);
          assert.equal(answer.status, 200);
          return answer.headers.get('etag') ?? '';
        }),
      );
      const object = await store.parts.complete('large', id, etags);
      assert.equal(object.bytes, 5 * MB + 1000);
      assert.equal(object.sha256, null);
      const whole = await send(await store.signGet('large', { validS: 60 }));
      assert.deepEqual(Buffer.from(await whole.arrayBuffer()), Buffer.concat(parts));
    });
  });
}

describe('a bucket that checks signed headers', () => {
  let bucket: StrictBucket;
  let store: S3Store;
  const SHA256 = hash('sha256', 'content');

  beforeEach(async () => {
    bucket = await StrictBucket.start();
    store = new S3Store({ ...ADDRESS, endpoint: bucket.url, publicEndpoint: bucket.url }, () => BUCKET_KEYS);
  });
  afterEach(() => bucket.close());

  test('takes only the bytes, the checksum and the type of the URL, and only once', async () => {
    const upload = await store.signPut('a', {
      validS: 60,
      bytes: 7,
      sha256: SHA256,
      contentType: 'text/plain',
      isOnce: true,
    });
    const base64 = Buffer.from(SHA256, 'hex').toString('base64');
    assert.deepEqual(upload.headers, {
      'Content-Length': '7',
      'Content-Type': 'text/plain',
      'x-amz-checksum-sha256': base64,
      'If-None-Match': '*',
    });
    const { 'If-None-Match': _, ...repeatable } = upload.headers;
    const { 'x-amz-checksum-sha256': __, ...unchecked } = upload.headers;
    for (const [headers, body] of [
      [repeatable, 'content'],
      [unchecked, 'content'],
      [upload.headers, 'contents'],
      [{ ...upload.headers, 'Content-Type': 'text/html' }, 'content'],
    ] as const) {
      assert.equal((await send({ ...upload, headers }, body)).status, 403, JSON.stringify(headers));
    }
    assert.equal((await send(upload, 'CONTENT')).status, 400);
    assert.equal(bucket.objects.size, 0);
    assert.equal((await send(upload, 'content')).status, 200);
    assert.equal((await send(upload, 'content')).status, 412);
    assert.equal((await store.head('a'))?.sha256, SHA256);
  });

  test('is asked again while it is busy, and is unavailable when it stays so, without its words', async () => {
    await store.write('a', 'content');
    bucket.faults.push({ status: 503, code: 'SlowDown' });
    assert.equal(await store.read('a'), 'content');
    bucket.faults.push({ status: 403, code: 'AccessDenied' });
    await assert.rejects(store.head('a'), (error) => {
      assert.ok(error instanceof StoreUnavailable);
      assert.equal(error.message, 'The file store is not available');
      return error.reason === 'the bucket answers 403';
    });
    bucket.faults.push({ status: 403, code: 'AccessDenied' });
    await assert.rejects(store.probe(), { reason: 'the bucket answers 403 AccessDenied' });
  });

  test('gives an attachment whose name has any characters', async () => {
    await store.write('a', 'content');
    const url = await store.signGet('a', { validS: 60, name: `ä*'(1)+"2".txt` });
    assert.equal(await (await send(url)).text(), 'content');
    const disposition = new URL(url.url).searchParams.get('response-content-disposition') ?? '';
    assert.match(
      disposition,
      /^attachment; filename=".*"; filename\*=UTF-8''%C3%A4%2A%27%281%29%2B%222%22\.txt$/,
    );
  });

  test('lists objects page by page, whatever their keys', async () => {
    const keys = ['l/a', 'l/a.b', 'l/a/b', `l/b&"<c>'`, 'l/c'];
    for (const key of keys) await store.write(key, key);
    const first = await store.list('l/', { limit: 2 });
    const rest = await store.list('l/', { limit: 2, after: 'l/a.b' });
    const last = await store.list('l/', { limit: 2, after: keys[3] ?? '' });
    assert.deepEqual(
      [...first, ...rest, ...last].map(({ key, bytes, etag }) => [key, bytes, etag]),
      keys.map((key) => [key, key.length, `"${hash('md5', key)}"`]),
    );
    await store.probe();
  });

  test('refuses to complete an upload that does not exist', async () => {
    await assert.rejects(store.parts.complete('never', 'no-such-upload', ['"x"']), PartsRefused);
    await store.parts.abort('never', 'no-such-upload');
  });

  test('is unavailable, with the reason, when nothing listens', async () => {
    const away = new S3Store({ ...ADDRESS, endpoint: 'http://127.0.0.1:2' }, () => BUCKET_KEYS);
    await assert.rejects(away.probe(), { reason: 'http://127.0.0.1:2 cannot be reached: ECONNREFUSED' });
  });
});
