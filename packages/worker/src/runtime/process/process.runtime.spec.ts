import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, it } from 'vitest';
import type { JsonObject } from '@longshore/common/json/json-value';
import { containerSpec, MemoryLog, readToEnd, textsOf } from '../../testing/container-spec.js';
import { processStamp } from './process-table.js';
import { ProcessRuntime } from './process.runtime.js';
import { RunFolders } from './run-folders.js';
import { workerEnvironment, type RunningContainer } from '../runtime.js';
import { parseOutputs } from '../outputs.js';

const NEVER = new AbortController().signal;
/** Needs /proc. */
const onLinux = it.runIf(process.platform === 'linux');

const root = mkdtempSync(join(tmpdir(), 'longshore-process-'));
const imagesDir = join(root, 'images');
const folders = new RunFolders('w-1', root);
mkdirSync(imagesDir);
afterAll(() => rmSync(root, { recursive: true, force: true }));

function runtime(dir = imagesDir): ProcessRuntime {
  const env = { ...process.env, SERVICE_API_KEY: 'secret', LANG: 'C', TZ: 'UTC' };
  const own = new RunFolders('w-1', root);
  return new ProcessRuntime({ imagesDir: dir, folders: own, log: new MemoryLog(), env });
}

function image(name: string, script: string): string {
  mkdirSync(join(imagesDir, name), { recursive: true });
  const program = join(imagesDir, name, 'program');
  writeFileSync(program, `#!/bin/sh\n${script}\n`);
  chmodSync(program, 0o755);
  return `registry.example/team/${name}:latest`;
}

describe('example images as processes', () => {
  const counts = { words: 8, lines: 2, characters: 34 };
  for (const [title, text, expected] of [
    ['words, lines and characters', 'Hello wörld,\n"two"\tthree 😀 éx y 日本', counts],
    ['nothing in an empty text', '', { words: 0, lines: 0, characters: 0 }],
    ['a last line with its end once', 'a\nb\n', { words: 2, lines: 2, characters: 4 }],
    ['empty lines', '\n\n', { words: 0, lines: 2, characters: 2 }],
    ['escapes as the characters they mean', '\\n "x" \u0001\u007f', { words: 3, lines: 1, characters: 9 }],
  ] as const) {
    it(`word-count counts ${title}`, async () => {
      const { outputs, exit } = await run('word-count', {
        before: { text: 'not this' },
        text,
        after: [{ text: 'nor this' }],
      });
      assert.equal(exit.exitCode, 0);
      assert.deepEqual(outputs, expected);
    });
  }

  it('word-count takes a text of a megabyte', async () => {
    const { outputs } = await run('word-count', { text: 'lorem ipsum dolor\n'.repeat(60_000) });
    assert.deepEqual(outputs, { words: 180_000, lines: 60_000, characters: 1_080_000 });
  });

  it('word-count fails without a text', async () => {
    const wrong: JsonObject[] = [{}, { text: 5 }, { other: 'text' }, { nested: { text: 'x' } }];
    for (const inputs of wrong) {
      const { exit, lines } = await run('word-count', inputs);
      assert.equal(exit.exitCode, 2);
      assert.deepEqual(textsOf(lines, 'stderr'), ['inputs.text must be a string']);
    }
  });

  it('progress reports each step and ends with 100', async () => {
    const { outputs, exit, lines } = await run('progress', { seconds: 0.3, steps: 3 });
    assert.equal(exit.exitCode, 0);
    const events = textsOf(lines, 'stdout').filter((text) => text.startsWith('{'));
    assert.deepEqual(
      events.map((text): unknown => JSON.parse(text)),
      [33, 66, 100].map((msg) => ({ type: 'PROGRESS', msg })),
    );
    assert.deepEqual(outputs, { steps: 3 });
  });

  it('progress takes 10 steps unless told otherwise', async () => {
    assert.deepEqual((await run('progress', { seconds: 0 })).outputs, { steps: 10 });
  });

  it('fail prints to both streams and ends with the code it was given', async () => {
    const { exit, lines } = await run('fail', { exit_code: 42, message: 'a "quoted"\nmessage \\ 100 %s' });
    assert.equal(exit.exitCode, 42);
    assert.deepEqual(textsOf(lines, 'stdout'), ['starting', 'ending with exit code 42']);
    assert.deepEqual(textsOf(lines, 'stderr').slice(1), ['error: a "quoted"', 'message \\ 100 %s']);
    assert.equal((await run('fail', {})).exit.exitCode, 1);
  });
});

describe('process runtime', () => {
  it('finds an image by the last segment of its reference, else lists the images', async () => {
    image('present', 'true');
    mkdirSync(join(imagesDir, 'empty'), { recursive: true });
    await runtime().pull('localhost:5000/a/b/present:v1', NEVER);
    await assert.rejects(
      runtime().pull('absent', NEVER),
      /^RunFault: .*'absent' was not found: the process runtime has (?!.*empty).*present/,
    );
    await assert.rejects(runtime().pull('empty', NEVER), /not found/);
    for (const outside of ['..', 'images/..', '../images/present', '/present', 'present/']) {
      await assert.rejects(runtime().pull(outside, NEVER), /not a valid image reference/);
    }
  });

  it('says that a program is not executable, and lists only images that are', async () => {
    image('present', 'true');
    image('noexec', 'true');
    chmodSync(join(imagesDir, 'noexec', 'program'), 0o644);
    await assert.rejects(runtime().pull('ds/noexec', NEVER), {
      name: 'RunFault',
      message: "Image 'ds/noexec' cannot be run: 'noexec/program' is not executable: chmod +x",
    });
    await assert.rejects(
      runtime().pull('absent', NEVER),
      /'absent' was not found: the process runtime has (?!.*noexec).*present/,
    );
  });

  it("passes a program its folder and nothing of the worker's environment", async () => {
    const spec = containerSpec(image('environment', 'pwd -P; env | sort'));
    const container = await runtime().start(spec);
    const { lines } = await readToEnd(container);
    const [pwd = '', ...env] = textsOf(lines, 'stdout');
    assert.equal(dirname(pwd), realpathSync(folders.root));
    const given = env.filter((entry) => !/^(?:HOME|LANG|PATH|TZ|(?:OLD)?PWD|SHLVL|_)=/.test(entry));
    const ofWorker = {
      ...workerEnvironment(spec, spec.limits, join(folders.root, basename(pwd))),
      CUDA_DEVICE_ORDER: 'PCI_BUS_ID',
      CUDA_VISIBLE_DEVICES: '',
    };
    const entries = Object.entries(ofWorker).map((entry) => entry.join('='));
    assert.deepEqual(given.toSorted(), entries.toSorted());
    for (const name of ['HOME', 'LANG', 'PATH', 'TZ']) assert.match(env.join('\n'), RegExp(`^${name}=`, 'm'));
    assert.ok(!env.join('\n').includes('secret'));
    await container.remove();
    assert.equal(existsSync(pwd), false);
  });

  it('gives the program the environment, the arguments and the GPUs of the run', async () => {
    const script = 'echo "$GREETING:$PATH:$SERVICE_INPUT_PATH"; echo "$#:$1:$CUDA_VISIBLE_DEVICES"';
    const spec = containerSpec(image('arguments', script), {}, { gpuIds: [2, 3] });
    const env = { GREETING: 'hello', SERVICE_INPUT_PATH: '/etc/passwd', CUDA_VISIBLE_DEVICES: '0' };
    const args = ['a b', ''];
    const { lines } = await readToEnd(await runtime().start({ ...spec, env, args }));
    const [first = '', second] = textsOf(lines, 'stdout');
    assert.match(first, /^hello:\/.*:.*\/input\.json$/);
    assert.equal(second, '2:a b:2,3');
  });

  it('executes the command of the run instead of the program', async () => {
    const spec = containerSpec(image('replaced', 'echo of the image'));
    const command = ['/bin/sh', '-c', 'echo "$0 $1"'];
    const { lines } = await readToEnd(await runtime().start({ ...spec, command, args: ['of', 'the run'] }));
    assert.deepEqual(textsOf(lines, 'stdout'), ['of the run']);
  });

  it('fails the run whose command or environment no machine could start', async () => {
    const spec = containerSpec(image('unstartable', 'true'));
    const huge = { BIG: 'x'.repeat(2 ** 20) };
    await assert.rejects(runtime().start({ ...spec, env: huge }), /^RunFault: .* \(E2BIG\)/);
    await assert.rejects(
      runtime().start({ ...spec, command: ['no-such-command'] }),
      /^RunFault: .* \(ENOENT\)/,
    );
  });

  it('reports exit codes and signals', async () => {
    assert.deepEqual(await (await start('code', 'exit 77')).exit, { exitCode: 77, outOfMemory: false });
    assert.deepEqual(await (await start('signal', 'kill -KILL $$')).exit, {
      exitCode: 137,
      outOfMemory: false,
    });
  });

  it('reports a program that cannot be started', async () => {
    const spec = containerSpec(image('broken', 'true'));
    writeFileSync(join(imagesDir, 'broken', 'program'), '#!/no/such/interpreter\n');
    await assert.rejects(runtime().start(spec), /^RunFault: .*could not be started \(ENOENT\)/);
  });

  it('stops the process group of a program that handles SIGTERM', async () => {
    const container = await start('obedient', 'sleep 600 & echo $!; wait');
    const child = Number(await firstLine(container));
    // A grace period that outlasts the test.
    await container.stop(3_600);
    assert.equal((await container.exit).exitCode, 143);
    await gone(child);
    await container.stop(1);
    await container.remove();
  });

  it('kills a program that ignores SIGTERM after the grace period', async () => {
    const container = await start('stubborn', `trap '' TERM; echo up; while :; do sleep 1; done`);
    await firstLine(container);
    await container.stop(0.2);
    assert.equal((await container.exit).exitCode, 137);
  });

  for (const [what, script, test] of [
    ['background processes', 'sleep 600 & echo $!', it],
    ['what has left the process group', `setsid -f sh -c 'echo $$; exec sleep 600' | head -n 1`, onLinux],
  ] as const) {
    test(`kills ${what} when the program ends`, async () => {
      const { lines, exit } = await readToEnd(await start('parent', script));
      assert.equal(exit.exitCode, 0);
      await gone(Number(lines[0]?.text));
    });
  }

  onLinux('ends reading although a process outside the group holds the pipe', async () => {
    const pidFile = join(root, 'escaped');
    const script = `env -i setsid sh -c 'echo $$ >${pidFile}; exec sleep 600' & until [ -s ${pidFile} ]; do sleep 0.05; done`;
    const spec = containerSpec(image('escaped', script));
    const { exit, lines } = await readToEnd(await runtime().start(spec));
    assert.deepEqual({ exit, lines }, { exit: { exitCode: 0, outOfMemory: false }, lines: [] });
    process.kill(Number(readFileSync(pidFile, 'utf8')), 'SIGKILL');
  });

  it('slows a flood of output down to the speed of the reader', async () => {
    const container = await start('flood', `yes ${'x'.repeat(99)} | head -c 20000000; echo done >&2`);
    const hasEnded = container.exit.then(() => true);
    const lines = container.lines[Symbol.asyncIterator]();
    await lines.next();
    assert.equal(await Promise.race([hasEnded, sleep(500, false)]), false, 'it did not wait for its reader');
    let count = 1;
    for (let next = await lines.next(); next.done !== true; next = await lines.next()) count += 1;
    assert.equal(count, 200_001);
  });

  it('removes the note of a process that has ended', async () => {
    const container = await start('brief', 'true');
    await container.exit;
    assert.deepEqual(readdirSync(folders.notes), []);
  });

  onLinux('kills the programs of a previous worker process, with their children', async () => {
    const leader = await abandoned('sleep 600 & echo >started; sleep 601');
    assert.equal(await runtime().removeLeftovers(), 1);
    await gone(leader);
    assert.deepEqual(readdirSync(folders.notes), []);
    assert.deepEqual(readdirSync(folders.root), ['.notes']);
    assert.equal(await runtime().removeLeftovers(), 0);
  });

  onLinux('kills the rest of a group whose leader has ended', async () => {
    const leader = await abandoned('sleep 600 & echo >started; exec sleep 601');
    process.kill(leader, 'SIGKILL');
    await gone(leader);
    assert.equal(await runtime().removeLeftovers(), 1);
  });

  it('keeps a process that reuses the pid of a former one', async () => {
    const stranger = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' });
    const { pid = 0 } = stranger;
    mkdirSync(folders.notes, { recursive: true });
    writeFileSync(
      join(folders.notes, `${pid}.json`),
      JSON.stringify({ pid, stamp: 'another boot:1', mark: 'X=1' }),
    );
    writeFileSync(join(folders.notes, '1.json'), JSON.stringify({ pid: 1, stamp: null, mark: 'X=1' }));
    writeFileSync(join(folders.notes, '99.json'), '{"pid": 9');
    assert.equal(await runtime().removeLeftovers(), 0);
    assert.notEqual(processStamp(pid), null);
    assert.deepEqual(readdirSync(folders.notes), []);
    stranger.kill('SIGKILL');
    await once(stranger, 'exit');
  });

  it('keeps its files while leftovers are searched for', async () => {
    const own = runtime();
    await own.removeLeftovers();
    const container = await own.start(
      containerSpec(image('kept', 'echo ready; read -r x <"$SERVICE_INPUT_PATH"; sleep 60')),
    );
    assert.equal(await firstLine(container), 'ready');
    const before = readdirSync(folders.root);
    assert.equal(await own.removeLeftovers(), 0);
    assert.deepEqual(readdirSync(folders.root), before);
    await container.remove();
    assert.deepEqual(readdirSync(folders.root), ['.notes']);
  });

  it('takes no notes about processes from a folder of another user', () => {
    const others = new RunFolders('others', root);
    symlinkSync(imagesDir, others.root);
    const options = { imagesDir, folders: others, log: new MemoryLog(), env: {} };
    assert.throws(() => new ProcessRuntime(options), /not a folder of this user's/);
  });
});

/** Runs an example to its end. */
async function run(name: string, inputs: JsonObject) {
  const examples = runtime(resolve('examples', 'images'));
  const spec = containerSpec(`anything/${name}:v1`, inputs);
  await examples.pull(spec.image, NEVER);
  const container = await examples.start(spec);
  const read = await readToEnd(container);
  const outputs = parseOutputs(await container.readOutputs())?.outputs;
  await container.remove();
  return { ...read, outputs };
}

async function start(name: string, script: string): Promise<RunningContainer> {
  return runtime().start(containerSpec(image(name, script)));
}

/** Starts a program from a worker that is then killed; answers the program's pid once it has made the file `started`. */
async function abandoned(script: string): Promise<number> {
  const started = join(root, 'started');
  rmSync(started, { force: true });
  const spec = containerSpec(image('abandoned', script.replace('>started', `>${started}`)));
  const module = new URL('../../../dist/runtime/process/process.runtime.js', import.meta.url).href;
  const code = `
    const { ProcessRuntime } = await import(${JSON.stringify(module)});
    const { RunFolders } = await import(${JSON.stringify(new URL('../../../dist/runtime/process/run-folders.js', import.meta.url).href)});
    const folders = new RunFolders('w-1', ${JSON.stringify(root)});
    const log = { info() {}, warn() {} };
    const runtime = new ProcessRuntime({ ...${JSON.stringify({ imagesDir, env: {} })}, folders, log });
    await runtime.start(${JSON.stringify(spec)});
    process.kill(process.pid, 'SIGKILL');`;
  const worker = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: 'inherit' });
  const [, signal] = await once(worker, 'exit');
  assert.equal(signal, 'SIGKILL');
  const [note = ''] = readdirSync(folders.notes);
  const pid = Number.parseInt(note, 10);
  assert.notEqual(processStamp(pid), null, 'the program did not outlive the worker');
  while (!existsSync(started)) await sleep(10);
  return pid;
}

/** The first line, without giving up the rest. */
async function firstLine(container: RunningContainer): Promise<string> {
  const { value } = await container.lines[Symbol.asyncIterator]().next();
  return value?.text ?? '';
}

async function gone(pid: number): Promise<void> {
  while (processStamp(pid) !== null) await sleep(10);
}
