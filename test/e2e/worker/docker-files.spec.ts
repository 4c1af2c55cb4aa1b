import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, createReadStream, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { once } from 'node:events';
import { afterEach, describe, it } from 'vitest';
import type { ContainerFile, ContainerSpec } from '@longshore/worker/runtime/runtime';
import { containerSpec, readToEnd, textsOf } from '@longshore/worker/testing/container-spec';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { HIGHEST_USER } from '../../support/images/engine-variants.js';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { skipFor } from '../../support/skip.js';

const forTests = await startTestEngine();

/** An image with links where files of runs may be put. */
const LINKS = [
  'RUN mkdir -p /real/etc /etc && ln -s /real /link && ln -s /real/etc/target /etc/link && echo kept >/real/etc/target',
  'RUN ln -s ../../../../../../real /deep && ln -s /nowhere /dangling && mkdir /volume && echo image >/etc/there',
  'VOLUME /volume',
];

describe('files of runs on a real engine', skipFor(forTests.skip), () => {
  afterEach(async () => {
    assert.deepEqual(await forTests.engine.containerIds(), [], 'no container may be left');
  });

  it('are there byte for byte, with their modes and of root, also without a parent folder', async () => {
    const content = '#!/bin/sh\nexit 0\n\r\n\tü\u{1F511}\u0001';
    const long = `/etc/${'a'.repeat(200)}/${'ü'.repeat(120)}/run`;
    const files = [
      file('/etc/job/run.sh', { content, mode: 0o555 }),
      file('/empty', { content: '', mode: 0o400 }),
      file(long, { content: 'x'.repeat(65_536), mode: 0o664 }),
      file('/etc/k.p12', { content: Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)) }),
    ];
    const paths = files.map(({ path }) => `"${path}"`).join(' ');
    const [first, second, third, _fourth, ...rest] = await printed(
      `stat -c '%a %u %g' ${paths}; stat -c '%a %u' /etc/job; sha256sum ${paths} | cut -c -64; /etc/job/run.sh && echo executed`,
      files,
    );
    assert.deepEqual([first, second, third], ['555 0 0', '400 0 0', '664 0 0']);
    assert.deepEqual(rest, ['755 0', ...files.map((one) => sha256(one.content)), 'executed']);
  });

  for (const [user, owner] of [
    ['1000:2000', '1000 2000'],
    ['1000', '1000 0'],
    [`${HIGHEST_USER}:${HIGHEST_USER - 1}`, `${HIGHEST_USER} ${HIGHEST_USER - 1}`],
  ] as const) {
    it(`belong to the user ${user} of the run, who may read what is for the owner alone`, async () => {
      const files = [file('/run/keys/key', { mode: 0o400 })];
      const script = 'stat -c "%u %g" /run/keys/key; cat /run/keys/key';
      assert.deepEqual(await printed(script, files, { user }), [owner, 'content']);
    });
  }

  it('replace files of the image, and may be in its volumes', async () => {
    const script = 'cat /etc/there /volume/d; ls /volume';
    assert.deepEqual(await printed(script, [file('/etc/there'), file('/volume/d')]), ['contentcontentd']);
  });

  for (const [path, why] of [
    ['/etc/there/a', "the image has something else at '/etc/there'"],
    ['/etc', "the image has something else at '/etc'"],
    ['/link/a', "'/link' is a link in the image"],
    ['/deep/b', "'/deep' is a link in the image"],
    ['/dangling/a', "'/dangling' is a link in the image"],
    ['/etc/link', "'/etc/link' is a link in the image"],
  ] as const) {
    it(`fail the run when the image has a link or something else at the path ${path}`, async () => {
      const message = `The file '${path}' cannot be used: ${why}`;
      await assert.rejects(printed('true', [file(path)]), { name: 'RunFault', message });
    });
  }

  it('are there in an image that has no shell, no passwd and no folder', async () => {
    const { engine } = forTests;
    const root = join(engine.folder, 'bare');
    mkdirSync(root);
    copyFileSync('/bin/busybox', join(root, 'cat'));
    execFileSync('tar', ['-C', root, '-cf', `${root}.tar`, '.']);
    const imported = await engine.docker.importImage(createReadStream(`${root}.tar`), {
      repo: 'bare',
      tag: '1',
    });
    imported.resume();
    await once(imported, 'end');
    const spec = { ...containerSpec('bare:1'), command: ['/cat', '/etc/job/a', '/a'], user: '7' };
    const files = [file('/etc/job/a', { content: 'one\n' }), file('/a', { content: 'two\n' })];
    assert.deepEqual(await lines({ ...spec, files }), ['one', 'two']);
  });
});

/** What the script prints in a container with the files. */
async function printed(
  script: string,
  files: readonly ContainerFile[],
  more: Partial<ContainerSpec> = {},
): Promise<string[]> {
  const image = await forTests.engine.buildScript('files', 'exec sh -c "$1"', LINKS);
  return lines({ ...containerSpec(image), args: [script], files, ...more });
}

async function lines(spec: ContainerSpec): Promise<string[]> {
  const container = await runtimeFor(forTests.engine, { network: 'none' }).start(spec);
  try {
    const { lines: all, exit } = await readToEnd(container);
    assert.equal(exit.exitCode, 0, JSON.stringify(all));
    return textsOf(all, 'stdout');
  } finally {
    await container.remove();
  }
}

function file(path: string, more: Partial<ContainerFile> = {}): ContainerFile {
  return { path, content: 'content', mode: 0o444, isSecret: false, ...more };
}

function sha256(text: string | Buffer): string {
  return createHash('sha256').update(text).digest('hex');
}
