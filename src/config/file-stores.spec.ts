import 'reflect-metadata';
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { SettingsError } from '@longshore/common/settings/setting';
import { parseNamedStores, parseStoreUrl, publicOriginOf, readCredentials } from './file-stores.js';
import { loadSettings } from './settings.module.js';

const KEYS = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret-of-the-key' };

function problemOf(env: NodeJS.ProcessEnv): string {
  try {
    loadSettings([], env);
  } catch (error) {
    if (error instanceof SettingsError) return error.problems.join('\n');
    throw error;
  }
  return 'none';
}

/** The problem of a store beside the main one at `bucket/a/b`. */
function problemBeside(prefix: string): string {
  return problemOf({
    ...KEYS,
    SERVICE_FILES_URL: 's3://bucket/a/b',
    SERVICE_FILES_STORES: `x=s3://${prefix}`,
  });
}

describe('the settings of stores', () => {
  let folder: string;
  const file = (name: string): string => join(folder, name);
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'longshore-keys-'));
    writeFileSync(
      file('keys'),
      '# a comment\n[other]\naws_access_key_id = wrong\n[default]\naws_access_key_id=own\naws_secret_access_key = own=secret \n',
    );
    writeFileSync(file('empty'), '[default]\naws_access_key_id = secret-id\n');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('read a folder, relative or absolute', () => {
    assert.deepEqual(parseStoreUrl('file:files/a'), { kind: 'folder', path: 'files/a' });
    assert.deepEqual(parseStoreUrl('file:/var/lib/x y'), { kind: 'folder', path: '/var/lib/x y' });
    assert.deepEqual(parseStoreUrl('file:///var/lib/x'), { kind: 'folder', path: '/var/lib/x' });
    assert.deepEqual(parseStoreUrl('none'), { kind: 'none' });
  });

  it('read a bucket of AWS, and one at an endpoint, whose paths have the bucket', () => {
    const aws = {
      kind: 'bucket',
      bucket: 'my.bucket',
      prefix: 'a/b c/',
      endpoint: 'https://s3.eu-central-1.amazonaws.com',
      publicEndpoint: 'https://s3.eu-central-1.amazonaws.com',
      region: 'eu-central-1',
      isPathStyle: false,
    };
    assert.deepEqual(parseStoreUrl('s3://my.bucket/a/b%20c/?region=eu-central-1'), aws);
    assert.deepEqual(
      parseStoreUrl('s3://data?endpoint=http://Minio:9000/&public_endpoint=https://minio.example.com'),
      {
        kind: 'bucket',
        bucket: 'data',
        prefix: '',
        endpoint: 'http://minio:9000',
        publicEndpoint: 'https://minio.example.com',
        region: 'us-east-1',
        isPathStyle: true,
      },
    );
    const virtual = parseStoreUrl('s3://data?endpoint=https://e.example.com&path_style=false');
    assert.equal(virtual.kind === 'bucket' && virtual.isPathStyle, false);
  });

  const wrong: [url: string, reason: RegExp][] = [
    ['folder', /does not begin with s3:\/\//],
    ['file:', /not followed by the path/],
    ['file://host/x', /not of this machine/],
    ['https://bucket', /does not begin with s3:\/\//],
    ['s3://B', /name of a bucket/],
    ['s3://user:pass@bucket', /name of a bucket/],
    ['s3://bucket#x', /name of a bucket/],
    ['s3://bucket/a//b', /part that is empty/],
    ['s3://bucket/../b', /part that is empty, \. or \.\./],
    ['s3://bucket/a%00', /control character/],
    ['s3://bucket?x=1', /unknown parameter "x"/],
    ['s3://bucket?mode=rw', /unknown parameter "mode"/],
    ['s3://bucket?region=a&region=b', /region twice/],
    ['s3://bucket?region=EU!', /region is not/],
    ['s3://bucket?path_style=1', /path_style is not true or false/],
    ['s3://bucket?endpoint=minio:9000', /endpoint is not http/],
    ['s3://bucket?endpoint=http://h/path', /endpoint is not http/],
    ['s3://bucket?public_endpoint=http://u:p@h', /public_endpoint is not http/],
  ];
  for (const [url, reason] of wrong) {
    it(`refuse ${url}`, () => {
      const problem = problemOf({ ...KEYS, SERVICE_FILES_URL: url });
      assert.match(problem, /^SERVICE_FILES_URL must be /);
      assert.match(problem, reason);
    });
  }

  it('refuse a bucket without keys, and never show these', () => {
    const bucket = { SERVICE_FILES_URL: 's3://bucket', SERVICE_FILES_STORES: 'a=s3://other' };
    const [first = '', second = ''] = problemOf(bucket).split('\n');
    assert.match(first, /^SERVICE_FILES_URL must be .*it needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY/);
    assert.match(second, /^SERVICE_FILES_STORES must be .*a: it needs .*, or credentials_file/);
    assert.equal(problemOf({ ...bucket, ...KEYS }), 'none');
    assert.equal(
      problemOf({ SERVICE_FILES_STORES: `a=s3://other?credentials_file=${file('keys')}` }),
      'none',
    );
    const both = problemOf({
      ...KEYS,
      SERVICE_FILES_URL: 's3://b',
      AWS_SECRET_ACCESS_KEY_FILE: file('keys'),
    });
    assert.match(both, /AWS_SECRET_ACCESS_KEY and AWS_SECRET_ACCESS_KEY_FILE are set/);
    assert.doesNotMatch(both, /secret-of-the-key/);
  });

  it('read stores by name, whose mode is ro unless it is given', () => {
    const stores = parseNamedStores(
      `data.sets=s3://ddd/p%2Cq, out-1=s3://ooo?mode=rw&credentials_file=${file('keys')}`,
    );
    assert.deepEqual(
      stores.map(({ name, mode, credentialsFile, address }) => [name, mode, credentialsFile, address.prefix]),
      [
        ['data.sets', 'ro', undefined, 'p,q/'],
        ['out-1', 'rw', file('keys'), ''],
      ],
    );
    assert.deepEqual(readCredentials(file('keys')), {
      accessKeyId: 'own',
      secretAccessKey: 'own=secret',
      sessionToken: undefined,
    });
  });

  const wrongStores: [stores: (path: typeof file) => string, reason: RegExp][] = [
    [() => 's3://bucket', /entry 1 does not begin with NAME=/],
    [() => 'a=s3://bucket,-b=s3://bucket', /entry 2 does not begin with NAME=/],
    [() => 'a=s3://bucket,a=s3://other', /a is there twice/],
    [() => 'a=file:x', /a: it does not begin with s3:/],
    [() => 'a=s3://bucket?mode=w', /a: mode is not ro or rw/],
    [(path) => `a=s3://bucket?credentials_file=${path('none')}`, /a: the file .* cannot be read: ENOENT/],
    [
      (path) => `a=s3://bucket?credentials_file=${path('empty')}`,
      /a: the file .* has no profile \[default\] with/,
    ],
  ];
  for (const [stores, reason] of wrongStores) {
    it(`refuse the stores ${stores((name) => name)}`, () => {
      const problem = problemOf({ ...KEYS, SERVICE_FILES_STORES: stores(file) });
      assert.match(problem, /^SERVICE_FILES_STORES must be /);
      assert.match(problem, reason);
      assert.doesNotMatch(problem, /secret-id/);
    });
  }

  it.each([
    ['s3://my-bucket/a?region=eu-central-1', 'https://my-bucket.s3.eu-central-1.amazonaws.com'],
    ['s3://my-bucket?endpoint=http://minio:9000', 'http://minio:9000'],
    [
      's3://my-bucket?endpoint=http://minio:9000&public_endpoint=https://files.example.com',
      'https://files.example.com',
    ],
    ['file:files', undefined],
    ['none', undefined],
    [undefined, undefined],
  ])('are reached by browsers, of %s, at %s', (filesUrl, origin) => {
    assert.equal(publicOriginOf({ filesUrl }), origin);
  });

  it('refuse a store that is around, inside or equal to the main one, but not one beside it or at another endpoint', () => {
    for (const shared of ['bucket', 'bucket/a', 'bucket/a/b', 'bucket/a/b/c', 'bucket/a/b/?mode=rw']) {
      assert.match(
        problemBeside(shared),
        /x is around, inside or equal to the store of SERVICE_FILES_URL/,
        shared,
      );
    }
    for (const apart of [
      'bucket/a/bc',
      'bucket/c',
      'other/a/b',
      'bucket/a/b?endpoint=https://minio.example.com',
    ]) {
      assert.equal(problemBeside(apart), 'none', apart);
    }
  });
});
