import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { JobFolders, type AttemptFiles } from './job-folders.js';
import { FOLDER_UNSEEN, jobScript } from './job-script.js';

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

describe('the script of a job, with bash', { skip: !existsSync('/bin/bash') && 'no bash' }, () => {
  let base: string;
  let folders: JobFolders;

  beforeEach(async () => {
    base = mkdtempSync(join(tmpdir(), 'longshore-job-script-'));
    folders = new JobFolders(base, 'd');
    await folders.open();
    writeFileSync(join(base, 'container'), CONTAINER);
    chmodSync(join(base, 'container'), 0o755);
  });
  afterEach(() => rmSync(base, { recursive: true, force: true }));

  function create(files: Partial<AttemptFiles> = {}): Promise<boolean> {
    const given = { workerId: 'w', image: 'i', inputs: '{}', outputs: '', env: { A: HOSTILE, B: '' } };
    return folders.create(KEY, { ...given, command: ['/c', HOSTILE], args: [''], forTool: {}, ...files });
  }

  function run(jobId: string, root = folders.root): Promise<number> {
    const script = jobScript({ root, folder: 'r.1', tool: { script: join(base, 'container') } });
    return new Promise((resolve) => {
      const child = execFile(
        '/bin/bash',
        [],
        { env: { SLURM_JOB_ID: jobId, PATH: '/usr/bin:/bin' } },
        (error) => resolve(typeof error?.code === 'number' ? error.code : 0),
      );
      child.stdin?.end(script);
    });
  }

  test('hands texts of the run on as they are, and records the exit code', async () => {
    await create({ image: HOSTILE });
    assert.equal(await run('5'), 7);
    const got = readFileSync(join(folders.root, 'got'), 'utf8').split('\0');
    assert.deepEqual(got, [HOSTILE, `A=${HOSTILE}`, 'B=', '/c', HOSTILE, '', '']);
    const state = await folders.read(KEY);
    assert.deepEqual([state?.takenBy, state?.hasStarted], ['5', true]);
    assert.deepEqual(state?.exit, {
      kind: 'exited',
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

  test('finds the folder of one of several launchers, whole', async () => {
    const made = await Promise.all(['one', 'two', 'three'].map((image) => create({ image })));
    assert.equal(made.filter(Boolean).length, 1);
    assert.deepEqual(await folders.list(), [KEY]);
    await folders.remove(KEY);
    await folders.remove(KEY);
    assert.deepEqual(await folders.list(), []);
  });
});
