import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text as readAll } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import type { JobSpec } from '@longshore/launchers/launcher/engine';
import type { SlurmEngine } from '@longshore/launchers/slurm/slurm.engine';
import type { ContainerFile, EndedFiles, FetchedSource } from '@longshore/worker/runtime/runtime';
import { makeImageFolder } from '../../support/images/image-folders.js';
import { until } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';
import { skipWithoutSlurm } from '../../support/workers/slurm-cluster.js';
import { linesOf, SlurmEngines, untilKind } from '../../support/workers/slurm-engines.js';

const VALUE = 'value-of-a-secret';
const skip = skipWithoutSlurm();

function file(path: string, fields: Partial<ContainerFile> = {}): ContainerFile {
  return { path, content: 'content', mode: 0o444, isSecret: false, ...fields };
}

/** What was fetched for a run: a file, or a folder with one. */
function source(path: string, kind: FetchedSource['kind'], content: string): FetchedSource {
  const name = kind === 'file' ? '' : 'file';
  return {
    path,
    kind,
    entries: async function* () {
      yield {
        kind: 'file',
        path: name,
        mode: 0o444,
        bytes: content.length,
        content: Readable.from([content]),
      };
    },
  };
}

async function textAt(files: EndedFiles, path: string): Promise<string | null> {
  const found = await files.open(path);
  return found && readAll(found.content);
}

function fieldsOf(
  script: string,
  files: readonly ContainerFile[],
  more: Partial<JobSpec> = {},
): Partial<JobSpec> {
  return { files, args: [script], ...more };
}

describe('files of runs on a real Slurm', skipFor(skip), () => {
  let engines: SlurmEngines;
  let images: string;
  let outside: string;

  beforeAll(async () => {
    engines = await SlurmEngines.start();
    images = join(engines.cluster.folder, 'images');
    outside = join(engines.cluster.folder, 'outside');
    makeImageFolder(images, 'tool', 'eval "$1"');
    mkdirSync(outside, { mode: 0o777 });
    writeFileSync(join(outside, 'set'), 'kept\n');
    const at = (name: string): string => join(images, 'tool', 'etc', name);
    for (const [name, target] of Object.entries(linksTo(outside))) symlinkSync(target, at(name));
    writeFileSync(at('there'), 'image\n');
    mkdirSync(at('folder'));
  });
  afterEach(async () => {
    await engines.clear();
    assert.deepEqual(
      readdirSync(join(images, 'tool', 'etc')).toSorted(),
      [...Object.keys(linksTo(outside)), 'folder', 'group', 'passwd', 'there'].toSorted(),
      'nothing is added to the image',
    );
    assert.deepEqual(readdirSync(outside), ['set']);
    assert.equal(readFileSync(join(outside, 'set'), 'utf8'), 'kept\n');
  });
  afterAll(() => engines?.stop());

  const end = (engine: SlurmEngine, ...given: Parameters<typeof fieldsOf>) =>
    engines.end(engine, fieldsOf(...given));
  const printed = (engine: SlurmEngine, ...given: Parameters<typeof fieldsOf>) =>
    engines.printed(engine, fieldsOf(...given));

  for (const tool of ['charliecloud', 'runc'] as const) {
    describe(tool, () => {
      test('are there byte for byte, with their modes and of root, also without a parent folder', async () => {
        const content = '#!/bin/sh\nexit 0\n\r\n\tü\u{1F511}\u0001';
        const files = [
          file('/etc/job/run.sh', { content, mode: 0o555 }),
          file('/empty', { content: '', mode: 0o400 }),
          file(`/etc/${'a'.repeat(200)}/${'ü'.repeat(120)}/it's $HOME`, {
            content: 'x'.repeat(65_536),
            mode: 0o664,
          }),
        ];
        const paths = files.map(({ path }) => `"${path.replace('$', String.raw`\$`)}"`).join(' ');
        const script =
          `busybox stat -c '%a %u %g' ${paths} /etc/job; busybox sha256sum ${paths} | busybox cut -c -64; ` +
          '/etc/job/run.sh && echo executed';
        assert.deepEqual(await printed(await engines.open(tool), script, files), [
          '555 0 0',
          '400 0 0',
          '664 0 0',
          '755 0 0',
          ...files.map((one) => createHash('sha256').update(one.content).digest('hex')),
          'executed',
        ]);
      });

      test('replace files and links of the image for their run alone, and cannot be changed by it', async () => {
        const engine = await engines.open(tool);
        const paths = ['/etc/there', '/etc/absolute', '/etc/up', '/etc/dangling', '/etc/hosts'];
        const files = paths.map((path) => file(path, { content: `${path}\n`, mode: 0o666 }));
        const script = `for f in ${paths.join(' ')}; do cat $f; echo x 2>/dev/null >$f && echo changed; busybox rm $f 2>/dev/null && echo removed; done; true`;
        assert.deepEqual(await printed(engine, script, files), paths);
        assert.deepEqual(await printed(engine, 'cat /etc/there', []), ['image']);
        assert.equal(readlinkSync(join(images, 'tool', 'etc', 'absolute')), join(outside, 'set'));
      });

      test('fail the run for a link or another thing in the folders of their path, and for a folder in their place', async () => {
        const engine = await engines.open(tool);
        for (const path of ['/etc/out/a', '/etc/out/set', '/etc/leads/a', '/etc/there/a', '/etc/folder'])
          assert.deepEqual(await end(engine, 'true', [file('/etc/new/first'), file(path)]), {
            status: {
              kind: 'failed',
              cause: 'error',
              message: `A part of the path of a file or mount is too long, or a link or something else in the image: '${path}'`,
            },
            lines: [],
          });
      });

      test('are beside volumes, in which they leave nothing', async () => {
        const volume = join(engines.cluster.folder, `volume-${tool}`);
        mkdirSync(volume);
        const engine = await engines.open(tool, { volumes: `out=${volume}` });
        const mounts = [{ volume: 'out', path: '/etc/out put' }];
        const script = 'cat /etc/job/a >"/etc/out put/copy"; cat "/etc/out put/copy"';
        assert.deepEqual(await printed(engine, script, [file('/etc/job/a')], { mounts }), ['content']);
        assert.deepEqual(readdirSync(volume), ['copy']);
      });

      test('are nowhere but in the container once it runs, and the values of secrets in the file for the masking', async () => {
        const engine = await engines.open(tool);
        const files = [
          file('/run/key', { content: VALUE, mode: 0o400, isSecret: true }),
          file('/etc/text', { content: 'a-plain-text' }),
        ];
        const job = await engine.submit(
          engines.spec({
            files,
            args: ['cat /run/key /etc/text; while :; do sleep 0.1; done'],
          }),
        );
        await untilKind(engine, job, 'running');
        const path = join(engines.shared, 'test', `${job.runId}.1`);
        const hasText = (text: string): boolean => text.includes(VALUE) || text.includes('a-plain-text');
        await until(() => hasText(readFileSync(join(path, 'log'), 'utf8')), 'the program has them');
        for (const entry of readdirSync(path, { recursive: true, withFileTypes: true })) {
          const at = join(entry.parentPath, entry.name);
          if (!entry.isFile() || entry.name === 'log') continue;
          if (entry.name === 'secrets') assert.equal(statSync(at).mode & 0o777, 0o600);
          else assert.ok(!hasText(readFileSync(at, 'utf8')), `${entry.name} holds a content`);
        }
        const { cluster } = engines;
        const script = await cluster.command('scontrol', 'write', 'batch_script', job.engineId, '-');
        const shown = await cluster.command('scontrol', '--details', 'show', 'job', job.engineId);
        assert.ok(!hasText(script) && !hasText(shown) && !shown.includes('/run/key'), shown);
        for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
          for (const name of ['cmdline', 'environ']) assert.ok(!textOf(pid, name).includes(VALUE), pid);
        const next = await engines.open(tool);
        assert.deepEqual(await next.readSecrets(job), { '/run/key': VALUE });
        await engine.remove(job);
        assert.equal(existsSync(path), false);
      });

      test('are beside artifacts, of which the launcher reads what the program has left, and nothing behind its links', async () => {
        const engine = await engines.open(tool);
        mkdirSync(join(images, 'tool', 'app'), { recursive: true });
        writeFileSync(join(images, 'tool', 'app', 'own'), 'image\n');
        const fetched = [source('/data/in', 'file', 'fetched\n'), source('/app', 'folder', 'unpacked\n')];
        const artifacts = { fetched, folders: ['/out', '/tmp/deep', '/etc/job'] };
        const script = `cat /data/in /app/file /app/own /etc/job/a; echo "[$SERVICE_FILES_ROOT]"; echo x 2>/dev/null >/data/in || echo unchanged
          echo left >/out/a; echo left >/tmp/deep/b; echo left >/app/c; busybox ln -s '${outside}' /out/link; busybox ln -s '${join(outside, 'set')}' /out/set`;
        const job = await engine.submit(
          engines.spec(fieldsOf(script, [file('/etc/job/a', { content: 'config\n' })], { artifacts })),
        );
        await untilKind(engine, job, 'exited', 'failed');
        const lines = ['fetched', 'unpacked', 'image', 'config', '[]', 'unchanged'];
        assert.deepEqual(await linesOf(engine, job), lines);
        const left = engine.files.ended(job, new AbortController().signal);
        const contents: (string | null)[] = [];
        for (const path of ['/out/a', '/tmp/deep/b', '/app/c', '/out/set', '/out/link/set', '/etc/job/a'])
          contents.push(await textAt(left, path));
        assert.deepEqual(contents, ['left\n', 'left\n', 'left\n', null, null, null]);
        await engine.remove(job);
        rmSync(join(images, 'tool', 'app'), { recursive: true });
      });

      test('are refused where the tool has other things', async () => {
        const engine = await engines.open(tool);
        const refused = engine.submit(engines.spec({ files: [file('/mnt/input.json')] }));
        await assert.rejects(refused, {
          name: 'RunFault',
          message: /'\/mnt\/input\.json' of a file or mount/,
        });
        const inTmp = end(engine, 'cat /tmp/a/b', [file('/tmp/a/b')]);
        if (tool === 'runc') assert.deepEqual((await inTmp).lines, ['content']);
        else await assert.rejects(inTmp, { name: 'RunFault', message: /another \/tmp/ });
        const passwd = end(engine, 'cat /etc/passwd', [file('/etc/passwd')]);
        if (tool === 'runc') assert.deepEqual((await passwd).lines, ['content']);
        else await assert.rejects(passwd, { name: 'RunFault', message: /makes this file itself/ });
      });
    });
  }

  test('can be read by the user that an image for runc names, unless they are for root alone', async () => {
    const config = { Entrypoint: ['/bin/sh', '-c'], User: '1000:1000' };
    makeImageFolder(images, 'as-user', '');
    writeFileSync(join(images, 'as-user.json'), JSON.stringify({ config }));
    const engine = await engines.open('runc');
    const script = 'busybox id -u; cat /etc/job/a; cat 2>/dev/null /etc/job/b || echo refused';
    const files = [file('/etc/job/a', { content: 'content\n' }), file('/etc/job/b', { mode: 0o400 })];
    assert.deepEqual(await printed(engine, script, files, { image: 'as-user:1' }), [
      '1000',
      'content',
      'refused',
    ]);
  });
});

/** Links in the folder /etc of the image, the last two to folders. */
function linksTo(outside: string): Readonly<Record<string, string>> {
  return {
    absolute: join(outside, 'set'),
    up: '../../../outside/set',
    dangling: '/nowhere/a',
    out: outside,
    leads: '../../../outside',
  };
}

/** Empty for a process that has ended. */
function textOf(pid: string, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}
