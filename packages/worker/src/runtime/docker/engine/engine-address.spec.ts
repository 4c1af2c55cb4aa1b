import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, it } from 'vitest';
import { describeEngineAddress, namedEngine, readEngineAddress } from './engine-address.js';

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

describe('an engine is named', () => {
  const folder = mkdtempSync(join(tmpdir(), 'longshore-docker-config-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  for (const [config, env, expected] of [
    [null, {}, null],
    ['{"currentContext":"colima"}', {}, "the Docker context 'colima'"],
    ['{"currentContext":"colima"}', { DOCKER_HOST: 'unix:///x' }, 'DOCKER_HOST'],
    [
      '{"currentContext":"colima"}',
      { DOCKER_HOST: '', DOCKER_CONTEXT: 'rootless' },
      "the Docker context 'rootless'",
    ],
    ['{"currentContext":"colima"}', { DOCKER_CONTEXT: 'default' }, null],
    ['{"currentContext":"default"}', {}, null],
    ['{"currentContext":7}', {}, null],
    ['{"auths":{}}', {}, null],
    ['{', {}, null],
  ] as const) {
    it(`by ${expected ?? 'nothing'} with ${JSON.stringify(env)} and the file ${config ?? 'absent'}`, () => {
      const path = join(folder, 'config.json');
      rmSync(path, { force: true });
      if (config !== null) writeFileSync(path, config);
      assert.equal(namedEngine({ ...env, DOCKER_CONFIG: folder }), expected);
    });
  }
});
