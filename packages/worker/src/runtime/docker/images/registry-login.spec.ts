import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { FakeDockerEngine } from '../../../testing/fake-docker-engine.js';
import { MemoryLog, runtimeOn } from '../../../testing/container-spec.js';
import type { DockerRuntime } from '../docker.runtime.js';
import { LoginFile } from './registry-login.js';
import { PULL_TIMING } from './image-pull.js';

const NEVER = new AbortController().signal;
const HUB = 'https://index.docker.io/v1/';

function basic(username: string, password: string): object {
  return { auth: Buffer.from(`${username}:${password}`).toString('base64') };
}

describe('logins at registries that the worker has', () => {
  let folder: string;
  let path: string;
  const engine = FakeDockerEngine.forEachTest();
  let log: MemoryLog;
  let worker: DockerRuntime;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'longshore-logins-'));
    path = join(folder, 'config.json');
    log = new MemoryLog();
    worker = runtimeOn(engine, {
      log,
      pullTiming: { ...PULL_TIMING, retryMs: [] },
      logins: new LoginFile(path, { PATH: [folder, process.env['PATH']].join(delimiter) }),
    });
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  function write(config: unknown): void {
    writeFileSync(path, typeof config === 'string' ? config : JSON.stringify(config));
  }

  function writeHelper(name: string, script: string): void {
    const file = join(folder, `docker-credential-${name}`);
    writeFileSync(file, `#!/bin/sh\n${script}\n`);
    chmodSync(file, 0o755);
  }

  it('go to the registry that the file names, and to no other', async () => {
    write({
      auths: {
        [HUB]: basic('hub', 'p:q'),
        'https://Registry.test:5000/v2/': basic('bot', ''),
        'token.test': { ...basic('', ''), identitytoken: 'token-1' },
        'plain.test': { username: 'bare', password: 'pass' },
      },
    });
    await worker.pull('tool', NEVER);
    await worker.pull('registry.test:5000/team/tool', NEVER);
    await worker.pull('token.test/tool', NEVER);
    await worker.pull('plain.test/tool', NEVER);
    await worker.pull('registry.test/team/tool', NEVER);
    assert.deepEqual(engine.logins, [
      { username: 'hub', password: 'p:q', serveraddress: HUB },
      { username: 'bot', password: '', serveraddress: 'registry.test:5000' },
      { identitytoken: 'token-1', serveraddress: 'token.test' },
      { username: 'bare', password: 'pass', serveraddress: 'plain.test' },
    ]);
  });

  it('are read again for each pull', async () => {
    write({ auths: { 'registry.test': basic('bot', 'first') } });
    await worker.pull('registry.test/tool', NEVER);
    write({ auths: { 'registry.test': basic('bot', 'second') } });
    await worker.pull('registry.test/tool', NEVER);
    assert.deepEqual(
      engine.logins.map((login) => Object(login).password),
      ['first', 'second'],
    );
  });

  it('do not replace the login of a run, and leave the image free for every run', async () => {
    write({ auths: { 'registry.test': basic('bot', 'of the worker') } });
    const login = { server: 'registry.test', username: 'run', password: 'of the run' };
    await worker.pull('registry.test/private', NEVER, login);
    await worker.pull('registry.test/shared', NEVER);
    assert.deepEqual(
      engine.logins.map((sent) => Object(sent).password),
      ['of the run', 'of the worker'],
    );
    write({});
    engine.answerNext('POST /images/create', (response) => response.writeHead(500).end());
    await worker.pull('registry.test/shared', NEVER);
  });

  it('come from the credential helper of the registry, else from the store, else from the file', async () => {
    writeHelper('own', `read server; printf '{"Username":"own","Secret":"of %s"}' "$server"`);
    writeHelper(
      'store',
      `read server; if [ "$server" = ${HUB} ]; then printf '{"Username":"<token>","Secret":"t"}'; else echo 'credentials not found in native keychain'; exit 1; fi`,
    );
    write({
      auths: { 'own.test': {}, 'file.test': basic('file', 'pass') },
      credHelpers: { 'own.test': 'own' },
      credsStore: 'store',
    });
    for (const image of ['own.test/tool', 'tool', 'file.test/tool', 'unknown.test/tool'])
      await worker.pull(image, NEVER);
    assert.deepEqual(engine.logins, [
      { username: 'own', password: 'of own.test', serveraddress: 'own.test' },
      { identitytoken: 't', serveraddress: HUB },
      { username: 'file', password: 'pass', serveraddress: 'file.test' },
    ]);
  });

  it('that cannot be read fail the pull as a matter of the worker, and no words of them are logged', async () => {
    writeHelper('broken', `echo '{"Secret":"hidden' ; echo hidden >&2; exit 3`);
    const broken: [unknown, string][] = [
      ['{"auths":{"registry.test":{"auth":"hidden"', 'it is not JSON'],
      [{ auths: { 'registry.test': { auth: 'hidden' } } }, 'is not USER:PASSWORD in base64'],
      [{ credsStore: 'broken' }, 'docker-credential-broken gave no login for registry.test (3)'],
      [{ credsStore: '../hidden' }, 'names a credential helper that is not one'],
      [{ credsStore: 'absent' }, 'docker-credential-absent gave no login for registry.test (ENOENT)'],
    ];
    for (const [config, reason] of broken) {
      write(config);
      await assert.rejects(worker.pull('registry.test/tool', NEVER), {
        name: 'Error',
        message: /: the worker's login at its registry cannot be read$/,
      });
      const words = JSON.stringify(log.warnings);
      assert.ok(words.includes(reason), words);
      assert.ok(!words.includes('hidden'), words);
    }
    assert.deepEqual(engine.logins, []);
  });

  it('are checked before the worker starts', async () => {
    await assert.rejects(
      new LoginFile(path, {}).check(),
      /registry logins .*config\.json cannot be read: ENOENT/,
    );
  });
});
