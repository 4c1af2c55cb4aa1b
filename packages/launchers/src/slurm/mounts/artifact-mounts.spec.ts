import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, test } from 'vitest';
import type { FetchedEntry, FetchedSource } from '@longshore/worker/runtime/runtime';
import { NO_VOLUMES } from '@longshore/worker/settings/volumes';
import type { JobSpec } from '../../launcher/engine.js';
import { jobSpec } from '../../testing/job-spec.js';
import { canMount, JobOnNode } from '../../testing/job-on-node.js';
import { artifactPoints } from './artifact-points.js';
import { attemptMounts } from './attempt-mounts.js';

function entry(path: string, text: string): FetchedEntry {
  return { kind: 'file', path, mode: 0o444, bytes: text.length, content: Readable.from([text]) };
}

function folder(path: string, ...entries: readonly FetchedEntry[]): FetchedSource {
  return {
    path,
    kind: 'folder',
    entries: async function* () {
      yield* entries;
    },
  };
}

function single(path: string, text: string): FetchedSource {
  return { ...folder(path, entry('', text)), kind: 'file' };
}

describe.skipIf(!canMount())('the artifacts of a run in its job, with bash and the kernel', () => {
  let node: JobOnNode;
  let image: string;

  beforeEach(async () => {
    node = await JobOnNode.make();
    image = join(node.base, 'image');
  });
  afterEach(() => node.close());

  /** Mounts and options of an attempt. A tool with image folders executes the program in place of a container. */
  function given(
    program: string,
    fetched: readonly FetchedSource[],
    folders: readonly string[],
    more: Partial<JobSpec> = {},
  ) {
    const spec = jobSpec({ artifacts: { fetched, folders }, ...more });
    const artifacts = artifactPoints(spec, 'runc');
    const mounts = attemptMounts(spec, 'runc', NO_VOLUMES, artifacts);
    const job = join(node.folders.root, 'r.1');
    node.stub('runc', `cd '${job}/mounts' && { ${program}\n} >'${node.base}/got' 2>/dev/null`);
    const forTool = { 'image-dir': image, 'oci-config': '{}' };
    return [mounts, '', { tool: 'runc', forTool, files: spec.files, artifacts }] as const;
  }

  test('are its own folder, where what it leaves is kept, and a file that cannot be changed', async () => {
    const program = `cat 0/a 2; echo x >0/new; echo x >1/left
      echo x >2 || echo unchanged; chmod 600 2 || echo unchanged; stat -c %a 0 1 2; cat '${join(node.folders.root, 'r.1')}/artifacts/out/left'`;
    const fetched = [folder('/app', entry('a', 'in-folder\n')), single('/data/in', 'single\n')];
    assert.deepEqual(await node.printed(...given(program, fetched, ['/out'])), [
      'in-folder',
      'single',
      'unchanged',
      'unchanged',
      '777',
      '777',
      '444',
      'x',
    ]);
  });

  test('are beside what the image has there, of which links and modes stay, and in whose place they stand', async () => {
    mkdirSync(join(image, 'app', 'lib'), { recursive: true });
    writeFileSync(join(image, 'app', 'lib', '.own'), 'image\n', { mode: 0o640 });
    writeFileSync(join(image, 'app', 'same'), 'image\n');
    symlinkSync('/etc', join(image, 'app', 'link'));
    const program = `cat 0/lib/.own 0/same; readlink 0/link; stat -c %a 0 0/lib/.own; echo x >0/lib/.own`;
    assert.deepEqual(
      await node.printed(...given(program, [folder('/app', entry('same', 'fetched\n'))], ['/app/out'])),
      ['image', 'fetched', '/etc', '777', '640'],
    );
    assert.equal(readFileSync(join(image, 'app', 'lib', '.own'), 'utf8'), 'image\n');
  });

  test('fail the attempt where the image has something of another kind, or a link on the way', async () => {
    mkdirSync(join(image, 'app', 'a'), { recursive: true });
    writeFileSync(join(image, 'app', 'a', 'b'), '');
    assert.deepEqual(await node.refused(...given(':', [folder('/app', entry('a', ''))], [])), [
      'error',
      "What the image has in '/app' cannot be beside the files of the run",
    ]);
    symlinkSync('/etc', join(image, 'out'));
    const [cause, message] = await node.refused(...given(':', [], ['/out/passwd']));
    assert.deepEqual([cause, message.includes("in the image: '/out/passwd'")], ['error', true]);
  });

  test('have a place within empty folders, and hold one for the files of the run that gives nothing away', async () => {
    const files = [{ path: '/work/config', content: 'config', mode: 0o444, isSecret: false }];
    const program = `find 0 1 | sort; stat -c '%F %h' 2/config`;
    const more = { files, mounts: [{ scratch_mb: 1, path: '/scratch' }] };
    const [mounts, , options] = given(
      program,
      [single('/scratch/deep/in', '')],
      ['/scratch/out', '/work'],
      more,
    );
    assert.deepEqual(
      mounts.map(({ path }) => path),
      ['/scratch', '/scratch/out', '/work'],
    );
    assert.deepEqual(await node.printed(mounts, '', options), [
      '0',
      '0/deep',
      '0/deep/in',
      '0/out',
      '1',
      'regular empty file 2',
    ]);
  });

  test('lie in the folder of the attempt, in which an attempt that is there already has its own', async () => {
    const [mounts, , options] = given(':', [single('/in', 'first')], []);
    await node.create(mounts, options);
    const at = join(node.folders.root, 'r.1');
    assert.deepEqual([statSync(at).mode & 0o777, readdirSync(join(at, 'artifacts'))], [0o700, ['in']]);
    const read = { ...single('/in', 'second'), entries: () => assert.fail('the files are not read again') };
    await node.create(mounts, given(':', [read], [])[2]);
    assert.equal(readFileSync(join(at, 'artifacts', 'in'), 'utf8'), 'first');
  });
});
