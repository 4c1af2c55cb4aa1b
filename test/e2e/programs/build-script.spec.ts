import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { endOf, ScriptProject } from '../../support/programs/script-project.js';

const PARTS = ['libraries', 'clients', 'service', 'demo', 'dashboard'];

let project: ScriptProject;

beforeEach(async () => {
  project = await ScriptProject.create();
});
afterEach(() => project.remove());

describe('build-if-needed', () => {
  it('builds a part only when its sources, its configuration or the lock file have changed', async () => {
    assert.deepEqual(await project.build(), PARTS);
    assert.deepEqual(await project.build(), []);
    for (const [name, parts] of [
      ['src/main.ts', ['service']],
      ['src/new.ts', ['service']],
      ['src/config/settings.ts', ['service', 'demo']],
      ['tsconfig.json', ['service', 'demo']],
      ['demo/main.ts', ['demo']],
      ['packages/common/src/main.ts', ['libraries', 'clients', 'service', 'demo']],
      ['packages/client/src/main.ts', ['clients', 'demo', 'dashboard']],
      ['packages/dashboard/index.html', ['dashboard']],
      ['openapi.json', ['clients', 'demo', 'dashboard']],
      ['package-lock.json', PARTS],
    ] as const) {
      await project.append(name, '\n');
      assert.deepEqual(await project.build(), parts, name);
      assert.deepEqual(await project.build(), [], name);
    }
    await rm(project.path('src/new.ts'));
    assert.deepEqual(await project.build(), ['service'], 'a removed file');
  });

  it('builds the whole of a part whose output is missing, and all with --force', async () => {
    await project.build();
    const state = 'dist/tsconfig.build.tsbuildinfo';
    await project.write(state, 'says that dist/src/main.js is written');
    await rm(project.path('dist/src'), { recursive: true });
    assert.deepEqual(await project.build(), ['service']);
    assert.ok(!project.has(state));
    await project.write(state, 'says that dist/src/main.js is written');
    await rm(project.path('packages/dashboard/dist'), { recursive: true });
    assert.deepEqual(await project.build(), ['dashboard']);
    assert.deepEqual(await project.build(['--force']), PARTS);
    assert.ok(!project.has(state));
  });

  it('builds only the parts that are named, and the service without the types of the client', async () => {
    assert.deepEqual(await project.build(['libraries', 'service']), ['libraries', 'service']);
    assert.ok(!project.has('packages/client/src/schema.ts'));
  });

  it('builds without a demo', async () => {
    await rm(project.path('demo'), { recursive: true });
    assert.deepEqual(
      await project.build(),
      PARTS.filter((part) => part !== 'demo'),
    );
  });

  it('builds once for processes that start together', async () => {
    const runs = Array.from({ length: 4 }, () => project.run('build-if-needed.mjs'));
    for (const { code, output } of await Promise.all(runs)) assert.equal(code, 0, output);
    assert.equal((await project.calls('nest')).length, 1);
    assert.equal((await project.calls('vite')).length, 1);
  });

  it('fails with the message of the compiler, keeps what was built before, and builds again', async () => {
    await project.build();
    await project.write('src/bad.ts', 'syntax error');
    const { code, output } = await project.run('build-if-needed.mjs');
    assert.equal(code, 1);
    assert.match(output, /src\/bad\.ts: broken/);
    assert.ok(project.has('dist/src/main.js'));
    await rm(project.path('src/bad.ts'));
    assert.deepEqual(await project.build(), ['service']);
  });

  it('takes over from a build that was killed', async () => {
    const first = project.start('build-if-needed.mjs', [], { COMPILE_MS: '300' });
    await project.untilExists('nest.log');
    first.kill('SIGKILL');
    assert.ok((await project.build()).includes('service'));
  });
});

describe('npm start', () => {
  it('builds, then runs the service in the same process with the same flags', async () => {
    await project.append('src/main.ts', 'console.log("pid", process.pid, process.argv[1]);');
    const child = project.start('run.mjs', ['service', '--port', '0']);
    const { code, output } = await endOf(child);
    assert.equal(code, 0, output);
    assert.match(output, /main --port 0/);
    assert.ok(output.includes(`pid ${child.pid} ${project.path('dist/src/main.js')}`));
  });

  it('keeps the exit code of the service', async () => {
    await project.write('src/main.ts', 'process.exit(2);');
    assert.equal((await project.run('run.mjs', ['service'])).code, 2);
  });

  it('leaves signals to the service once that listens for them', async () => {
    await project.write(
      'src/main.ts',
      `import { writeFileSync } from 'node:fs';
      process.on('SIGTERM', () => setTimeout(() => { console.log('drained'); process.exit(0); }, 200));
      setInterval(() => {}, 1000);
      writeFileSync('ready', '');`,
    );
    const child = project.start('run.mjs', ['service']);
    const end = endOf(child);
    await project.untilExists('ready');
    child.kill('SIGTERM');
    child.kill('SIGTERM');
    const { code, output } = await end;
    assert.equal(code, 0);
    assert.match(output, /drained/);
  });

  it('ends with 0, and its compiler with it, when it is stopped while it builds', async () => {
    const child = project.start('run.mjs', ['service'], { COMPILE_MS: '600000' });
    const end = endOf(child);
    await project.untilExists('tsc.log');
    child.kill('SIGINT');
    assert.equal((await end).code, 0);
  });
});
