import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, it } from 'vitest';
import type { DockerRuntimeOptions } from '@longshore/worker/runtime/docker/docker.runtime';
import type { ContainerSpec } from '@longshore/worker/runtime/runtime';
import { parseVolumes } from '@longshore/worker/settings/volumes';
import { containerSpec, readToEnd, textsOf } from '@longshore/worker/testing/container-spec';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { skipFor } from '../../support/skip.js';

const forTests = await startTestEngine();

/** An image with a user who has a home, one whose home is the root, and one whose home is missing. */
const USERS = [
  'RUN mkdir -p /home/ann /there && chown 1000 /home/ann && printf "root:x:0:0::/root:/bin/sh\\nann:x:1000:1000::/home/ann:/bin/sh\\nroot2:x:1001:1::/:/bin/sh\\nnobody:x:1002:1::/nonexistent:/bin/sh\\n" >/etc/passwd',
];

const ACCOUNT = 'echo "$HOME ${USER-none} ${LOGNAME-none}"; touch ~/x && echo written';

describe('the folders of a run with a user on a real engine', skipFor(forTests.skip), () => {
  afterEach(async () => {
    assert.deepEqual(await forTests.engine.containerIds(), [], 'no container may be left');
  });

  for (const [user, owner] of [
    ['1000:1000', '1000 1000 755'],
    ['2147483647', '2147483647 0 755'],
    [null, '0 0 1777'],
  ] as const)
    it(`a working directory that the image does not have can be written by the user ${String(user)}`, async () => {
      const script = 'touch x && pwd && stat -c "%u %g %a" .';
      for (const workdir of ['/work', '/deep/er/work'])
        assert.deepEqual(await printed(script, { user, workdir }), [workdir, owner]);
    });

  it('a working directory of the image stays as it is, also after a run for which another one was made', async () => {
    const runtime = runtimeFor(forTests.engine, { network: 'none' });
    for (const workdir of ['/work', '/there', '/work', '/there'])
      assert.deepEqual(await printed('stat -c "%u %a" .', { user: '7', workdir }, {}, runtime), [
        workdir === '/work' ? '7 755' : '0 755',
      ]);
  });

  it('a working directory is made within an empty folder of the run', async () => {
    const mounts = [{ path: '/s', scratch_mb: 1 }];
    const more = { user: '7', workdir: '/s/a/b', mounts };
    assert.deepEqual(await printed('touch x && stat -c %u .', more), ['7']);
  });

  it('a working directory is made within a volume, for the user, and not changed when it is there', async () => {
    const folder = mkdtempSync(join(forTests.engine.folder, 'volume-'));
    const options = { volumes: parseVolumes(`out=${folder}`) ?? new Map() };
    try {
      for (const [user, uid] of [
        ['7', 7],
        ['8', 7],
      ] as const) {
        const mounts = [{ volume: 'out', path: '/out' }];
        await printed('true', { user, workdir: '/out/new', mounts }, options);
        assert.equal(statSync(join(folder, 'new')).uid, uid);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('HOME can be written, and USER and LOGNAME are there, for a number that the image does not know', async () => {
    const expected = ['/longshore/home user1042 user1042', 'written'];
    assert.deepEqual(await printed(ACCOUNT, { user: '1042:1042' }), expected);
    assert.deepEqual(await printed(ACCOUNT, {}, { user: '1042' }), expected, 'SERVICE_WORKER_USER');
  });

  it('HOME can be written beside a volume', async () => {
    const options = { volumes: parseVolumes(`out=${forTests.engine.folder}`) ?? new Map() };
    const more = { user: '1042:1042', mounts: [{ volume: 'out', path: '/out' }] };
    assert.deepEqual(await printed(ACCOUNT, more, options), ['/longshore/home user1042 user1042', 'written']);
  });

  for (const [user, account] of [
    ['1000', '/home/ann none none'],
    ['1001', '/longshore/home none none'],
    ['1002', '/longshore/home none none'],
  ] as const)
    it(`HOME of the user ${user} is that of the image only if the image has this folder`, async () => {
      assert.deepEqual(await printed(ACCOUNT, { user }), [account, 'written']);
    });

  it('HOME, USER and LOGNAME of the run and of the image are kept', async () => {
    const env = { HOME: '/tmp', LOGNAME: 'bob' };
    assert.deepEqual(await printed(ACCOUNT, { user: '1042', env }), ['/tmp user1042 bob', 'written']);
    const image = await forTests.engine.buildScript('named', 'exec sh -c "$1"', ['ENV HOME=/tmp USER=eve']);
    assert.deepEqual(await printed(ACCOUNT, { user: '1042', image }), ['/tmp eve user1042', 'written']);
  });

  it('names of variables may have dots and dashes, and begin with SERVICE_', async () => {
    const env = { 'discovery.type': 'x', 'a-b': 'y', SERVICE_NAME: 'z' };
    // Some shells do not pass such names on, so that none is between.
    const lines = await printed('', { env, command: ['env'], args: [] });
    const own = lines.filter((line) => /^(discovery\.type|a-b|SERVICE_NAME)=/.test(line)).toSorted();
    assert.deepEqual(own, ['SERVICE_NAME=z', 'a-b=y', 'discovery.type=x']);
  });

  it('root has the capabilities of the operator, and no others', async () => {
    const script = 'touch /tmp/x; chown 7 /tmp/x && stat -c %u /tmp/x; grep CapEff /proc/self/status';
    assert.deepEqual(await printed(script, {}), ['CapEff:\t0000000000000000']);
    assert.deepEqual(await printed(script, {}, { capabilities: ['CHOWN'] }), [
      '7',
      'CapEff:\t0000000000000001',
    ]);
  });

  it('a file of the run that cannot be executed is named when it is the command', async () => {
    const files = [{ path: '/run.sh', content: '#!/bin/sh\n', mode: 0o444, isSecret: false }];
    const runtime = runtimeFor(forTests.engine, { network: 'none' });
    const image = await forTests.engine.buildScript('users', 'exec sh -c "$1"', USERS);
    await assert.rejects(async () => {
      const container = await runtime.start({ ...containerSpec(image), command: ['/run.sh'], files });
      const { exit } = await readToEnd(container);
      await container.remove();
      // An engine with a program of its own before the command tells it by the code.
      throw new Error(`exit ${exit.exitCode}: '/run.sh' of the run has the mode 0444`);
    }, /(exit 126|could not be started).*'\/run.sh' of the run has the mode 0444/);
  });

  it('a run without a user has what its image has', async () => {
    assert.deepEqual(await printed('echo "$HOME ${USER-none}"; ls -d /longshore/home 2>&1', {}), [
      '/root none',
      'ls: /longshore/home: No such file or directory',
    ]);
  });
});

/** What the script prints in a container of the image with the users. */
async function printed(
  script: string,
  more: Partial<ContainerSpec>,
  options: Partial<DockerRuntimeOptions> = {},
  runtime = runtimeFor(forTests.engine, { network: 'none', ...options }),
): Promise<string[]> {
  await runtime.checkVolumes();
  const image = await forTests.engine.buildScript('users', 'exec sh -c "$1"', USERS);
  const container = await runtime.start({ ...containerSpec(image), args: [`${script}; true`], ...more });
  try {
    const { lines, exit } = await readToEnd(container);
    assert.equal(exit.exitCode, 0, JSON.stringify(lines));
    return textsOf(lines, 'stdout');
  } finally {
    await container.remove();
  }
}
