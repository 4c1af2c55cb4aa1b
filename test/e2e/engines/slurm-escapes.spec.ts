import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { exchangeCommand } from '@longshore/worker/testing/exchange';
import { makeImageFolder } from '../../support/images/image-folders.js';
import { skipFor } from '../../support/skip.js';
import { skipWithoutSlurm } from '../../support/workers/slurm-cluster.js';
import { SlurmEngines } from '../../support/workers/slurm-engines.js';

/** Every kind of character that a path may have, a colon and control characters apart. */
const CHARACTERS = ` ,;=\\"'$HOME*?[]{}()<>&|!#~%^\`ü\u{1F511}`;
const skip = skipWithoutSlurm();

describe('a program in a job of a real Slurm', skipFor(skip), () => {
  let engines: SlurmEngines;
  let outside: string;
  let script: string;

  beforeAll(async () => {
    engines = await SlurmEngines.start();
    const { folder } = engines.cluster;
    outside = join(folder, 'outside');
    script = join(folder, 'container');
    makeImageFolder(join(folder, 'images'), 'tool', 'eval "$1"');
    mkdirSync(outside);
    writeFileSync(join(outside, 'set'), 'kept\n');
    writeFileSync(script, `#!/bin/bash\neval "$(tr -d '\\0' <"$LONGSHORE_JOB/args")"\n`, { mode: 0o755 });
  });
  afterEach(async () => {
    await engines.clear();
    assert.equal(readFileSync(join(outside, 'set'), 'utf8'), 'kept\n');
  });
  afterAll(() => engines?.stop());

  for (const tool of ['charliecloud', 'runc', 'script'])
    test(`leaves no process, also in a session of its own, and sees none of its node, with ${tool}`, async () => {
      const engine = await engines.open(tool === 'script' ? script : tool);
      const mark = `left-by-${tool}`;
      const left = `busybox setsid /bin/sh -c 'echo begun; while :; do sleep 0.1; done; : ${mark}' & `;
      const program = `${left} sleep 0.5; [ -d /proc/${process.pid} ] && echo seen; true`;
      assert.deepEqual(await engines.printed(engine, { args: [program] }), ['begun']);
      const alive = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && commandOf(pid).includes(mark));
      assert.deepEqual(alive, []);
    });

  test('loses nothing of its log, and adds nothing, by changing the size of its output', async () => {
    const engine = await engines.open('charliecloud');
    const program =
      'echo one; for s in 0 20G; do busybox truncate -s $s /proc/self/fd/1 2>/dev/null && echo changed; done; echo two';
    assert.deepEqual(await engines.printed(engine, { args: [program] }), ['one', 'two']);
  });

  test('removes nothing outside of its folder while that is removed', async () => {
    const engine = await engines.open(script);
    const names = Array.from({ length: 500 }, (_, index) => `file-${index}`);
    for (const name of names) writeFileSync(join(outside, name), '');
    const exchange = exchangeCommand('io/raced', 'io/link')
      .map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`)
      .join(' ');
    const program = `cd "$LONGSHORE_JOB"; mkdir io/raced; (cd io/raced; touch ${names.join(' ')}); ln -s '${outside}' io/link
      setsid ${exchange} >/dev/null & sleep 0.3`;
    for (let round = 0; round < 3; round += 1) await engines.end(engine, { args: [program] });
    assert.equal(readdirSync(outside).length, names.length + 1);
  });

  for (const tool of ['charliecloud', 'runc'] as const) {
    test(`finds a mount and a file whose paths have any characters, with ${tool}`, async () => {
      const engine = await engines.open(tool, { volumes: `out=${outside}:ro` });
      const path = `/data/${CHARACTERS}`;
      const lines = await engines.printed(engine, {
        mounts: [{ volume: 'out', path, read_only: true }],
        files: [{ path: `${path}.file`, content: 'content\n', mode: 0o444, isSecret: false }],
        env: { AT: path },
        args: ['cat "$AT/set" "$AT.file"'],
      });
      assert.deepEqual(lines, ['kept', 'content']);
      const env = { 'a.b-c': CHARACTERS };
      const shown = await engines.printed(engine, { env, command: ['/bin/env'] });
      assert.ok(shown.includes(`a.b-c=${CHARACTERS}`), shown.join('\n'));
    });

    test(`is not started in an image with a link where the container has something, with ${tool}`, async () => {
      const engine = await engines.open(tool);
      const images = join(engines.cluster.folder, 'images');
      for (const target of ['dev', 'mnt', 'proc', 'work']) {
        const name = `${tool}-${target}`;
        makeImageFolder(images, name, 'true');
        rmSync(join(images, name, target), { recursive: true, force: true });
        symlinkSync(outside, join(images, name, target));
        const config = { Entrypoint: ['/bin/true'], WorkingDir: '/work' };
        writeFileSync(join(images, `${name}.json`), JSON.stringify({ config }));
        const { status } = await engines.end(engine, { image: `${name}:1`, args: [] });
        const message = `The image has a link or something else in the place of the folder '/${target}'`;
        assert.deepEqual(status, { kind: 'failed', cause: 'error', message });
      }
      assert.deepEqual(
        readdirSync(outside).filter((name) => !/^(?:set|file-\d+)$/.test(name)),
        [],
      );
    });

    test(`is not started in a working directory that is not the image's, with ${tool}`, async () => {
      const images = join(engines.cluster.folder, 'images');
      const name = `placed-${tool}`;
      makeImageFolder(images, name, 'true');
      const config = { Entrypoint: ['/bin/true'], WorkingDir: '/proc/self/fd/7' };
      writeFileSync(join(images, `${name}.json`), JSON.stringify({ config }));
      const engine = await engines.open(tool);
      await assert.rejects(engines.end(engine, { image: `${name}:1` }), {
        name: 'RunFault',
        message: `Image '${name}:1' cannot be run: its working directory '/proc/self/fd/7' is not its own`,
      });
      assert.equal(existsSync(join(images, name, 'proc', 'self')), false);
    });
  }
});

/** Empty for a process that has ended. */
function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}
