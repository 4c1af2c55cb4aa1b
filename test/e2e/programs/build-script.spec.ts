import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { endOf, ScriptProject } from '../../support/programs/script-project.js';

const STAMPS = ['clients.stamp', 'dashboard.stamp', 'libraries.stamp'];

describe('build-if-needed', () => {
  let project: ScriptProject;

  beforeEach(async () => {
    project = await ScriptProject.create();
  });

  afterEach(() => project.remove());

  async function counts(): Promise<{ service: number; dashboard: number }> {
    const { service, dashboard } = await project.builds();
    return { service, dashboard };
  }

  it('builds only when a source, the configuration or the lock file has changed', async () => {
    await project.run('build-if-needed.mjs');
    await project.run('build-if-needed.mjs');
    assert.equal((await project.builds()).service, 1);
    for (const [name, rebuilt] of [
      ['src/main.ts', ['service', 'tests']],
      ['src/new.ts', ['service', 'tests']],
      ['tsconfig.json', ['service', 'tests']],
      ['test/support/test-cluster.ts', ['tests']],
      ['packages/client/src/client.ts', ['clients', 'dashboard', 'tests']],
      ['packages/dashboard/index.html', ['dashboard', 'tests']],
      ['openapi.json', ['clients', 'dashboard', 'tests']],
      ['package-lock.json', ['libraries', 'clients', 'service', 'dashboard', 'tests']],
    ] as const) {
      const before = await project.builds();
      await project.append(name, '\n'.repeat(name === 'openapi.json' ? 2 : 1));
      await project.run('build-if-needed.mjs');
      await project.run('build-if-needed.mjs');
      const { service, dashboard, tsc } = await project.builds();
      const calls = tsc.slice(before.tsc.length);
      assert.deepEqual(
        {
          libraries: calls.filter((call) => call.startsWith('-b packages/common')).length,
          clients: calls.filter((call) => call.startsWith('-b packages/client')).length,
          service: service - before.service,
          dashboard: dashboard - before.dashboard,
          tests: calls.filter((call) => call.startsWith('-p .build/tsconfig.test.json')).length,
        },
        Object.assign(
          { libraries: 0, clients: 0, service: 0, dashboard: 0, tests: 0 },
          Object.fromEntries(rebuilt.map((part) => [part, 1])),
        ),
        name,
      );
    }
    await rm(project.path('src/new.ts'));
    const before = (await project.builds()).service;
    await project.run('build-if-needed.mjs');
    assert.equal((await project.builds()).service, before + 1, 'removed file');
    assert.ok(!project.has('dist/src/new.js'));
  });

  it('builds a part again when its output is missing', async () => {
    await project.run('build-if-needed.mjs');
    await rm(project.path('packages/dashboard/dist'), { recursive: true });
    await project.run('build-if-needed.mjs');
    assert.deepEqual(await counts(), { service: 1, dashboard: 2 });
    await rm(project.path('dist'), { recursive: true });
    await project.run('build-if-needed.mjs');
    assert.deepEqual(await counts(), { service: 2, dashboard: 2 });
    assert.ok(project.has('packages/dashboard/dist/index.html') && project.has('dist/src/main.js'));
  });

  it('builds only the parts that are named, and without the types of the client the service', async () => {
    await project.write('test/support/test-cluster.ts', 'syntax error');
    const { code, output } = await project.run('build-if-needed.mjs', ['libraries', 'service']);
    assert.equal(code, 0, output);
    assert.deepEqual(await counts(), { service: 1, dashboard: 0 });
    assert.ok(!project.has('packages/client/src/schema.ts'));
    assert.equal((await project.run('build-if-needed.mjs')).code, 1);
  });

  it('builds without a folder for tests', async () => {
    await rm(project.path('test'), { recursive: true });
    assert.equal((await project.run('build-if-needed.mjs')).code, 0);
    assert.ok(project.has('dist/src/main.js') && project.has('packages/client/src/schema.ts'));
  });

  it('builds regardless with --force', async () => {
    await project.run('build-if-needed.mjs');
    await project.run('build-if-needed.mjs', ['--force']);
    assert.deepEqual(await counts(), { service: 2, dashboard: 2 });
  });

  it('builds once for processes that start together', async () => {
    const runs = Array.from({ length: 4 }, () =>
      project.run('build-if-needed.mjs', [], { COMPILE_MS: '500' }),
    );
    for (const { code } of await Promise.all(runs)) {
      assert.equal(code, 0);
    }
    assert.deepEqual(await counts(), { service: 1, dashboard: 1 });
    assert.deepEqual(await project.list('.build'), STAMPS);
  });

  it('fails with the message of the compiler and keeps what was built before', async () => {
    await project.run('build-if-needed.mjs');
    await project.write('src/bad.ts', 'syntax error');
    const { code, output } = await project.run('build-if-needed.mjs');
    assert.equal(code, 1);
    assert.match(output, /src\/bad\.ts: broken/);
    assert.ok(project.has('dist/src/main.js'));
    assert.ok(!project.has('dist.next'));
  });

  it('bundles the dashboard, and fails with the message of the bundler', async () => {
    await project.run('build-if-needed.mjs');
    assert.equal(await project.read('packages/dashboard/dist/index.html'), '<title>Dashboard</title>');
    await project.write('packages/dashboard/bad.tsx', 'syntax error');
    const { code, output } = await project.run('build-if-needed.mjs', [], { COMPILE_MS: '60000' });
    assert.equal(code, 1);
    assert.match(output, /bad\.tsx: broken/);
    assert.ok(
      project.has('packages/dashboard/dist/index.html') &&
        !project.has('packages/dashboard/dist.next') &&
        !project.has('dist.next'),
    );
  });

  it('takes over from a build that was killed', async () => {
    const first = project.start('build-if-needed.mjs', [], { COMPILE_MS: '300' });
    await project.untilExists('compiled.log');
    first.kill('SIGKILL');
    const { code } = await project.run('build-if-needed.mjs');
    assert.equal(code, 0);
    assert.ok(project.has('dist/src/main.js'));
  });

  it('stops its compiler and cleans up on SIGTERM', async () => {
    const first = project.start('build-if-needed.mjs', [], { COMPILE_MS: '60000' });
    const end = endOf(first);
    await project.untilExists('compiled.log');
    first.kill('SIGTERM');
    assert.equal((await end).code, 1);
    assert.deepEqual(await project.list('.build'), ['clients.stamp', 'libraries.stamp']);
    assert.ok(!project.has('dist.next'));
  });
});

describe('npm start', () => {
  let project: ScriptProject;

  beforeEach(async () => {
    project = await ScriptProject.create();
  });

  afterEach(() => project.remove());

  it('builds, then runs the service in the same process with the same flags', async () => {
    await project.append('src/main.ts', 'console.log("pid", process.pid, process.argv[1]);');
    const child = project.start('start.mjs', ['--port', '0']);
    const { code, output } = await endOf(child);
    assert.equal(code, 0);
    assert.match(output, /main --port 0/);
    assert.ok(output.includes(`pid ${child.pid} ${project.path('dist/src/main.js')}`));
  });

  it('keeps the exit code of the service', async () => {
    await project.write('src/main.ts', 'process.exit(2);');
    assert.equal((await project.run('start.mjs')).code, 2);
  });

  it('leaves signals to the service once that listens for them', async () => {
    await project.write(
      'src/main.ts',
      `import { writeFileSync } from 'node:fs';
      process.on('SIGTERM', () => setTimeout(() => { console.log('drained'); process.exit(0); }, 200));
      await new Promise((resolve) => setTimeout(resolve, 100));
      setInterval(() => {}, 1000);
      writeFileSync('ready', '');`,
    );
    const child = project.start('start.mjs');
    const end = endOf(child);
    await project.untilExists('ready');
    child.kill('SIGTERM');
    child.kill('SIGTERM');
    const { code, output } = await end;
    assert.equal(code, 0);
    assert.match(output, /drained/);
  });

  it('ends with 0 when it is stopped while it builds', async () => {
    const child = project.start('start.mjs', [], { COMPILE_MS: '60000' });
    const end = endOf(child);
    await project.untilExists('compiled.log');
    child.kill('SIGINT');
    assert.equal((await end).code, 0);
  });
});
