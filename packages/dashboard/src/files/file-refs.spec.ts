import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { artifactIn, givenFiles, isPicture, reachableUrl, readFileRef, usesFiles } from './file-refs.js';

const ID = '5f0c2b3e-8d1a-4c7b-9e6f-0c1d2e3f4a5b';

describe('the files of a run', () => {
  const plain = {
    artifacts: {},
    inputs: { a: [1, { b: 'artifact' }] },
    outputs: {},
    state: 'FAILED',
  } as const;

  it('are none where neither its artifacts nor its inputs and outputs name one', () => {
    assert.equal(usesFiles(plain), false);
    assert.equal(usesFiles({ ...plain, artifacts: { in: {}, out: null } }), false);
    assert.deepEqual(givenFiles(plain), []);
  });

  it('are those that its artifacts, its inputs at any depth, or its outputs name', () => {
    assert.equal(usesFiles({ ...plain, artifacts: { out: { model: { path: '/out/m' } } } }), true);
    assert.equal(usesFiles({ ...plain, outputs: { deep: [{ $artifact: 'report' }] } }), true);
    const inputs = { tables: [{ $artifact: { file: ID } }], data: { $artifact: { file: ID }, more: 1 } };
    assert.equal(usesFiles({ ...plain, inputs }), true);
    const artifacts = { in: { '/data/x.csv': { store: 'datasets', key: 'x.csv' } } };
    assert.deepEqual(givenFiles({ artifacts, inputs }), [
      { place: '/data/x.csv', source: { store: 'datasets', key: 'x.csv' } },
      { place: 'inputs.tables.0', source: { file: ID } },
    ]);
  });

  it('may be some that it no longer names, once it has completed with outputs of its own', () => {
    assert.equal(usesFiles({ ...plain, state: 'COMPLETED' }), undefined);
    assert.equal(usesFiles({ ...plain, state: 'COMPLETED', outputs: { $artifact: 'outputs.json' } }), true);
  });

  it('are named by objects that have no other member', () => {
    assert.deepEqual(readFileRef({ $artifact: 'report' }, 'r'), { run: 'r', name: 'report' });
    assert.equal(readFileRef({ $artifact: 'report' }), undefined);
    assert.deepEqual(readFileRef({ $artifact: { run: 'r', name: 'n' } }), { run: 'r', name: 'n' });
    assert.equal(artifactIn({ $artifact: 'report', other: 1 }), undefined);
    assert.equal(readFileRef({ $artifact: { run: 'r' } }), undefined);
    assert.equal(readFileRef('report', 'r'), undefined);
  });
});

describe('a picture', () => {
  it('is of a type that cannot have scripts', () => {
    for (const type of ['image/png', 'image/jpeg', 'image/GIF', 'image/webp; q=1'])
      assert.ok(isPicture(type), type);
    for (const type of [null, 'image/svg+xml', 'text/html', 'image/pngx', 'x-image/png'])
      assert.ok(!isPicture(type), String(type));
  });
});

describe('the URL of a file', () => {
  const signature = 'ab'.repeat(32);

  it('is at the service where the service serves it, whatever address containers use', () => {
    const path = `file-store/runs/r/1/a%2Fb.png?expires=1&name=x&signature=${signature}`;
    assert.equal(
      reachableUrl(`http://host.docker.internal:5555/longshore/${path}`, 'https://ls.example.com/x'),
      `https://ls.example.com/x/${path}`,
    );
  });

  it('stays where it is at a bucket', () => {
    for (const url of [
      `https://minio.example.com/file-store/a?X-Amz-Date=1&X-Amz-Signature=${signature}`,
      'https://bucket.s3.amazonaws.com/file-store/a?b',
    ])
      assert.equal(reachableUrl(url, 'https://ls.example.com'), url);
  });
});
