import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { canonicalName, localName, parseImageReference, pullSelector } from './image-reference.js';

const DIGEST = `sha256:${'0123456789abcdef'.repeat(4)}`;

describe('image references', () => {
  for (const [image, repository, selector, name, local] of [
    ['busybox', 'busybox', 'latest', 'busybox', 'busybox:latest'],
    ['busybox:stable', 'busybox', 'stable', 'busybox', 'busybox:stable'],
    ['team/word-count:1.0_a', 'team/word-count', '1.0_a', 'word-count', 'team/word-count:1.0_a'],
    ['localhost/tool', 'localhost/tool', 'latest', 'tool', 'localhost/tool:latest'],
    ['127.0.0.1:5000/a/b__c', '127.0.0.1:5000/a/b__c', 'latest', 'b__c', '127.0.0.1:5000/a/b__c:latest'],
    ['[::1]:5000/tool', '[::1]:5000/tool', 'latest', 'tool', '[::1]:5000/tool:latest'],
    ['Registry.Example/tool', 'Registry.Example/tool', 'latest', 'tool', 'Registry.Example/tool:latest'],
    [`r.example/tool@${DIGEST}`, 'r.example/tool', DIGEST, 'tool', `r.example/tool@${DIGEST}`],
    [`r.example:1/tool:v2@${DIGEST}`, 'r.example:1/tool', DIGEST, 'tool', `r.example:1/tool@${DIGEST}`],
  ] as const) {
    it(`reads ${image}`, () => {
      const reference = parseImageReference(image);
      assert.equal(reference.repository, repository);
      assert.equal(reference.name, name);
      assert.equal(pullSelector(reference), selector);
      assert.equal(localName(reference), local);
    });
  }

  for (const [image, complete] of [
    ['busybox', 'docker.io/library/busybox:latest'],
    ['index.docker.io/busybox:1', 'docker.io/library/busybox:1'],
    ['docker.io/team/tool', 'docker.io/team/tool:latest'],
    ['fc9de9d33efb', 'docker.io/library/fc9de9d33efb:latest'],
    ['localhost/tool', 'localhost/tool:latest'],
    [`r.example:5000/tool:1@${DIGEST}`, `r.example:5000/tool@${DIGEST}`],
  ] as const) {
    it(`completes ${image} as engines do`, () => {
      assert.equal(canonicalName(parseImageReference(image)), complete);
    });
  }

  for (const image of [
    '',
    'Upper',
    'team/Upper',
    'a//b',
    '/a',
    'a/',
    '..',
    '../etc',
    './a',
    'a..b/c',
    '-a.b/c',
    'a/../b',
    'a:b:c',
    'a:',
    'a@',
    'a@sha256:12',
    `a@${DIGEST}@${DIGEST}`,
    'a b',
    'a?b',
    'a#b',
    'a%2fb',
    '-a',
    'a_',
    'a___b',
    'a'.repeat(256),
    `a:${'t'.repeat(129)}`,
    'https://registry.example/a',
    'registry.example:port/a',
    'sha256',
    'sha256:fc9',
    `sha256:${'0123456789abcdef'.repeat(4)}`,
    'sha512:fc9',
    `sha256@${DIGEST}`,
    '0123456789abcdef'.repeat(4),
    `${'0123456789abcdef'.repeat(4)}:latest`,
  ]) {
    it(`refuses '${image.slice(0, 40)}'`, () => {
      assert.throws(() => parseImageReference(image), {
        message: `'${image}' is not a valid image reference`,
      });
    });
  }
});
