import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { promisify } from 'node:util';

const CODE = `import { loadEnvFile } from ${JSON.stringify(new URL('../../dist/settings/env-file.js', import.meta.url).href)};
  loadEnvFile();
  const { TEST_PORT, TEST_HOST, TEST_RELOAD, TEST_EMPTY } = process.env;
  process.stdout.write(JSON.stringify({ TEST_PORT, TEST_HOST, TEST_RELOAD, TEST_EMPTY }));`;

async function load(cwd: string, env: NodeJS.ProcessEnv = {}): Promise<unknown> {
  const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', CODE], {
    cwd,
    env: { PATH: process.env['PATH'], ...env },
  });
  const { stdout, stderr } = await run;
  assert.equal(stderr, '');
  return JSON.parse(stdout);
}

describe('the .env file of the working directory', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-dotenv-'));
    await writeFile(
      join(folder, '.env'),
      '# comment\nTEST_PORT=1\nTEST_HOST="a b" # why\nexport TEST_RELOAD=true\nTEST_EMPTY=\n',
    );
  });

  afterAll(() => rm(folder, { recursive: true }));

  it('adds variables that the environment lacks, and prints nothing', async () => {
    assert.deepEqual(await load(folder), {
      TEST_PORT: '1',
      TEST_HOST: 'a b',
      TEST_RELOAD: 'true',
      TEST_EMPTY: '',
    });
  });

  it('never overrides the real environment, not even an empty variable', async () => {
    const found = await load(folder, { TEST_PORT: '2', TEST_HOST: '' });
    assert.deepEqual(found, { TEST_PORT: '2', TEST_HOST: '', TEST_RELOAD: 'true', TEST_EMPTY: '' });
  });

  it('may be absent', async () => {
    assert.deepEqual(await load(tmpdir()), {});
  });

  it('is an error when it is there and cannot be read', async () => {
    await mkdir(join(folder, 'unreadable', '.env'), { recursive: true });
    await assert.rejects(load(join(folder, 'unreadable')), /EISDIR/);
  });
});
