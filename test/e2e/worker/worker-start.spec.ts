import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import {
  launch,
  makeDataDir,
  PROJECT,
  type Outputs,
  type TestProcess,
} from '../../support/service-process.js';
import { WORKER_MAIN } from '../../support/workers/worker-process.js';

async function runWorker(
  args: readonly string[],
  options: { readonly env?: Readonly<Record<string, string>>; readonly cwd?: string } = {},
): Promise<Outputs & { readonly code: number | null }> {
  const worker = await launch(WORKER_MAIN, { ...options, args });
  const { code } = await worker.exited;
  return { code, output: worker.output, stdout: worker.stdout, stderr: worker.stderr };
}

/** The id under which the worker starts. */
async function idOf(worker: TestProcess): Promise<string> {
  const [, id = ''] = await worker.untilOutput(/"worker":"([^"]+)".*"the worker starts"/);
  return id;
}

async function kill(worker: TestProcess): Promise<void> {
  worker.signal('SIGKILL');
  await worker.exited;
}

describe('the worker at its start', () => {
  it('reads flags, then the environment, then .env, and refuses wrong settings with exit code 2', async () => {
    const cwd = await makeDataDir();
    await writeFile(
      join(cwd, '.env'),
      'SERVICE_API_KEY=a-key\nSERVICE_WORKER_TICK=file\nSERVICE_WORKER_DRAIN=file\nSERVICE_WORKER_MAX_RUNS=file\n',
    );
    const { code, stdout, stderr } = await runWorker(['--max-runs', 'flag'], {
      cwd,
      env: { SERVICE_WORKER_DRAIN: 'environment', SERVICE_WORKER_MAX_RUNS: 'environment' },
    });
    assert.equal(code, 2);
    assert.equal(stdout, '');
    assert.deepEqual(stderr.trimEnd().split('\n'), [
      'SERVICE_WORKER_TICK must be a number of seconds from 0.05 to 3600, got "file"',
      'SERVICE_WORKER_DRAIN must be a number of seconds from 0 to 86400, got "environment"',
      '--max-runs (SERVICE_WORKER_MAX_RUNS) must be an integer from 1 to 1024, got "flag"',
    ]);
  });

  it('lists its settings with --help, without an API key', async () => {
    const { code, stdout, stderr } = await runWorker(['--help']);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^Usage: npm run worker -- \[flags\]\n/);
    assert.match(stdout, /--max-runs <number>, SERVICE_WORKER_MAX_RUNS/);
    assert.equal(stderr, '');
  });

  it('refuses an unknown flag with exit code 2, also when started by npm', async () => {
    const started = [
      [process.execPath, WORKER_MAIN, '--bogus'],
      ['npm', 'run', '--silent', 'worker', '--', '--bogus'],
    ] as const;
    for (const command of started) {
      const worker = await launch(command, { cwd: PROJECT, env: { SERVICE_API_KEY: 'a-key' } });
      assert.equal((await worker.exited).code, 2, worker.output);
      assert.match(worker.stderr, /^unknown flag --bogus; --help lists the flags$/m);
    }
  });

  it('has an id of its own beside another one on the same machine, and refuses one in use', async () => {
    const state = await makeDataDir();
    const images = await makeDataDir();
    const start = (...args: string[]): Promise<TestProcess> =>
      launch(WORKER_MAIN, {
        args: ['--cpu', '1', '--ram-mb', '512', '--gpus', 'none', ...args],
        env: {
          SERVICE_URL: 'http://127.0.0.1:9',
          SERVICE_API_KEY: 'a-key',
          SERVICE_WORKER_RUNTIME: 'process',
          SERVICE_WORKER_IMAGES_DIR: images,
          SERVICE_WORKER_STATE_DIR: state,
        },
      });
    const first = await start();
    const id = await idOf(first);
    assert.match(first.output, /"resources":\{"cpuCores":1,"ramMb":512,"gpus":\[\]\}/);
    const second = await start();
    assert.equal(await idOf(second), `${id}-2`);
    const third = await start('--id', id);
    assert.equal((await third.exited).code, 2, third.output);
    assert.match(
      third.stderr,
      new RegExp(`^SERVICE_WORKER_ID: the id '${id}' is in use .* by process ${first.pid};`),
    );
    await kill(first);
    const again = await start();
    assert.equal(await idOf(again), id);
    await Promise.all([kill(again), kill(second)]);
  });

  it('does not load Nest', async () => {
    const code = `await import(${JSON.stringify(WORKER_MAIN)});`;
    const loader = `data:text/javascript,${encodeURIComponent(
      `export async function load(url, context, next) {
        if (url.includes('/node_modules/@nestjs/')) process.stderr.write('LOADED ' + url + '\\n');
        return next(url, context);
      }`,
    )}`;
    const register = `import { register } from 'node:module'; register(${JSON.stringify(loader)}); ${code}`;
    const worker = await launch([process.execPath, '--input-type=module', '-e', register]);
    assert.equal((await worker.exited).code, 2);
    assert.doesNotMatch(worker.stderr, /LOADED/);
    assert.match(worker.stderr, /^SERVICE_API_KEY must be set to /m);
  });
});
