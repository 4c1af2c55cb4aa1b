import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ContainerTool } from '@longshore/worker/settings/slurm-settings';
import { JobFolders, type FolderState } from '../job-folders.js';
import { jobScript } from '../job-script.js';
import type { AttemptMount } from './attempt-mounts.js';

const KEY = { runId: 'r', attempt: 1 };
const NAMESPACE = process.getuid?.() === 0 ? ['--mount'] : ['--mount', '--map-root-user'];

/** Whether this machine lets the account of the tests mount something, which the nodes of a cluster do. */
function canMount(): boolean {
  try {
    execFileSync('unshare', [...NAMESPACE, 'mount', '--bind', '/tmp', '/tmp'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Stand-ins for container tools, which record their arguments; the one of enroot its list of mounts. */
const TOOLS = {
  apptainer: `printf '%s\\n' "$@"`,
  enroot: `source "$3"; mounts`,
  'ch-run': `printf '%s\\n' "$@"`,
} as const;

interface RunOptions {
  readonly scratchDir?: string;
  /** Commands before the job, in a mount namespace of both. */
  readonly before?: string;
  readonly forTool?: Readonly<Record<string, string>>;
  readonly tool?: ContainerTool;
}

describe.skipIf(!canMount())('the mounts of a job, with bash and the kernel', () => {
  let base: string;
  let folders: JobFolders;

  beforeEach(async () => {
    base = mkdtempSync(join(tmpdir(), 'longshore-mounts-'));
    folders = new JobFolders(base, 'd');
    await folders.open();
    for (const name of ['bin', 'disk', 'in', 'out', 'image']) mkdirSync(join(base, name));
    writeFileSync(join(base, 'in', 'set'), 'content\n');
    for (const [name, words] of Object.entries(TOOLS))
      stub(name, `case $1 in pull | import | create | remove) exit 0 ;; esac\n{ ${words}; } >'${base}/got'`);
  });
  afterEach(async () => {
    await folders.remove(KEY);
    assert.deepEqual(readdirSync(join(base, 'disk')), [], 'no empty folder is left');
    assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(base), 'nothing is mounted outside');
    rmSync(base, { recursive: true });
  });

  function stub(name: string, script: string): void {
    writeFileSync(join(base, 'bin', name), `#!/bin/bash\n${script}\n`, { mode: 0o755 });
  }

  function mount(volume: 'in' | 'out', fields: Partial<AttemptMount> = {}): AttemptMount {
    const mode = volume === 'in' ? 'ro' : 'rw';
    return { volume, source: join(base, volume), subPath: '', mode, path: `/${volume}`, ...fields };
  }

  const SCRATCH: AttemptMount = { volume: '', source: '', subPath: '', mode: 'rw', path: '/scratch' };

  async function create(
    mounts: readonly AttemptMount[],
    forTool: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    const files = { workerId: 'w', image: 'i', inputs: '{}', outputs: '', env: { A: 'a' }, secrets: {} };
    await folders.create(KEY, { ...files, command: ['/c'], args: [], mounts, forTool });
  }

  /** The script of a job that executes a program in place of a container. */
  function job(program: string, scratchDir: string, tool?: ContainerTool): string {
    stub('container', `cd "$LONGSHORE_JOB/mounts" && { ${program}\n} >'${base}/got' 2>/dev/null`);
    const own = { script: join(base, 'bin', 'container') };
    return jobScript({ root: folders.root, folder: 'r.1', tool: tool ?? own, scratchDir });
  }

  const env = (): NodeJS.ProcessEnv => ({ SLURM_JOB_ID: '5', PATH: `${base}/bin:/usr/bin:/bin` });

  /** Executes the attempt. */
  async function run(
    mounts: readonly AttemptMount[],
    program: string,
    options: RunOptions = {},
  ): Promise<FolderState> {
    const { scratchDir = join(base, 'disk'), before = ':', forTool = {}, tool } = options;
    await create(mounts, forTool);
    await new Promise((resolve) => {
      const child = execFile(
        '/usr/bin/unshare',
        [...NAMESPACE, 'bash', '-c', `${before}; exec bash`],
        { env: env() },
        resolve,
      );
      child.stdin?.end(job(program, scratchDir, tool));
    });
    const state = await folders.read(KEY);
    assert.ok(state !== null);
    await folders.remove(KEY);
    return state;
  }

  /** What a program prints that finds the mounts in the folders 0, 1 and so on, and ends with 0. */
  async function printed(...given: Parameters<typeof run>): Promise<string[]> {
    rmSync(join(base, 'got'), { force: true });
    const { exit, hasStarted } = await run(...given);
    assert.deepEqual([exit?.kind, exit?.exitCode, hasStarted], ['exited', 0, true], exit?.message);
    return readFileSync(join(base, 'got'), 'utf8').split('\n').slice(0, -1);
  }

  async function refused(...given: Parameters<typeof run>): Promise<readonly [string, string]> {
    const { exit, hasStarted } = await run(...given);
    assert.ok(exit !== null && !hasStarted && !existsSync(join(base, 'got')), 'no container');
    assert.ok(!exit.message.includes(base), exit.message);
    return [exit.kind, exit.message];
  }

  test('are the folders of volumes, which keep what is written', async () => {
    const program = `cat 0/set; ls 1; echo new >1/new; env | grep -e '${base}/out' -e '${base}/in' || true`;
    assert.deepEqual(await printed([mount('in'), mount('out')], program), ['content']);
    assert.deepEqual(await printed([mount('in'), mount('out')], program), ['content', 'new']);
    assert.equal(readFileSync(join(base, 'out', 'new'), 'utf8'), 'new\n');
  });

  test('are read-only for everybody, with the file systems that are mounted below, whose options stay', async () => {
    mkdirSync(join(base, 'in', 'be low'));
    const before = `mount -t tmpfs -o nosuid,nodev x '${base}/in/be low'`;
    const program = `for d in 0 '0/be low' 1; do echo x >"$d/x" && echo "written $d"; done; cat 0/set
      grep -c 'mounts/0.*low ro,nosuid,nodev' /proc/self/mountinfo`;
    assert.deepEqual(await printed([mount('in'), mount('out', { mode: 'ro' })], program, { before }), [
      'content',
      '1',
    ]);
    assert.deepEqual(
      await printed([mount('in', { mode: 'rw' })], `echo x >'0/be low/x' && echo written`, { before }),
      ['written'],
    );
  });

  test('create a folder within a volume for everybody, and leave one that exists as it is', async () => {
    mkdirSync(join(base, 'out', 'a'), { mode: 0o711 });
    const names = ["a/it's $HOME *", 'b\\n/c'];
    const both = names.map((subPath) => mount('out', { subPath }));
    assert.deepEqual(await printed(both, 'touch 0/x; stat -c %a 0 1'), ['1777', '1777']);
    assert.deepEqual(readdirSync(join(base, 'out', 'a', "it's $HOME *")), ['x']);
    assert.equal(statSync(join(base, 'out', 'a')).mode & 0o7777, 0o711);
    assert.deepEqual(
      await printed([mount('out', { subPath: names[0] ?? '', mode: 'ro' })], 'ls 0; echo x >0/y || true'),
      ['x'],
    );
  });

  test('fail the attempt for a folder that is not there and only to be read', async () => {
    assert.deepEqual(await refused([mount('out', { subPath: 'a/b', mode: 'ro' })], ':'), [
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
          const [cause, message] = await refused([mount('out', { subPath, mode })], ':');
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
    stub(
      'mount',
      `case $* in *--rbind*) mv '${base}/out/a' '${base}/out/moved' && ln -s /etc '${base}/out/a' ;; esac
exec /bin/mount "$@"`,
    );
    assert.deepEqual(await printed([mount('out', { subPath: 'a' })], 'ls 0'), ['mine']);
  });

  test('are refused when a link takes the place of a folder after its creation', async () => {
    stub('mkdir', `/bin/mkdir "$@" && case $* in *./a) rmdir ./a && ln -s '${base}/in' ./a ;; esac`);
    const [cause] = await refused([mount('out', { subPath: 'a' })], 'cat 0/set');
    assert.equal(cause, 'error');
  });

  test('fail as infrastructure for a volume that the node does not have, naming it and no path', async () => {
    assert.deepEqual(await refused([mount('in', { source: join(base, 'none') })], ':'), [
      'infrastructure',
      "The volume 'in' is missing on the node of the job",
    ]);
  });

  test('fail as infrastructure on a node that lets nobody mount', async () => {
    stub('unshare', 'exit 1');
    const [cause, message] = await refused([mount('in')], ':');
    assert.deepEqual(
      [cause, message.startsWith('The node of the job cannot make mounts')],
      ['infrastructure', true],
    );
  });

  test('are empty folders on the disk of the node, for everybody, which end with the attempt', async () => {
    const program = `ls -A 0 1; stat -c %a 0 1; mkdir -p 0/a/b && touch 0/a/b/c && chmod 0 0/a; ls '${base}/disk' | wc -l`;
    const twice = [SCRATCH, SCRATCH];
    assert.deepEqual((await printed(twice, program)).slice(-3), ['1777', '1777', '1']);
    assert.deepEqual(readdirSync(join(base, 'disk')), []);
  });

  test('fail as infrastructure on a node without the folder for them', async () => {
    assert.deepEqual(await refused([SCRATCH], ':', { scratchDir: join(base, 'none') }), [
      'infrastructure',
      'The node of the job has no place for an empty folder',
    ]);
    // Slurm has given the job no such variable.
    assert.equal((await refused([SCRATCH], ':', { scratchDir: 'TMPDIR' }))[0], 'infrastructure');
  });

  test('remove the empty folders of jobs that were killed, and none of a job that goes on', async () => {
    await create([SCRATCH]);
    const killed = spawn('bash', [], { env: env(), detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
    killed.stdin.end(job(`touch 0/x '${base}/begun'; sleep 600`, join(base, 'disk')));
    while (!existsSync(join(base, 'begun'))) await sleep(20);
    await folders.remove(KEY);
    const [held = ''] = readdirSync(join(base, 'disk'));
    assert.deepEqual(await printed([SCRATCH], `ls '${base}/disk/${held}/0'`), ['x']);
    const { pid } = killed;
    assert.ok(pid !== undefined);
    process.kill(-pid, 'SIGKILL');
    while (killed.signalCode === null) await sleep(20);
    assert.deepEqual(readdirSync(join(base, 'disk')), [held]);
    assert.deepEqual(await printed([SCRATCH], `ls '${base}/disk' | wc -l`), ['1']);
  });

  const two = (): AttemptMount[] => [mount('in', { path: '/data' }), mount('out', { path: '/deep/out' })];

  test('are given to apptainer, enroot and charliecloud at their paths', async () => {
    const at = join(folders.root, 'r.1', 'mounts');
    const apptainer = await printed(two(), '', { tool: 'apptainer' });
    assert.deepEqual(
      apptainer.filter((word) => word.startsWith(at)),
      [`${at}/0:/data:ro`, `${at}/1:/deep/out:rw`],
    );
    assert.deepEqual((await printed(two(), '', { tool: 'enroot' })).slice(1), [
      `${at}/0 /data none x-create=dir,rbind,ro`,
      `${at}/1 /deep/out none x-create=dir,rbind,rw`,
    ]);
    const image = join(base, 'image');
    for (const name of ['data', 'deep/out']) mkdirSync(join(image, name), { recursive: true });
    const forTool = { 'image-dir': image, 'work-dir': '/' };
    const words = await printed(two(), '', { tool: 'charliecloud', forTool });
    assert.deepEqual(
      words.filter((word) => word.startsWith(at)),
      [`${at}/0:/data`, `${at}/1:/deep/out`],
    );
  });

  test('get a folder in memory where an image folder has none, and are refused where it has a link', async () => {
    const image = join(base, 'image');
    mkdirSync(join(image, 'deep'));
    writeFileSync(join(image, 'deep', 'file'), '');
    const forTool = { 'image-dir': image, 'work-dir': '/' };
    stub('ch-run', `ls '${image}' '${image}/deep' >'${base}/got'`);
    const expected = [`${image}:`, 'data', 'deep', '', `${image}/deep:`, 'file', 'out'];
    assert.deepEqual(await printed(two(), '', { tool: 'charliecloud', forTool }), expected);
    assert.deepEqual([readdirSync(image), readdirSync(join(image, 'deep'))], [['deep'], ['file']]);
    rmSync(join(base, 'got'));
    symlinkSync(join(base, 'in'), join(image, 'data'));
    assert.deepEqual(await refused(two(), '', { tool: 'charliecloud', forTool }), [
      'error',
      'A part of the path of a mount is a link or no folder in the image',
    ]);
  });
});
