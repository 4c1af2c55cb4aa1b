import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { appendFile, cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import {
  launch,
  PROJECT,
  whenListening,
  type ServiceProcess,
  type TestProcess,
} from '../support/service-process.js';
import { senderTo } from '../support/test-app.js';
import { openTestDatabase, type TestDatabase } from '../support/test-database.js';

const KEY = 'key-of-the-test';
const NEST = join(PROJECT, 'node_modules', '@nestjs', 'cli', 'bin', 'nest.js');

describe('the Nest CLI', () => {
  let checkout: string;

  beforeEach(async () => {
    await mkdir(join(PROJECT, '.build'), { recursive: true });
    // Inside the project, so that its packages are found from there.
    checkout = await mkdtemp(join(PROJECT, '.build', 'nest-cli-'));
    for (const name of ['nest-cli.json', 'tsconfig.json', 'package.json']) {
      await cp(join(PROJECT, name), join(checkout, name));
    }
  });

  afterEach(() => rm(checkout, { recursive: true }));

  async function build(): Promise<void> {
    const process: TestProcess = await launch(NEST, { args: ['build'], cwd: checkout });
    const { code } = await process.exited;
    assert.equal(code, 0, process.output);
  }

  it('leaves no output of a source that is gone, and the built dashboard as it is', async () => {
    await mkdir(join(checkout, 'src'));
    await mkdir(join(checkout, 'ui', 'dist'), { recursive: true });
    await writeFile(join(checkout, 'ui', 'dist', 'index.html'), '<title>Dashboard</title>');
    await writeFile(join(checkout, 'src', 'main.ts'), 'export {};\n');
    await writeFile(join(checkout, 'src', 'gone.ts'), 'export {};\n');
    await build();
    assert.ok(existsSync(join(checkout, 'dist', 'src', 'gone.js')));
    await rm(join(checkout, 'src', 'gone.ts'));
    await build();
    assert.ok(existsSync(join(checkout, 'dist', 'src', 'main.js')));
    assert.ok(!existsSync(join(checkout, 'dist', 'src', 'gone.js')));
    assert.ok(existsSync(join(checkout, 'ui', 'dist', 'index.html')));
  });

  describe('with the sources of the service', () => {
    let database: TestDatabase;

    beforeEach(async () => {
      const isSpec = /\.(?:spec|fixtures)\.ts$/;
      for (const name of ['src', 'migrations']) {
        await cp(join(PROJECT, name), join(checkout, name), {
          recursive: true,
          filter: (path) => !isSpec.test(path),
        });
      }
      database = await openTestDatabase();
    });

    afterEach(() => database.close());

    /** Starts a script on the database of the test. */
    async function startListening(script: string, args: readonly string[]): Promise<ServiceProcess> {
      const env = { DATABASE_URL: database.url, SERVICE_API_KEYS: `admin:${KEY}` };
      const started = await launch(script, { args: [...args, '--port', '0'], env, cwd: checkout });
      return whenListening(Object.assign(started, { dataDir: checkout, givenKey: KEY }));
    }

    it('starts the service by nest start, and Ctrl-C ends it in order', async () => {
      const service = await startListening(NEST, ['start', '--']);
      const { status, body } = await senderTo(service.url)('GET', '/health/live');
      assert.equal(status, 200);
      assert.ok(body);
      service.signal('SIGINT', 'group');
      await service.exited;
      assert.match(service.output, /"msg":"stopped"/);
    });

    it('restarts with --reload after a change: of a source, or without sources of the build', async () => {
      await build();
      const main = join(checkout, 'dist', 'src', 'main.js');
      const ofSources = await startListening(main, ['--reload']);
      await appendFile(join(checkout, 'src', 'main.ts'), '\nexport {};\n');
      await ofSources.untilOutput(/"stopped"[^]*listening on /);
      ofSources.signal('SIGTERM');
      assert.equal((await ofSources.exited).code, 0);

      await rm(join(checkout, 'nest-cli.json'));
      const ofBuild = await startListening(main, ['--reload']);
      await appendFile(main, '\nexport {};\n');
      await ofBuild.untilOutput(/"stopped"[^]*listening on /);
      ofBuild.signal('SIGTERM');
      assert.equal((await ofBuild.exited).code, 0);
    });
  });
});
