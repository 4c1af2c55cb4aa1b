import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { canMount, JobOnNode, KEY, SCRATCH } from '../../testing/job-on-node.js';
import type { AttemptMount } from './attempt-mounts.js';

describe.skipIf(!canMount())('the mounts of a job, with bash and the kernel', () => {
  let node: JobOnNode;
  let base: string;

  beforeEach(async () => {
    node = await JobOnNode.make();
    base = node.base;
  });
  afterEach(() => node.close());

  test('are the folders of volumes, which keep what is written', async () => {
    const program = `cat 0/set; ls 1; echo new >1/new; env | grep -e '${base}/out' -e '${base}/in' || true`;
    assert.deepEqual(await node.printed([node.mount('in'), node.mount('out')], program), ['content']);
    assert.deepEqual(await node.printed([node.mount('in'), node.mount('out')], program), ['content', 'new']);
    assert.equal(readFileSync(join(base, 'out', 'new'), 'utf8'), 'new\n');
  });

  test('are read-only for everybody, with the file systems that are mounted below, whose options stay', async () => {
    mkdirSync(join(base, 'in', 'be low'));
    const before = `mount -t tmpfs -o nosuid,nodev x '${base}/in/be low'`;
    const program = `for d in 0 '0/be low' 1; do echo x >"$d/x" && echo "written $d"; done; cat 0/set
      grep -c 'mounts/0.*low ro,nosuid,nodev' /proc/self/mountinfo`;
    assert.deepEqual(
      await node.printed([node.mount('in'), node.mount('out', { mode: 'ro' })], program, { before }),
      ['content', '1'],
    );
    assert.deepEqual(
      await node.printed([node.mount('in', { mode: 'rw' })], `echo x >'0/be low/x' && echo written`, {
        before,
      }),
      ['written'],
    );
  });

  test('create a folder within a volume for everybody, and leave one that exists as it is', async () => {
    mkdirSync(join(base, 'out', 'a'), { mode: 0o711 });
    const names = ["a/it's $HOME *", 'b\\n/c'];
    const both = names.map((subPath) => node.mount('out', { subPath }));
    assert.deepEqual(await node.printed(both, 'touch 0/x; stat -c %a 0 1'), ['1777', '1777']);
    assert.deepEqual(readdirSync(join(base, 'out', 'a', "it's $HOME *")), ['x']);
    assert.equal(statSync(join(base, 'out', 'a')).mode & 0o7777, 0o711);
    assert.deepEqual(
      await node.printed(
        [node.mount('out', { subPath: names[0] ?? '', mode: 'ro' })],
        'ls 0; echo x >0/y || true',
      ),
      ['x'],
    );
  });

  test('fail the attempt for a folder that is not there and only to be read', async () => {
    assert.deepEqual(await node.refused([node.mount('out', { subPath: 'a/b', mode: 'ro' })], ':'), [
      'error',
      "There is no folder 'a/b' of the volume 'out'",
    ]);
    assert.deepEqual(readdirSync(join(base, 'out')), []);
  });

  for (const [what, make, subPaths] of [
    ['a link out of the volume', (out: string) => symlinkSync('/etc', join(out, 'a')), ['a', 'a/b']],
    ['a link within the volume', (out: string) => symlinkSync('.', join(out, 'a')), ['a', 'a/b']],
    ['a link that leads nowhere', (out: string) => symlinkSync('/nowhere', join(out, 'a')), ['a', 'a/b']],
    ['a file', (out: string) => writeFileSync(join(out, 'a'), ''), ['a', 'a/b']],
    ['a part that leads up', () => undefined, ['..', 'x/../..', '../in']],
    ['a part that is too long', () => undefined, ['a'.repeat(256)]],
  ] as const)
    test(`fail the attempt for ${what} in the path of its folder`, async () => {
      make(join(base, 'out'));
      for (const subPath of subPaths)
        for (const mode of ['ro', 'rw'] as const) {
          const [cause, message] = await node.refused([node.mount('out', { subPath, mode })], ':');
          const missing = subPath.startsWith('x') && mode === 'ro';
          assert.deepEqual(
            [cause, message],
            [
              'error',
              missing
                ? `There is no folder '${subPath}' of the volume 'out'`
                : `A part of the folder '${subPath}' of the volume 'out' is a link, no folder or too long`,
            ],
          );
        }
    });

  test('are of the folder that was checked when a link takes its place before it is mounted', async () => {
    mkdirSync(join(base, 'out', 'a'));
    writeFileSync(join(base, 'out', 'a', 'mine'), '');
    node.stub(
      'mount',
      `case $* in *--rbind*) mv '${base}/out/a' '${base}/out/moved' && ln -s /etc '${base}/out/a' ;; esac
exec /bin/mount "$@"`,
    );
    assert.deepEqual(await node.printed([node.mount('out', { subPath: 'a' })], 'ls 0'), ['mine']);
  });

  test('are refused when a link takes the place of a folder after its creation', async () => {
    node.stub('mkdir', `/bin/mkdir "$@" && case $* in *./a) rmdir ./a && ln -s '${base}/in' ./a ;; esac`);
    const [cause] = await node.refused([node.mount('out', { subPath: 'a' })], 'cat 0/set');
    assert.equal(cause, 'error');
  });

  test('fail as infrastructure for a volume that the node does not have, naming it and no path', async () => {
    assert.deepEqual(await node.refused([node.mount('in', { source: join(base, 'none') })], ':'), [
      'infrastructure',
      "The volume 'in' is missing on the node of the job",
    ]);
  });

  test('fail as infrastructure on a node that lets nobody mount', async () => {
    node.stub('unshare', 'exit 1');
    const [cause, message] = await node.refused([node.mount('in')], ':');
    assert.deepEqual(
      [cause, message.startsWith('The node of the job cannot make mounts')],
      ['infrastructure', true],
    );
  });

  test('are empty folders on the disk of the node, for everybody, which end with the attempt', async () => {
    const program = `ls -A 0 1; stat -c %a 0 1; mkdir -p 0/a/b && touch 0/a/b/c && chmod 0 0/a; ls '${base}/disk' | wc -l`;
    const twice = [SCRATCH, SCRATCH];
    assert.deepEqual((await node.printed(twice, program)).slice(-3), ['1777', '1777', '1']);
    assert.deepEqual(readdirSync(join(base, 'disk')), []);
  });

  test('fail as infrastructure on a node without the folder for them', async () => {
    assert.deepEqual(await node.refused([SCRATCH], ':', { scratchDir: join(base, 'none') }), [
      'infrastructure',
      'The node of the job has no place for an empty folder',
    ]);
    // Slurm has given the job no such variable.
    assert.equal((await node.refused([SCRATCH], ':', { scratchDir: 'TMPDIR' }))[0], 'infrastructure');
  });

  test('remove the empty folders of jobs that were killed, and none of a job that goes on', async () => {
    await node.create([SCRATCH]);
    const killed = spawn('bash', [], { env: node.env, detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
    killed.stdin.end(node.job(`touch 0/x '${base}/begun'; sleep 600`));
    while (!existsSync(join(base, 'begun'))) await sleep(20);
    await node.folders.remove(KEY);
    const [held = ''] = readdirSync(join(base, 'disk'));
    assert.deepEqual(await node.printed([SCRATCH], `ls '${base}/disk/${held}/0'`), ['x']);
    const { pid } = killed;
    assert.ok(pid !== undefined);
    process.kill(-pid, 'SIGKILL');
    while (killed.signalCode === null) await sleep(20);
    assert.deepEqual(readdirSync(join(base, 'disk')), [held]);
    assert.deepEqual(await node.printed([SCRATCH], `ls '${base}/disk' | wc -l`), ['1']);
  });

  const two = (): AttemptMount[] => [
    node.mount('in', { path: '/data' }),
    node.mount('out', { path: '/deep/out' }),
  ];

  test('are given to apptainer, enroot and charliecloud at their paths', async () => {
    const at = join(node.folders.root, 'r.1', 'mounts');
    const apptainer = await node.printed(two(), '', { tool: 'apptainer' });
    assert.deepEqual(
      apptainer.filter((word) => word.startsWith(at)),
      [`${at}/0:/data:ro`, `${at}/1:/deep/out:rw`],
    );
    assert.deepEqual((await node.printed(two(), '', { tool: 'enroot' })).slice(1), [
      `${at}/0 /data none x-create=auto,rbind,ro`,
      `${at}/1 /deep/out none x-create=auto,rbind,rw`,
    ]);
    const image = join(base, 'image');
    for (const name of ['data', 'deep/out']) mkdirSync(join(image, name), { recursive: true });
    const forTool = { 'image-dir': image, 'work-dir': '/' };
    const words = await node.printed(two(), '', { tool: 'charliecloud', forTool });
    assert.deepEqual(
      words.filter((word) => word.startsWith(at)),
      [`${at}/0:/data`, `${at}/1:/deep/out`],
    );
  });

  test('reach each tool with a path as it is, whatever its characters', async () => {
    const at = join(node.folders.root, 'r.1', 'mounts', '0');
    const plain = `/p/${'A9._@+=-'.repeat(8)}`;
    const any = `/p/ ,;=\\"'$HOME*?[]{}()<>&|!#~%^\`ü`;
    const given = (path: string) => [node.mount('in', { path })];
    const apptainer = await node.printed(given(plain), '', { tool: 'apptainer' });
    assert.ok(apptainer.includes(`${at}:${plain}:ro`), apptainer.join(' '));
    const enroot = await node.printed(given(plain), '', { tool: 'enroot' });
    assert.equal(enroot.at(-1), `${at} ${plain} none x-create=auto,rbind,ro`);
    const image = join(base, 'image');
    const forTool = { 'image-dir': image, 'work-dir': '/' };
    const charliecloud = await node.printed(given(any), '', { tool: 'charliecloud', forTool });
    assert.ok(charliecloud.includes(`${at}:${any}`), charliecloud.join(' '));
  });

  for (const [target, tool] of [
    ['/proc', 'charliecloud'],
    ['/dev', 'charliecloud'],
    ['/sys', 'runc'],
    ['/tmp', 'charliecloud'],
    ['/mnt', 'runc'],
    ['/work', 'charliecloud'],
    ['/longshore', 'apptainer'],
    ['/dev', 'enroot'],
  ] as const)
    test(`no container of ${tool} is made of an image with a link at ${target}`, async () => {
      const hasFolder = tool === 'charliecloud' || tool === 'runc';
      const image = join(base, 'image');
      const link = (folder: string) => `mkdir -p "${folder}"; ln -s '${base}/in' "${folder}${target}"; exit`;
      if (hasFolder) symlinkSync(join(base, 'in'), join(image, target));
      node.stub('apptainer', `[ "$1" != build ] || { ${link('$4')}; }; : >'${base}/got'`);
      node.stub(
        'enroot',
        `case $1 in import) exit ;; create) ${link('$ENROOT_DATA_PATH/$3')} ;; esac; : >'${base}/got'`,
      );
      node.stub('ch-run', `: >'${base}/got'`);
      node.stub('runc', `: >'${base}/got'`);
      const forTool: Readonly<Record<string, string>> = hasFolder
        ? { 'image-dir': image, 'work-dir': '/work/in' }
        : {};
      assert.deepEqual(await node.refused([], '', { tool, forTool }), [
        'error',
        `The image has a link or something else in the place of the folder '${target === '/work' ? '/work/in' : target}'`,
      ]);
    });

  test('and files are given to no container of apptainer or enroot whose image has a link in their path', async () => {
    const link = (folder: string) => `mkdir -p "${folder}"; ln -s '${base}/in' "${folder}/x"; exit`;
    node.stub('apptainer', `[ "$1" != build ] || { ${link('$4')}; }; : >'${base}/got'`);
    node.stub(
      'enroot',
      `case $1 in import) exit ;; create) ${link('$ENROOT_DATA_PATH/$3')} ;; esac; : >'${base}/got'`,
    );
    for (const tool of ['apptainer', 'enroot'] as const)
      for (const path of ['/x', '/x/a']) {
        const message = `A part of the path of a file or mount is too long, or a link or something else in the image: '${path}'`;
        const file = { path, content: '', mode: 0o444, isSecret: false };
        assert.deepEqual(await node.refused([node.mount('in', { path })], '', { tool }), ['error', message]);
        assert.deepEqual(await node.refused([], '', { tool, files: [file] }), ['error', message]);
      }
  });

  test('get a folder in memory where an image folder has none, and are refused where it has a link', async () => {
    const image = join(base, 'image');
    mkdirSync(join(image, 'deep'));
    writeFileSync(join(image, 'deep', 'file'), '');
    const forTool = { 'image-dir': image, 'work-dir': '/' };
    node.stub('ch-run', `ls '${image}' '${image}/deep' >'${base}/got'`);
    const expected = [`${image}:`, 'data', 'deep', '', `${image}/deep:`, 'file', 'out'];
    assert.deepEqual(await node.printed(two(), '', { tool: 'charliecloud', forTool }), expected);
    assert.deepEqual([readdirSync(image), readdirSync(join(image, 'deep'))], [['deep'], ['file']]);
    rmSync(join(base, 'got'));
    symlinkSync(join(base, 'in'), join(image, 'data'));
    assert.deepEqual(await node.refused(two(), '', { tool: 'charliecloud', forTool }), [
      'error',
      "A part of the path of a file or mount is too long, or a link or something else in the image: '/data'",
    ]);
  });
});
