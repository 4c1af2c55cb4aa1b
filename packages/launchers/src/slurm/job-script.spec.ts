import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'vitest';
import type { AttemptFiles } from './attempt-files.js';
import { JobFolders } from './job-folders.js';
import {
  CONTAINER_TOOLS,
  type ContainerTool,
  SLURM_SETTINGS,
} from '@longshore/worker/settings/slurm-settings';
import { FOLDER_UNSEEN, jobScript, sbatchArguments } from './job-script.js';
import type { JobSpec } from '../launcher/engine.js';
import { readSettings } from '@longshore/worker/settings/setting-table';
import { NO_CONSTRAINTS } from '@longshore/worker/service-api/constraints';
import { jobSpec } from '../testing/job-spec.js';

const KEY = { runId: 'r', attempt: 1 };
const HOSTILE = `a'b"c $(touch pwned) \`touch pwned\`\n\\ * ; -- é`;

/** Prints what the script of the operator gets, and ends with 7. */
const CONTAINER = `#!/bin/bash
echo start >>"$LONGSHORE_JOB/../starts"
printf '%s\\0' "$LONGSHORE_IMAGE" >"$LONGSHORE_JOB/../got"
cat <&3 >>"$LONGSHORE_JOB/../got"
cat "$LONGSHORE_JOB/command" "$LONGSHORE_JOB/args" >>"$LONGSHORE_JOB/../got"
exit 7
`;

/** Stand-ins for the tools, which record their arguments and the variables that a container would get. */
const TOOLS = {
  apptainer: `env -0 | sed -zn 's/^APPTAINERENV_//p'`,
  enroot: `source "$3"
environ | tr '\\n' '\\0'`,
  'ch-run': `for word; do case $word in --set-env=*) lines=\${word#*=} ;; esac; done
while IFS= read -r line; do carrier=\${line#*=$}; printf '%s=%s\\0' "\${line%%=*}" "\${!carrier}"; done <"$lines"`,
  runc: `sed -z 's/$/\\x00/' "$5/config.json"`,
} as const;

/** Every variable that the script or a tool's part of it sets, and those by which shells and loaders are led astray. */
function dangerousNames(): readonly string[] {
  const tools = [...CONTAINER_TOOLS, { script: '/x' }];
  const text = tools.map((tool) => jobScript({ root: '/r', folder: 'f', tool, scratchDir: '/d' })).join('\n');
  const assigned = [...text.matchAll(/(?:^|[\s;({])([A-Za-z_]\w*)\+?=/gm)].map(([, name]) => name);
  const loops = [...text.matchAll(/\bfor (\w+)/g)].map(([, name]) => name);
  const found = [...assigned, ...loops].filter((name) => name !== undefined);
  for (const name of ['job', 'image_dir', 'scratch', 'carrier', 'pair'])
    assert.ok(found.includes(name), name);
  const known = 'tool LD_PRELOAD LD_LIBRARY_PATH GLIBC_TUNABLES BASH_ENV ENV IFS PS4 PROMPT_COMMAND TMPDIR';
  const others = 'HOME USER SLURM_JOB_ID CH_RUNNING LONGSHORE_VALUE0 LONGSHORE_VALUE_1 LONGSHORE_JOB _ x';
  return [...new Set([...found, ...known.split(' '), ...others.split(' ')])];
}

describe.skipIf(!existsSync('/bin/bash'))('the script of a job, with bash', () => {
  let base: string;
  let folders: JobFolders;

  beforeEach(async () => {
    base = mkdtempSync(join(tmpdir(), 'longshore-job-script-'));
    folders = new JobFolders(base, 'd');
    await folders.open();
    writeFileSync(join(base, 'container'), CONTAINER);
    chmodSync(join(base, 'container'), 0o755);
    mkdirSync(join(base, 'bin'));
    for (const [name, script] of Object.entries(TOOLS)) {
      const path = join(base, 'bin', name);
      const begin = `case $1 in build) mkdir -p "$4"; exit ;; create) mkdir -p "$ENROOT_DATA_PATH/$3"; exit ;; import) exit ;; esac\ncat /proc/$$/environ >"${base}/own"`;
      const end = `} >"${base}/variables"\nprintf '%s\\0' "$@" >"${base}/words"\n`;
      writeFileSync(path, `#!/bin/bash\n${begin}\n{\n${script}\n${end}`, { mode: 0o755 });
    }
  });
  afterEach(() => rmSync(base, { recursive: true, force: true }));

  function create(files: Partial<AttemptFiles> = {}): Promise<boolean> {
    const given = { workerId: 'w', image: 'i', inputs: '{}', outputs: '', env: { A: HOSTILE, B: '' } };
    return folders.create(KEY, {
      ...given,
      secrets: {},
      command: ['/c', HOSTILE],
      args: [''],
      mounts: [],
      runFiles: [],
      memo: { signedQueries: [], notes: [] },
      artifacts: null,
      owner: null,
      forTool: {},
      ...files,
    });
  }

  function run(jobId: string, root = folders.root): Promise<number> {
    return execute(
      jobScript({ root, folder: 'r.1', tool: { script: join(base, 'container') }, scratchDir: null }),
      jobId,
    );
  }

  function execute(
    script: string,
    jobId: string,
    slurm: Readonly<Record<string, string>> = {},
  ): Promise<number> {
    const env = { SLURM_JOB_ID: jobId, PATH: `${base}/bin:/usr/bin:/bin`, ...slurm };
    return new Promise((resolve) => {
      const child = execFile('/bin/bash', [], { env }, (error) =>
        resolve(typeof error?.code === 'number' ? error.code : 0),
      );
      child.stdin?.end(script);
    });
  }

  test('hands texts of the run on as they are, and records the exit code', async () => {
    const beganMs = Date.now();
    await create({ image: HOSTILE });
    assert.equal(await run('5'), 7);
    const got = readFileSync(join(folders.root, 'got'), 'utf8').split('\0');
    assert.deepEqual(got, [HOSTILE, `A=${HOSTILE}`, 'B=', '/c', HOSTILE, '', '']);
    const state = await folders.read(KEY);
    assert.deepEqual([state?.takenBy, state?.hasStarted], ['5', true]);
    const { startedAtMs = null, exit = null } = state ?? {};
    assert.ok(startedAtMs !== null && startedAtMs >= beganMs, `started at ${startedAtMs}`);
    const endedAtMs = exit?.endedAtMs ?? Number.NaN;
    assert.ok(endedAtMs >= startedAtMs && endedAtMs <= Date.now(), `ended at ${endedAtMs}`);
    assert.deepEqual(exit, {
      kind: 'exited',
      endedAtMs,
      exitCode: 7,
      wasSignalled: false,
      logBytes: 0,
      message: '',
    });
    assert.equal(existsSync(join(folders.root, 'r.1', 'env')), false, 'the variables are deleted');
    assert.equal(existsSync(join(folders.root, 'r.1', 'pwned')), false);
  });

  test('executes an attempt once, in several jobs and in one that Slurm starts again', async () => {
    await create();
    await Promise.all(['5', '6', '7', '7'].map((id) => run(id)));
    await run('5');
    assert.equal(readFileSync(join(folders.root, 'starts'), 'utf8'), 'start\n');
  });

  test('ends quietly when the attempt was removed, and with another code where the shared folder is not seen', async () => {
    assert.equal(await run('5'), 0);
    assert.equal(await run('5', '/nowhere'), FOLDER_UNSEEN);
    await create();
    await folders.remove(KEY);
    assert.equal(await run('6'), 0);
    assert.equal(existsSync(join(folders.root, 'starts')), false);
  });

  function partsOf(name: string): string[] {
    return readFileSync(join(base, name), 'utf8').split('\0').slice(0, -1);
  }

  /** What the tool gets: its arguments, and the container's variables, of which the last of a name counts. */
  async function withTool(
    tool: ContainerTool,
    slurm: Readonly<Record<string, string>>,
    files: Partial<AttemptFiles> = {},
  ): Promise<{ readonly words: readonly string[]; readonly variables: ReadonlyMap<string, string> }> {
    const own = { A: '$HOME', CUDA_VISIBLE_DEVICES: 'of the run', NVIDIA_VISIBLE_DEVICES: 'all' };
    await create({ env: own, ...files });
    const script = jobScript({ root: folders.root, folder: 'r.1', tool, scratchDir: null });
    assert.equal(
      await execute(script, '5', slurm),
      0,
      readFileSync(join(folders.root, 'r.1', 'log'), 'utf8'),
    );
    const pairs = partsOf('variables').map((pair): [string, string] => {
      const at = pair.indexOf('=');
      return [pair.slice(0, at), pair.slice(at + 1)];
    });
    await folders.remove(KEY);
    return { words: partsOf('words'), variables: new Map(pairs) };
  }

  test('keeps apptainer from evaluating texts of the run', async () => {
    for (const command of [['/c', '$(touch pwned)'], null]) {
      const { words, variables } = await withTool('apptainer', {}, { command });
      assert.ok(words.includes('--no-eval'), words.join(' '));
      assert.equal(variables.get('A'), '$HOME');
      assert.ok(!words.includes('--nv') && !words.includes('--rocm'), 'no GPU without Slurm');
    }
  });

  const GPUS = { CUDA_VISIBLE_DEVICES: '1', ROCR_VISIBLE_DEVICES: '1', GPU_DEVICE_ORDINAL: '1' };
  for (const tool of ['apptainer', 'enroot', 'charliecloud'] as const)
    test(`gives a container of ${tool} the GPUs of the job, whatever the run says`, async () => {
      const { words, variables } = await withTool(tool, GPUS);
      for (const name of Object.keys(GPUS)) assert.equal(variables.get(name), '1', name);
      assert.equal(words.includes('--nv'), tool === 'apptainer');
      assert.equal(variables.get('NVIDIA_VISIBLE_DEVICES'), 'all');
      const without = await withTool(tool, { CUDA_VISIBLE_DEVICES: 'NoDevFiles' });
      assert.equal(without.variables.get('CUDA_VISIBLE_DEVICES'), 'of the run');
      assert.ok(!without.words.includes('--nv'));
      assert.equal(without.variables.get('NVIDIA_VISIBLE_DEVICES'), tool === 'enroot' ? 'void' : 'all');
    });

  test('gives a container of apptainer the GPUs of AMD', async () => {
    const { words } = await withTool('apptainer', { ROCR_VISIBLE_DEVICES: '0' });
    assert.ok(words.includes('--rocm') && !words.includes('--nv'), words.join(' '));
  });

  for (const tool of CONTAINER_TOOLS)
    test(`gives no variable of a run to the shell of the job or to ${tool} itself, whatever its name`, async () => {
      const evil = join(base, 'evil');
      writeFileSync(evil, `#!/bin/bash\ntouch '${base}/pwned'\n`, { mode: 0o755 });
      const ending = tool === 'enroot' ? '' : '\n';
      const env = Object.fromEntries([
        ...dangerousNames().map((name) => [name, `${evil}${ending}`]),
        ['QUOTED', `'a' "b" $HOME:$PATH \`touch ${base}/pwned\` $(touch ${base}/pwned) \\${ending}`],
      ]);
      const image = join(base, 'images', 'i');
      mkdirSync(image, { recursive: true });
      const files = { 'image-dir': image, 'work-dir': '/work' };
      const forTool: AttemptFiles['forTool'] =
        tool === 'runc' ? { 'oci-config': JSON.stringify(env) } : tool === 'charliecloud' ? files : {};
      const { words, variables } = await withTool(tool, {}, { env: tool === 'runc' ? {} : env, forTool });
      const got =
        tool === 'runc'
          ? (JSON.parse(partsOf('variables').join('')) as unknown)
          : Object.fromEntries(variables);
      const none = tool === 'enroot' ? { NVIDIA_VISIBLE_DEVICES: 'void' } : {};
      assert.deepEqual(got, { ...env, ...none });
      assert.equal(existsSync(join(base, 'pwned')), false, 'nothing of the run is executed outside');
      const own = partsOf('own').map((pair) => [pair.slice(0, pair.indexOf('=')), pair] as const);
      for (const [name, pair] of own)
        assert.ok(
          !pair.includes(evil) || /^(?:APPTAINERENV_|LONGSHORE_VALUE_+\d)/.test(name),
          `${tool} gets ${pair}`,
        );
      const job = join(folders.root, 'r.1', 'io');
      if (tool === 'charliecloud')
        assert.deepEqual(words.slice(5), [
          '--bind',
          `${job}:/mnt`,
          '--cd',
          '/work',
          image,
          '--',
          '/c',
          HOSTILE,
          '',
        ]);
      if (tool === 'apptainer') assert.ok(words.includes(`${job}:/longshore`), words.join(' '));
    });

  test('gives no variable of a run to the environment of the script of the operator', async () => {
    const names = dangerousNames();
    const env = Object.fromEntries(names.map((name) => [name, `${base}/evil\n`]));
    writeFileSync(
      join(base, 'container'),
      `#!/bin/bash\ncat /proc/$$/environ >"${base}/own"\ncat <&3 >"${base}/variables"\n`,
    );
    await create({ env });
    assert.equal(await run('5'), 0);
    assert.deepEqual(
      partsOf('variables'),
      Object.entries(env).map((pair) => pair.join('=')),
    );
    assert.ok(!readFileSync(join(base, 'own'), 'utf8').includes(`${base}/evil`));
  });

  test('finds the folder of one of several launchers, whole', async () => {
    const made = await Promise.all(['one', 'two', 'three'].map((image) => create({ image })));
    assert.equal(made.filter(Boolean).length, 1);
    assert.deepEqual(await folders.list(), [KEY]);
    await folders.remove(KEY);
    await folders.remove(KEY);
    assert.deepEqual(await folders.list(), []);
  });
});

function spec(constraints: Partial<JobSpec['constraints']>, selector: readonly string[] = []): JobSpec {
  return jobSpec({ constraints: { ...NO_CONSTRAINTS, ...constraints }, selector });
}

describe('the arguments of sbatch', () => {
  const settings = readSettings(SLURM_SETTINGS, {
    SERVICE_WORKER_SLURM_FEATURES: 'fast=nvme,arm=arm64',
    SERVICE_WORKER_SLURM_GPUS: 'l4=24000,a100=81920',
    SERVICE_WORKER_SLURM_ACCOUNT: 'lab',
    SERVICE_WORKER_SLURM_QOS: 'long',
    SERVICE_WORKER_SLURM_TIME: '90',
    SERVICE_WORKER_SLURM_ARGS: '--exclusive --nice=10',
  });

  test('ask for what the run needs, with the settings', () => {
    const args = sbatchArguments(spec({ cpuMillis: 1500, ramMb: 300 }, ['fast', 'arm', 'own']), settings, [
      'a',
      'b',
    ]);
    const expected = [
      '--partition=a,b',
      '--cpus-per-task=2',
      '--mem=300M',
      '--constraint=nvme&arm64',
      '--account=lab',
    ];
    for (const arg of [
      ...expected,
      '--qos=long',
      '--time=90',
      '--no-requeue',
      '--export=ALL',
      '--exclusive',
      '--nice=10',
    ])
      assert.ok(args.includes(arg), arg);
    assert.ok(!args.some((arg) => arg.startsWith('--gres')));
  });

  test('ask for a GPU of the smallest type that has the memory', () => {
    assert.ok(sbatchArguments(spec({ gpuIds: [0] }), settings, []).includes('--gres=gpu:l4:1'));
    assert.ok(sbatchArguments(spec({ vramMb: 24_001 }), settings, []).includes('--gres=gpu:a100:1'));
    const untyped = readSettings(SLURM_SETTINGS, { SERVICE_WORKER_SLURM_GPUS: 'gpu=16000' });
    assert.ok(sbatchArguments(spec({ vramMb: 1 }), untyped, []).includes('--gres=gpu:1'));
    assert.throws(() => sbatchArguments(spec({ vramMb: 100_000 }), settings, []), { name: 'RunFault' });
  });

  const gresOf = (constraints: Partial<JobSpec['constraints']>) =>
    sbatchArguments(spec(constraints), settings, []).find((arg) => arg.startsWith('--gres'));

  test('ask for as many whole GPUs of one type, which has the tags', () => {
    assert.equal(gresOf({ gpus: 8 }), '--gres=gpu:l4:8');
    assert.equal(gresOf({ gpus: 2, vramMb: 40_000 }), '--gres=gpu:a100:2');
    assert.equal(gresOf({ gpus: 2, gpuSelector: ['a100'] }), '--gres=gpu:a100:2');
    assert.throws(() => gresOf({ gpus: 1, vramMb: 40_000, gpuSelector: ['l4'] }), {
      name: 'RunFault',
      message: "No GPU of SERVICE_WORKER_SLURM_GPUS has 40000 MB of memory and the tag 'l4'",
    });
  });
});
