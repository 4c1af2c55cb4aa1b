import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, it } from 'vitest';
import { describeEngineAddress, readEngineAddress } from './engine-address.js';

describe('DOCKER_HOST', () => {
  const folder = mkdtempSync(join(tmpdir(), 'longshore-certs-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  for (const [value, description] of [
    ['unix:///run/user/1000/podman/podman.sock', 'unix:///run/user/1000/podman/podman.sock'],
    ['tcp://10.0.0.7:2376', 'tcp://10.0.0.7:2376'],
    ['tcp://engine.example', 'tcp://engine.example:2375'],
    ['engine.example:1234', 'tcp://engine.example:1234'],
    ['tcp://:4243', null],
    ['ssh://user@engine.example', null],
    ['tcp://engine.example/prefix', null],
    ['tcp://engine.example:notaport', null],
    ['nonsense://x', null],
  ] as const) {
    it(`${value} is ${description ?? 'refused'}`, () => {
      if (description === null) {
        assert.throws(() => readEngineAddress({ DOCKER_HOST: value }), /DOCKER_HOST must look like/);
      } else {
        assert.equal(describeEngineAddress(readEngineAddress({ DOCKER_HOST: value })), description);
      }
    });
  }

  it('defaults to a socket of this machine', () => {
    for (const env of [{}, { DOCKER_HOST: '' }, { DOCKER_HOST: 'unix://' }]) {
      assert.match(describeEngineAddress(readEngineAddress(env)), /^unix:\/\/.*\/docker\.sock$/);
    }
  });

  it('reads the TLS identity from DOCKER_CERT_PATH and uses the TLS port', () => {
    const env = { DOCKER_HOST: 'tcp://engine.example', DOCKER_TLS_VERIFY: '1', DOCKER_CERT_PATH: folder };
    assert.throws(() => readEngineAddress(env), /needs a readable ca\.pem/);
    for (const name of ['ca', 'cert', 'key']) writeFileSync(join(folder, `${name}.pem`), name);
    assert.deepEqual(readEngineAddress(env), {
      kind: 'tcp',
      host: 'engine.example',
      port: 2376,
      tls: { ca: 'ca', cert: 'cert', key: 'key' },
    });
  });
});
