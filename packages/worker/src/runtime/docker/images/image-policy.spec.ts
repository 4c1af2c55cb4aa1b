import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, it } from 'vitest';
import { ImagePolicy, type ImagePolicyOptions } from './image-policy.js';
import { parseImageReference } from './image-reference.js';

const ADDRESSES: Readonly<Record<string, readonly string[]>> = {
  'inside.example': ['10.1.2.3'],
  'public.example': ['203.0.113.7', '2001:db8::7'],
  'loop.example': ['203.0.113.7', '127.0.0.1'],
  'loop6.example': ['::1'],
  'mapped.example': ['::ffff:7f00:1'],
  'metadata.example': ['169.254.169.254'],
};

async function addressesOf(host: string): Promise<readonly string[]> {
  const addresses = ADDRESSES[host];
  if (addresses === undefined) throw new Error(`getaddrinfo ENOTFOUND ${host}`);
  return addresses;
}

async function check(image: string, options: Partial<ImagePolicyOptions> = {}): Promise<void> {
  const policy = new ImagePolicy({ allowedImages: null, localRegistries: false, addressesOf, ...options });
  await policy.check(parseImageReference(image));
}

describe('image policy', () => {
  for (const registry of [
    'localhost:5000',
    'LOCALHOST:5000',
    'a.localhost:80',
    '127.0.0.1:5000',
    '127.1:5000',
    '127.255.255.254',
    '2130706433:80',
    '0x7f000001:80',
    '0x7f.1',
    '0177.0.0.1',
    '0.0.0.0:80',
    '0:80',
    '[::1]:5000',
    '[::]:80',
    '[::ffff:7f00:1]:80',
    '[fe80::1]:80',
    '[fd00:ec2::254]:80',
    '[64:ff9b::7f00:1]:80',
    '169.254.169.254',
    '2852039166:80',
    '100.100.100.200',
    '256.256.256.256:80',
    'loop.example',
    'loop6.example',
    'mapped.example:443',
    'metadata.example',
  ]) {
    it(`refuses the registry ${registry} unless a setting allows it`, async () => {
      await assert.rejects(check(`${registry}/team/tool:1`), {
        name: 'RunFault',
        message: /is refused: .*SERVICE_WORKER_LOCAL_REGISTRIES/,
      });
      await check(`${registry}/team/tool:1`, { localRegistries: true });
    });
  }

  for (const image of [
    'busybox',
    'localhost-tools/tool',
    'public.example/acme/tool',
    '10.1.2.3:5000/tool',
    '[2001:db8::1]:5000/tool',
    'inside.example/tool',
  ]) {
    it(`takes ${image}`, () => check(image));
  }

  for (const [what, lookUp] of [
    ['has no address', addressesOf],
    ['has an empty list of addresses', async () => []],
    ['is not looked up in time', () => sleep(60_000, ['203.0.113.7'], { ref: false })],
  ] as const) {
    it(`fails as a machine, not as the run, when a registry ${what}`, async () => {
      await assert.rejects(check('unknown.example:5000/tool', { addressesOf: lookUp }), {
        name: 'Error',
        message:
          "Image not pulled: the worker did not learn the addresses of its registry 'unknown.example:5000'",
      });
      await check('unknown.example:5000/tool', { addressesOf: lookUp, localRegistries: true });
    });
  }

  it('looks up nothing for images of docker.io: the engine may have a mirror', async () => {
    for (const image of ['busybox', 'acme/tool', 'docker.io/acme/tool'])
      await check(image, { addressesOf: () => Promise.reject(new Error('looked up')) });
  });

  it('takes only images that a pattern allows, whatever their tag', async () => {
    const allowedImages = [
      'ghcr.io/acme/*',
      'docker.io/library/busybox',
      '*/shared/tool',
      'r.example:5000/a.b',
    ];
    for (const image of [
      'ghcr.io/acme/tool:2',
      'ghcr.io/acme/team/tool',
      'busybox:stable',
      'docker.io/library/busybox',
      'docker.io/busybox',
      'index.docker.io/busybox',
      'quay.io/shared/tool',
      'shared/tool',
      'r.example:5000/a.b',
    ]) {
      await check(image, { allowedImages, addressesOf: async () => ['203.0.113.7'] });
    }
    for (const image of [
      'alpine',
      'acme/tool',
      'ghcr.io/other/tool',
      'evil.example/ghcr.io/acme/tool',
      'ghcr.io.evil.example/acme/tool',
      'docker.io/library/busybox2',
      'r.example:5000/axb',
      'docker.io/shared',
    ]) {
      await assert.rejects(
        check(image, { allowedImages }),
        /^RunFault: Image '.*' is refused: SERVICE_WORKER_IMAGES/,
      );
    }
  });

  it('refuses a local registry although a pattern allows it', async () => {
    await assert.rejects(
      check('127.0.0.1:1/tool', { allowedImages: ['*'] }),
      /SERVICE_WORKER_LOCAL_REGISTRIES/,
    );
  });
});
