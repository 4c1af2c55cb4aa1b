import assert from 'node:assert/strict';
import { cp, readdir, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { engineProblem } from '@longshore/worker/runtime/docker/engine/docker-engine';
import { assertNothingLeft, demoEnvironment, startDemo } from '../../support/programs/demo-process.js';
import { ordinaryUser } from '@longshore/worker/testing/ordinary-user';
import { launch, makeDataDir, PROJECT } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

const TIME = String.raw`\d\d:\d\d:\d\d\.\d{3}`;

function line(text: string): RegExp {
  return new RegExp(`^${TIME}  ${text}`, 'm');
}

/** Asserts what a demo shows whose runs all end as they should. */
function assertShowsEverything(output: string): void {
  const url = /^ {2}API +(http:\/\/\S+)$/m.exec(output)?.[1] ?? 'none';
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.ok(output.includes(`Dashboard   ${url}/ui/\n`), output);
  assert.ok(output.includes(`Swagger UI  ${url}/docs\n`), output);
  assert.match(output, /^ +kept in \/.*\/admin-key$/m);
  assert.match(output, /^ {2}API key +ls_admin_\S+$/m);
  assert.doesNotMatch(output, /curl|next run/, 'the service is stopped');
  assert.match(output, line('word-count +STARTED'));
  assert.match(output, line('word-count +COMPLETED .*"words":6'));
  assert.match(output, line('progress +PROGRESS +50 %'));
  assert.match(output, line('progress +COMPLETED'));
  assert.match(output, line('fail +FAILED .*exit code 3'));
  assert.match(output, /^every run ended as expected$/m);
}

const engineAnswers = (await engineProblem({})) === null;

describe('demo --exit', () => {
  it('shows a run of each example, no command for the stopped service, and exits 0', async () => {
    const demo = await startDemo({ args: ['--exit'] });
    assert.deepEqual(await demo.exited, { code: 0, signal: null }, demo.output);
    assertShowsEverything(demo.stdout);
    assert.equal(demo.stderr, '');
    assert.match(demo.stdout, /as plain processes, without isolation: SERVICE_WORKER_RUNTIME says so/);
    assert.ok(!demo.stdout.includes('\u001b'), 'a pipe got control characters');
    await assertNothingLeft(demo);
  });

  it(
    'says why it runs plain processes when no engine answers and nothing names one',
    skipFor(engineAnswers && 'an engine answers at the default socket'),
    async () => {
      const demo = await startDemo({
        args: ['--exit'],
        env: { SERVICE_WORKER_RUNTIME: '', DOCKER_HOST: '', DOCKER_CONTEXT: 'default' },
      });
      assert.equal((await demo.exited).code, 0, demo.output);
      assert.match(
        demo.stdout,
        /as plain processes, without isolation: the container engine at unix:\/\/.*\/docker\.sock/,
      );
      await assertNothingLeft(demo);
    },
  );

  it('runs nothing when DOCKER_HOST names an engine that does not answer', async () => {
    const demo = await startDemo({
      args: ['--exit'],
      env: { SERVICE_WORKER_RUNTIME: '', DOCKER_HOST: 'unix:///nowhere/docker.sock' },
    });
    assert.equal((await demo.exited).code, 1, demo.output);
    assert.match(
      demo.stderr,
      /^DOCKER_HOST names a container engine, but the container engine at unix:\/\/\/nowhere\/docker\.sock cannot be used: .*SERVICE_WORKER_RUNTIME=process/,
    );
    await assertNothingLeft(demo);
  });

  it('exits 1 and says which run ended otherwise than expected', async () => {
    const imagesDir = await makeDataDir();
    const examples = join(PROJECT, 'examples', 'images');
    for (const name of await readdir(examples)) {
      await cp(join(examples, name), join(imagesDir, name), { recursive: true });
    }
    await writeFile(join(imagesDir, 'word-count', 'program'), '#!/bin/sh\necho out of order >&2\nexit 9\n');
    const demo = await startDemo({ args: ['--exit'], env: { SERVICE_WORKER_IMAGES_DIR: imagesDir } });
    assert.equal((await demo.exited).code, 1, demo.output);
    const complaints = demo.stdout.split('\n').filter((text) => text.startsWith('NOT AS EXPECTED'));
    assert.equal(complaints.length, 2, demo.output);
    assert.match(complaints[0] ?? '', /word-count: it ended FAILED instead of COMPLETED .*exit code 9/);
    assert.match(complaints[1] ?? '', /word-count: its outputs are \{\} instead of /);
    await assertNothingLeft(demo);
  });

  it('takes a free port when the wanted one is taken, and says so', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    const address: AddressInfo | string | null = other.address();
    assert.ok(address !== null && typeof address === 'object');
    try {
      const demo = await startDemo({ args: ['--exit'], env: { SERVICE_PORT: String(address.port) } });
      assert.equal((await demo.exited).code, 0, demo.output);
      assert.match(demo.stdout, new RegExp(`^port ${address.port} is taken`, 'm'));
      assert.doesNotMatch(demo.stdout, new RegExp(`http://127\\.0\\.0\\.1:${address.port}\\b`));
    } finally {
      other.close();
    }
  });

  it('works for an ordinary user', async (context) => {
    const nobody = ordinaryUser();
    if (typeof nobody === 'string') {
      context.skip(nobody);
      return;
    }
    const home = await makeDataDir(nobody);
    const demo = await startDemo({
      args: ['--exit'],
      user: nobody,
      cwd: home,
      env: { HOME: home, TMPDIR: home },
    });
    assert.equal((await demo.exited).code, 0, demo.output);
    assertShowsEverything(demo.stdout);
    await assertNothingLeft(demo);
  });

  it('refuses what it does not know with exit code 2', async () => {
    const unknown = await startDemo({ args: ['--exot'] });
    assert.equal((await unknown.exited).code, 2);
    assert.match(unknown.stderr, /--exot[^]*Usage: npm run demo/);
    const wrong = await startDemo({ env: { SERVICE_PORT: 'eighty' } });
    assert.equal((await wrong.exited).code, 2);
    assert.equal(wrong.stderr, 'SERVICE_PORT must be an integer from 0 to 65535, got "eighty"\n');
  });
});

describe('npm run demo', () => {
  it('passes --exit on and exits with its code', async () => {
    const dataDir = await makeDataDir();
    const demo = await launch(['npm', 'run', '--silent', 'demo', '--', '--exit'], {
      cwd: PROJECT,
      env: demoEnvironment(dataDir),
    });
    assert.deepEqual(await demo.exited, { code: 0, signal: null }, demo.output);
    assertShowsEverything(demo.stdout);
    await assertNothingLeft({ dataDir });
  });

  for (const [signal, target] of [
    ['SIGINT', 'group'],
    ['SIGTERM', 'process'],
  ] as const) {
    it(`exits 0 on ${signal} to ${target === 'group' ? 'the process group' : 'npm'}`, async () => {
      const dataDir = await makeDataDir();
      const demo = await launch(['npm', 'run', '--silent', 'demo'], {
        cwd: PROJECT,
        env: demoEnvironment(dataDir),
      });
      await demo.untilOutput(line('progress +PROGRESS +10 %'));
      demo.signal(signal, target);
      assert.deepEqual(await demo.exited, { code: 0, signal: null }, demo.output);
      await assertNothingLeft({ dataDir });
    });
  }
});
