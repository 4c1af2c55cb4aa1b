import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, describe, it } from 'vitest';
import type { ContainerSpec, FetchedEntry, FetchedSource } from '@longshore/worker/runtime/runtime';
import { containerSpec, readToEnd, textsOf } from '@longshore/worker/testing/container-spec';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { skipFor } from '../../support/skip.js';

const forTests = await startTestEngine();

const file = (path: string, content: string, mode = 0o444): FetchedEntry => ({
  kind: 'file',
  path,
  mode,
  bytes: Buffer.byteLength(content),
  content: Readable.from([Buffer.from(content)]),
});

const source = (
  path: string,
  kind: FetchedSource['kind'],
  entries: () => readonly FetchedEntry[],
): FetchedSource => ({
  path,
  kind,
  entries: () => Readable.from(entries()),
});

/** What a run finds: a file, and an unpacked folder with a program, two names of one file and a link. */
const FETCHED = [
  source('/data/ü/train.csv', 'file', () => [file('', 'a,b\n')]),
  source('/app', 'folder', () => [
    { kind: 'folder', path: 'src' },
    { kind: 'folder', path: 'src/empty' },
    file('src/run', '#!/bin/sh\necho ran\n', 0o555),
    file('src/none', ''),
    { kind: 'same', path: 'again', as: 'src/run', mode: 0o555 },
    { kind: 'link', path: 'src/l', target: '../again' },
  ]),
];

const LEAVE =
  'mkdir -p /out/plots/deep; echo model >/out/model; echo p >/out/plots/deep/a.png; echo q >/out/plots/b.png; ' +
  'ln /out/model /out/plots/second; ln -s /etc/passwd /out/plots/link; ln -s /etc /out/folder';

describe('files in and out of a container of a real engine', skipFor(forTests.skip), () => {
  afterEach(async () => {
    assert.deepEqual(await forTests.engine.containerIds(), [], 'no container may be left');
  });

  for (const [who, user, owner] of [
    ['the user that the run names', '1000:2000', '755 1000 2000'],
    ['every user, where the run names none', null, '1777 0 0'],
  ] as const) {
    it(`finds what was fetched, read-only, and folders for what it gives that belong to ${who}`, async () => {
      const script =
        `echo "[$SERVICE_FILES_ROOT]"; cat /data/ü/train.csv; /app/src/l; stat -c "%a" /data/ü/train.csv /app/src/run /app/src/none; ` +
        `stat -c "%a %u %g" /app /app/src/empty /out/plots; touch /app/src/new && ${LEAVE}`;
      const { lines, left } = await executed(script, { user });
      assert.deepEqual(lines, ['[]', 'a,b', 'ran', '444', '555', '444', owner, owner, owner]);
      assert.deepEqual(left, LEFT);
    });
  }

  it('gives what a run with a volume has left, without the volume', async () => {
    const folder = join(forTests.engine.folder, 'shared');
    mkdirSync(folder, { recursive: true });
    const volumes = new Map([['shared', { kind: 'folder', source: folder, isWritable: true } as const]]);
    const mounts = [
      { path: '/shared', volume: 'shared' },
      { path: '/scratch', scratch_mb: 1 },
    ];
    const { left } = await executed(
      `${LEAVE}; echo v >/shared/v; echo s >/scratch/s`,
      { mounts },
      { volumes },
    );
    assert.deepEqual({ ...left, '/scratch/s': '2 s\n' }, { ...LEFT, '/scratch/s': left['/scratch/s'] });
  });

  it('fails the run when the image has something else at a path of its files', async () => {
    const fetched = [source('/etc/passwd/x', 'file', () => [file('', 'x')])];
    await assert.rejects(executed('true', { artifacts: { fetched, folders: [] } }), {
      name: 'RunFault',
      message: "The file '/etc/passwd/x' cannot be used: the image has something else at '/etc/passwd'",
    });
  });
});

const LEFT = {
  '/out/model': '6 model\n',
  '/out/plots/b.png': '2 q\n',
  '/out/plots/deep/a.png': '2 p\n',
  '/out/plots/second': '6 model\n',
};

/** What a script prints in a container with files, and what it has left below `/out` and in `/scratch/s`. */
async function executed(
  script: string,
  more: Partial<ContainerSpec>,
  options: Parameters<typeof runtimeFor>[1] = {},
): Promise<{ readonly lines: string[]; readonly left: Record<string, string> }> {
  const image = await forTests.engine.buildScript('artifacts', 'exec sh -c "$1"', ['RUN touch /etc/passwd']);
  const folders = ['/out', '/out/plots', ...(more.mounts ? ['/scratch'] : [])];
  const spec = { ...containerSpec(image), args: [script], artifacts: { fetched: FETCHED, folders }, ...more };
  const container = await runtimeFor(forTests.engine, { network: 'none', ...options }).start(spec);
  try {
    const { lines, exit } = await readToEnd(container);
    assert.equal(exit.exitCode, 0, JSON.stringify(lines));
    const left = await container.readFiles(async (files) => {
      const found: Record<string, string> = {};
      const paths = ['/out/none', '/out/folder/passwd', '/scratch/s'];
      for await (const path of files.list('/out')) paths.push(`/out/${path}`);
      for await (const path of files.list('/out/folder')) paths.push(`behind a link: ${path}`);
      for (const path of paths) {
        const opened = await files.open(path);
        if (opened !== null) found[path] = `${opened.bytes} ${await text(opened.content)}`;
      }
      return found;
    });
    return { lines: textsOf(lines, 'stdout'), left };
  } finally {
    await container.remove();
  }
}
