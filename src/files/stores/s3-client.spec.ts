import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, vi } from 'vitest';
import type { BucketAddress, Credentials } from '../../config/file-stores.js';
import { elementsOf, escapeXml, S3Client, textOf } from './s3-client.js';

const AWS: BucketAddress = {
  kind: 'bucket',
  bucket: 'examplebucket',
  prefix: '',
  endpoint: 'https://s3.amazonaws.com',
  publicEndpoint: 'https://s3.amazonaws.com',
  region: 'us-east-1',
  isPathStyle: false,
};
/** Keys of the examples in the documentation of AWS. */
const KEYS: Credentials = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  sessionToken: undefined,
};

function client(address: Partial<BucketAddress> = {}, keys: Partial<Credentials> = {}): S3Client {
  return new S3Client({ ...AWS, ...address }, () => ({ ...KEYS, ...keys }));
}

describe('a signed URL of a bucket', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['Date'], now: new Date('2013-05-24T00:00:00Z') });
  });
  afterEach(() => {
    vi.useRealTimers();
  });
  it('is that of the example of AWS', async () => {
    const { url, expiresAt } = await client().sign({ method: 'GET', key: 'test.txt' }, 86_400);
    const parameters = [
      'X-Amz-Algorithm=AWS4-HMAC-SHA256',
      'X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request',
      'X-Amz-Date=20130524T000000Z',
      'X-Amz-Expires=86400',
      'X-Amz-SignedHeaders=host',
      'X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404',
    ];
    assert.equal(url, `https://examplebucket.s3.amazonaws.com/test.txt?${parameters.join('&')}`);
    assert.deepEqual(expiresAt, new Date('2013-05-25T00:00:00Z'));
  });

  it('signs exactly the headers that the upload needs', async () => {
    const headers = { 'Content-Length': '5', 'x-amz-checksum-sha256': 'abc=', 'If-None-Match': '*' };
    const { url } = await client().sign({ method: 'PUT', key: 'a', headers }, 60);
    assert.equal(
      new URL(url).searchParams.get('X-Amz-SignedHeaders'),
      'content-length;host;if-none-match;x-amz-checksum-sha256',
    );
  });

  it('has the bucket in the path, at the public endpoint, below the prefix, with every character of the key encoded', async () => {
    const shown = client({
      isPathStyle: true,
      endpoint: 'http://minio:9000',
      publicEndpoint: 'https://files.example.com',
      prefix: 'a/b c/',
    });
    const key = `x/ä+%?#&=!'()*~.txt`;
    const { url } = await shown.sign({ method: 'GET', key, query: { 'response-content-type': 'a b/c' } }, 60);
    assert.ok(
      url.startsWith(
        'https://files.example.com/examplebucket/a/b%20c/x/%C3%A4%2B%25%3F%23%26%3D%21%27%28%29%2A~.txt?',
      ),
      url,
    );
    assert.match(url, /&response-content-type=a%20b%2Fc&X-Amz-Signature=/);
    assert.equal(shown.keyOf(new URL(url)), key);
  });

  it('has the session of keys that expire, and is valid for a week at most', async () => {
    const { url, expiresAt } = await client({}, { sessionToken: 'to+ken' }).sign(
      { method: 'GET', key: 'a' },
      30 * 86_400,
    );
    assert.match(url, /X-Amz-Security-Token=to%2Bken/);
    assert.deepEqual(expiresAt, new Date('2013-05-31T00:00:00Z'));
  });

  it('is known by its address and key alone', () => {
    const bucket = client({ prefix: 'p/' });
    const keyOf = (url: string): string | undefined => bucket.keyOf(new URL(url));
    assert.equal(keyOf('https://examplebucket.s3.amazonaws.com/p/runs/1/a%20b?x=1'), 'runs/1/a b');
    for (const other of [
      'https://examplebucket.s3.amazonaws.com/q/a',
      'https://examplebucket.s3.amazonaws.com/p/',
      'https://other.s3.amazonaws.com/p/a',
      'https://s3.amazonaws.com/examplebucket/p/a',
      'https://examplebucket.s3.amazonaws.com/p/%zz',
    ]) {
      assert.equal(keyOf(other), undefined, other);
    }
  });
});

describe('an answer of a bucket', () => {
  it('is read element by element, with its entities', () => {
    const key = `a&b<c>"d'e ü`;
    const xml = `<R xmlns="x"><C><Key>${escapeXml(key)}</Key></C><C><Key>&lt;&#x41;&#66;&amp;lt;</Key></C></R>`;
    assert.deepEqual(
      elementsOf(xml, 'C').map((element) => textOf(element, 'Key')),
      [key, '<AB&lt;'],
    );
    assert.equal(textOf(xml, 'Code'), undefined);
  });
});
