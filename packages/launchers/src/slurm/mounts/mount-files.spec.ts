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
import type { ContainerFile } from '@longshore/worker/runtime/runtime';
import { afterEach, beforeEach, describe, test } from 'vitest';
import { canMount, JobOnNode, SCRATCH } from '../../testing/job-on-node.js';

function file(path: string, fields: Partial<ContainerFile> = {}): ContainerFile {
  return { path, content: 'content', mode: 0o444, isSecret: false, ...fields };
}

describe.skipIf(!canMount())('the files of a run in its job, with bash and the kernel', () => {
  let node: JobOnNode;
  let image: string;

  beforeEach(async () => {
    node = await JobOnNode.make();
    image = join(node.base, 'image');
  });
  afterEach(() => node.close());

  /** A tool with image folders, which executes a program in place of a container. */
  function inImage(program: string, files: readonly ContainerFile[]) {
    node.stub('runc', `cd '${image}' && { ${program}\n} >'${node.base}/got'`);
    const forTool = { 'image-dir': image, 'oci-config': '{}' };
    return { tool: 'runc', forTool, files } as const;
  }

  test('are in memory byte for byte with their modes, read-only, and not in the shared folder any more', async () => {
    const files = [
      file('/run.sh', { content: '#!/bin/sh\nexit 0\n\r\n\tü\u{1F511}\u0001\\$(x)', mode: 0o555 }),
      file('/empty', { content: '', mode: 0o400 }),
      file('/long', { content: 'x'.repeat(65_536), mode: 0o664 }),
      file('/none', { mode: 0 }),
      file('/bytes', { content: Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)) }),
    ];
    const program = `stat -c %a 1 2 3 4; stat -f -c %T 1; sha256sum 1 2 3 4 5 | cut -c -64; cat 0/set
      echo x >3 || echo unchanged; chmod 777 1 || echo unchanged; [ -e "$LONGSHORE_JOB/files" ] || echo gone`;
    assert.deepEqual(await node.printed([node.mount('in')], program, { files }), [
      '555',
      '400',
      '664',
      '0',
      'tmpfs',
      ...files.map(({ content }) => createHash('sha256').update(content).digest('hex')),
      'content',
      'unchanged',
      'unchanged',
      'gone',
    ]);
  });

  test('lie in the folder of the attempt for its owner alone until the job has them', async () => {
    await node.create([SCRATCH], { files: [file('/key', { isSecret: true })] });
    const at = join(node.folders.root, 'r.1', 'files');
    const modes = [at, join(at, '1')].map((path) => statSync(path).mode & 0o777);
    assert.deepEqual([modes, readdirSync(at)], [[0o700, 0o600], ['1']]);
  });

  test('need no folder for empty folders of runs, and are no such folders', async () => {
    const files = [file('/a'), file('/b')];
    assert.deepEqual(await node.printed([], 'cat 0 1', { files, scratchDir: '/nowhere' }), []);
    assert.equal(readFileSync(join(node.base, 'got'), 'utf8'), 'contentcontent');
    assert.deepEqual(await node.printed([SCRATCH], `ls; ls '${node.base}'/disk/*; stat -c %a 0`, { files }), [
      '0',
      '1',
      '2',
      '0',
      '1777',
    ]);
  });

  test('fail the attempt as infrastructure when the node cannot read them', async () => {
    node.stub('cp', 'exit 1');
    assert.deepEqual(await node.refused([], ':', { files: [file('/a')] }), [
      'infrastructure',
      'The node of the job cannot make the files of the run',
    ]);
  });

  test('are given to apptainer, enroot and charliecloud at their paths, after the mounts', async () => {
    const at = join(node.folders.root, 'r.1', 'mounts');
    const mounts = [node.mount('out', { path: '/out' })];
    const files = [file('/etc/job/run.sh')];
    const words = (
      tool: 'apptainer' | 'charliecloud',
      forTool: Readonly<Record<string, string>> = {},
    ): Promise<string[]> => node.printed(mounts, '', { tool, files, forTool });
    const expected = [`${at}/0:/out:rw`, `${at}/1:/etc/job/run.sh:ro`];
    assert.deepEqual(
      (await words('apptainer')).filter((word) => word.startsWith(at)),
      expected,
    );
    assert.deepEqual((await node.printed(mounts, '', { tool: 'enroot', files })).slice(1), [
      `${at}/0 /out none x-create=auto,rbind,rw`,
      `${at}/1 /etc/job/run.sh none x-create=auto,rbind,ro`,
    ]);
    assert.deepEqual(
      (await words('charliecloud', { 'image-dir': image, 'work-dir': '/' })).filter((word) =>
        word.startsWith(at),
      ),
      expected.map((word) => word.slice(0, -3)),
    );
  });

  test('have a place where an image folder has none or a link, in memory alone', async () => {
    const target = join(node.base, 'in', 'set');
    mkdirSync(join(image, 'etc'), { mode: 0o750 });
    for (const [name, to] of [
      ['link', target],
      ['within', 'there'],
      ['dangling', '/nowhere/a'],
    ] as const)
      symlinkSync(to, join(image, 'etc', name));
    writeFileSync(join(image, 'etc', 'there'), 'image\n');
    const paths = ['/etc/link', '/etc/within', '/etc/dangling', '/etc/there', "/new/it's $HOME *", '/top'];
    const program = `stat -c '%F %a' . new etc; stat -c '%F' etc/* top; cat etc/there; ls new`;
    assert.deepEqual(
      await node.printed(
        [],
        '',
        inImage(
          program,
          paths.map((path) => file(path)),
        ),
      ),
      [
        'directory 755',
        'directory 755',
        'directory 750',
        'regular empty file',
        'regular empty file',
        'regular file',
        'regular empty file',
        'regular empty file',
        'image',
        "it's $HOME *",
      ],
    );
    assert.deepEqual(
      [readdirSync(image), readlinkSync(join(image, 'etc', 'link')), readFileSync(target, 'utf8')],
      [['etc'], target, 'content\n'],
    );
  });

  test('leave an image as it is that has files at all of their paths', async () => {
    writeFileSync(join(image, 'there'), 'image\n');
    const program = `grep -c ' ${image} ' /proc/self/mountinfo || true; cat there`;
    assert.deepEqual(await node.printed([], '', inImage(program, [file('/there')])), ['0', 'image']);
  });

  for (const [what, make, path] of [
    ['a link out of the image', (at: string) => symlinkSync('/etc', join(at, 'a')), '/a/b'],
    ['a link that leads up', (at: string) => symlinkSync('../in', join(at, 'a')), '/a/set'],
    ['a link within the image', (at: string) => symlinkSync('.', join(at, 'a')), '/a/b'],
    ['a link that leads nowhere', (at: string) => symlinkSync('/nowhere', join(at, 'a')), '/a/b/c'],
    ['a file in place of a folder', (at: string) => writeFileSync(join(at, 'a'), ''), '/a/b'],
    ['a folder in its place', (at: string) => mkdirSync(join(at, 'a', 'b'), { recursive: true }), '/a/b'],
    ['a part that leads up', () => undefined, '/../in/set'],
    ['a part that is too long', () => undefined, `/${'a'.repeat(256)}`],
  ] as const)
    test(`fail the attempt for ${what}`, async () => {
      make(image);
      assert.deepEqual(await node.refused([], '', inImage(':', [file('/first'), file(path)])), [
        'error',
        `A part of the path of a file or mount is too long, or a link or something else in the image: '${path}'`,
      ]);
      assert.deepEqual([readdirSync(join(node.base, 'in')), existsSync('/etc/b')], [['set'], false]);
    });

  for (const [command, place] of [
    ['mkdir', './new'],
    ['rm', './file'],
  ] as const)
    test(`write through no link that takes a place of theirs just after ${command}`, async () => {
      const target = join(node.base, command === 'mkdir' ? 'in' : 'in/set');
      node.stub(
        command,
        `/bin/${command} "$@" || exit; case $* in *${place}) [ ! -d ${place} ] || rmdir ${place}; ln -s '${target}' ${place} ;; esac`,
      );
      const path = command === 'mkdir' ? '/new/set' : '/file';
      const [cause] = await node.refused([], '', inImage(':', [file(path)]));
      assert.equal(cause, 'error');
      assert.equal(readFileSync(join(node.base, 'in', 'set'), 'utf8'), 'content\n');
      rmSync(join(node.base, 'bin', command));
    });
});
