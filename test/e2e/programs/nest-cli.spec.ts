import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { appendFile, cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { launch, PROJECT, whenListening, type TestProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { openTestDatabase } from '../../support/test-database.js';

const NEST = join(PROJECT, 'node_modules', '@nestjs', 'cli', 'bin', 'nest.js');

describe('the Nest CLI', () => {
  let checkout: string;

  beforeEach(async () => {
    await mkdir(join(PROJECT, '.build'), { recursive: true });
    // Inside the project, so that modules resolve to the project's node_modules.
    checkout = await mkdtemp(join(PROJECT, '.build', 'nest-cli-'));
    const names = [
      'nest-cli.json',
      'tsconfig.json',
      'tsconfig.base.json',
      'tsconfig.build.json',
      'package.json',
    ];
    for (const name of names) await cp(join(PROJECT, name), join(checkout, name));
    await symlink(join(PROJECT, 'packages'), join(checkout, 'packages'));
  });

  afterEach(() => rm(checkout, { recursive: true }));

  function nest(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<TestProcess> {
    return launch(NEST, { args, env, cwd: checkout });
  }

  async function build(): Promise<void> {
    const process = await nest(['build']);
    const { code } = await process.exited;
    assert.equal(code, 0, process.output);
  }

  it('leaves no output of a source that is gone, and the built dashboard as it is', async () => {
    await mkdir(join(checkout, 'src'));
    await writeFile(join(checkout, 'src', 'main.ts'), 'export {};\n');
    await writeFile(join(checkout, 'src', 'gone.ts'), 'export {};\n');
    await build();
    assert.ok(existsSync(join(checkout, 'dist', 'src', 'gone.js')));
    await rm(join(checkout, 'src', 'gone.ts'));
    await build();
    assert.ok(existsSync(join(checkout, 'dist', 'src', 'main.js')));
    assert.ok(!existsSync(join(checkout, 'dist', 'src', 'gone.js')));
    assert.ok(existsSync(join(checkout, 'packages', 'dashboard', 'dist', 'index.html')));
  });

  it('starts the service by nest start, again after a change with --watch, and Ctrl-C ends it in order', async () => {
    const isSpec = /\.(?:spec|fixtures)\.ts$/;
    for (const name of ['src', 'migrations']) {
      await cp(join(PROJECT, name), join(checkout, name), {
        recursive: true,
        filter: (path) => !isSpec.test(path),
      });
    }
    const database = await openTestDatabase();
    try {
      const started = await nest(['start', '--watch', '--', '--port', '0'], {
        DATABASE_URL: database.url,
        SERVICE_API_KEYS: 'admin:admin-key-of-the-test',
      });
      const launched = Object.assign(started, { dataDir: checkout, givenKey: 'admin-key-of-the-test' });
      const service = await whenListening(launched);
      const { status, body } = await senderTo(service.url)('GET', '/health/live');
      assert.equal(status, 200);
      assert.ok(body);
      await appendFile(join(checkout, 'src', 'main.ts'), '\nexport {};\n');
      await service.untilOutput(/listening on [^]*listening on /);
      service.signal('SIGINT', 'group');
      await service.exited;
      assert.match(service.output, /"msg":"stopped"/);
    } finally {
      await database.close();
    }
  });
});
