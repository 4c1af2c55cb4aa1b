import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { endOf, ScriptProject } from '../support/script-project.js';

describe('build-if-needed', () => {
  let project: ScriptProject;

  beforeEach(async () => {
    project = await ScriptProject.create();
  });

  afterEach(() => project.remove());

  it('builds only when a source, the configuration or the lock file has changed', async () => {
    await project.run('build-if-needed.mjs');
    await project.run('build-if-needed.mjs');
    assert.equal(await project.compilations(), 1);
    for (const name of [
      'src/main.ts',
      'src/new.ts',
      'test/support/test-cluster.ts',
      'ui/index.html',
      'tsconfig.json',
      'package-lock.json',
    ]) {
      const before = await project.compilations();
      await project.append(name, '\n');
      await project.run('build-if-needed.mjs');
      await project.run('build-if-needed.mjs');
      assert.equal(await project.compilations(), before + 1, name);
    }
    await rm(project.path('src/new.ts'));
    const before = await project.compilations();
    await project.run('build-if-needed.mjs');
    assert.equal(await project.compilations(), before + 1, 'removed file');
    assert.ok(!project.has('dist/src/new.js'));
  });

  it('builds again when one of its two outputs is missing', async () => {
    for (const [runs, output] of [
      [1, 'dist'],
      [2, 'ui/dist'],
    ] as const) {
      await project.run('build-if-needed.mjs');
      assert.equal(await project.compilations(), runs);
      await rm(project.path(output), { recursive: true });
    }
    await project.run('build-if-needed.mjs');
    assert.equal(await project.compilations(), 3);
    assert.ok(project.has('ui/dist/index.html') && project.has('dist/src/main.js'));
  });

  it('builds regardless with --force', async () => {
    await project.run('build-if-needed.mjs');
    await project.run('build-if-needed.mjs', ['--force']);
    assert.equal(await project.compilations(), 2);
  });

  it('builds once for processes that start together', async () => {
    const runs = Array.from({ length: 4 }, () =>
      project.run('build-if-needed.mjs', [], { COMPILE_MS: '500' }),
    );
    for (const { code } of await Promise.all(runs)) {
      assert.equal(code, 0);
    }
    assert.equal(await project.compilations(), 1);
    assert.deepEqual(await project.list('.build'), []);
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
    assert.equal(await project.read('ui/dist/index.html'), '<title>Dashboard</title>');
    await project.write('ui/bad.tsx', 'syntax error');
    const { code, output } = await project.run('build-if-needed.mjs', [], { COMPILE_MS: '60000' });
    assert.equal(code, 1);
    assert.match(output, /ui\/bad\.tsx: broken/);
    assert.ok(project.has('ui/dist/index.html') && !project.has('ui/dist.next') && !project.has('dist.next'));
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
    assert.deepEqual(await project.list('.build'), []);
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
