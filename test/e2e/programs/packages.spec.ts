import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { OutsidePackage } from '../../support/programs/outside-package.js';
import {
  launch,
  makeDataDir,
  PROJECT,
  startService,
  type Exit,
  type Outputs,
  type ServiceProcess,
  type TestProcess,
} from '../../support/service-process.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

// Without the launchers: a worker loads them only for `kubernetes` and `slurm`.
const NAMES = ['client', 'common', 'worker', 'cli'].map((name) => `@longshore/${name}`);

/** Creates a run and prints its id. */
const PROGRAM = `
import { createLongshoreClient, type Schemas } from '@longshore/client';

const api = createLongshoreClient({ baseUrl: process.env['SERVICE_URL'] ?? '', apiKey: process.env['KEY'] ?? '' });
const body: Schemas['OpRunCreate'] = { image: 'word-count', inputs: { text: 'to be or not to be' } };
const { data: run, error } = await api.POST('/runs', { body });
if (run === undefined) throw new Error(error.detail);
console.log(run.id);
`;

const TSCONFIG = {
  compilerOptions: { module: 'nodenext', target: 'ES2023', strict: true, types: ['node'] },
};

describe('the packed client, worker and command line in an empty folder', () => {
  let outside: OutsidePackage;
  let database: TestDatabase;
  let service: ServiceProcess;
  let worker: TestProcess | undefined;
  let env: Record<string, string>;
  let id: string;

  beforeAll(async () => {
    outside = await OutsidePackage.install(NAMES);
    database = await openTestDatabase();
    service = await startService({ env: { DATABASE_URL: database.url } });
    const key = service.adminKey;
    env = { SERVICE_URL: service.url, SERVICE_API_KEY: key, KEY: key, XDG_CONFIG_HOME: outside.folder };
  });
  afterAll(async () => {
    worker?.signal('SIGTERM');
    await worker?.exited;
    await service.stop();
    await database.close();
    await outside.remove();
  });

  /** Runs an installed command to its end. */
  async function command(name: string, ...args: readonly string[]): Promise<Exit & Outputs> {
    const started = await launch([outside.command(name), ...args], { cwd: outside.folder, env });
    const { code, signal } = await started.exited;
    const { output, stdout, stderr } = started;
    return { code, signal, output, stdout, stderr };
  }

  test('hold compiled files, their types and a README, and no test', async () => {
    for (const name of NAMES) {
      const files = await outside.filesOf(name);
      assert.ok(files.includes('README.md'), name);
      assert.ok(
        files.some((path) => path.endsWith('.d.ts')),
        name,
      );
      assert.deepEqual(
        files.filter(
          (path) => !/^(?:README\.md|package\.json|bin\/[\w-]+\.mjs|dist\/.*\.(?:js|d\.ts))$/.test(path),
        ),
        [],
      );
      assert.deepEqual(
        files.filter((path) => /\.spec\.|(?:^|\/)testing\//.test(path)),
        [],
      );
      const { exports } = JSON.parse(await readFile(outside.installed(name, 'package.json'), 'utf8'));
      assert.ok('./package.json' in exports, name);
    }
  });

  test('compile a TypeScript program that creates a run', async () => {
    await writeFile(join(outside.folder, 'package.json'), '{ "type": "module" }');
    await writeFile(join(outside.folder, 'tsconfig.json'), JSON.stringify(TSCONFIG));
    await writeFile(join(outside.folder, 'create.ts'), PROGRAM);
    await outside.build();
    const created = await launch(join(outside.folder, 'create.js'), { env });
    assert.equal((await created.exited).code, 0, created.output);
    id = created.stdout.trim();
    assert.match(id, /^[0-9a-f-]{36}$/);
    await writeFile(join(outside.folder, 'create.ts'), PROGRAM.replace('inputs:', 'input:'));
    await assert.rejects(outside.build('--noEmit'), /'input' does not exist in type/);
  });

  test('execute the run by longshore-worker, and show it by longshore', async () => {
    worker = await launch([outside.command('longshore-worker'), '--runtime', 'process', '--tick', '0.2'], {
      cwd: outside.folder,
      env: {
        ...env,
        SERVICE_WORKER_ID: 'outside',
        SERVICE_WORKER_STATE_DIR: await makeDataDir(),
        SERVICE_WORKER_IMAGES_DIR: join(PROJECT, 'examples', 'images'),
        TMPDIR: await makeDataDir(),
      },
    });
    const watched = await command('longshore', 'run', 'watch', id);
    assert.equal(watched.code, 0, watched.output + worker.output);
    const shown = await command('longshore', 'run', 'get', id, '--json');
    const { state, outputs } = JSON.parse(shown.stdout);
    assert.deepEqual([state, outputs.words], ['COMPLETED', 6]);
    const list = await command('longshore', 'run', 'list');
    assert.match(list.stdout, new RegExp(`${id} +COMPLETED`));
  });

  test('start the worker by longshore, too', async () => {
    const help = await command('longshore', 'worker', '--help');
    assert.equal(help.code, 0, help.output);
    assert.match(help.stdout, /--max-runs/);
  });

  test('say what is missing when longshore is asked for the service, which is not installed', async () => {
    const { code, stderr } = await command('longshore', 'serve');
    assert.equal(code, 2);
    assert.match(stderr, /^longshore: .*package longshore/);
  });
});
