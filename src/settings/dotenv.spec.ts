import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { loadDotenv } from './dotenv.js';

describe('the .env file', () => {
  let folder: string;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-dotenv-'));
    await writeFile(
      join(folder, '.env'),
      '# comment\nSERVICE_PORT=1\nSERVICE_HOST="a b" # why\nexport SERVICE_RELOAD=true\nSERVICE_SCHEDULER=\n',
    );
  });

  after(() => rm(folder, { recursive: true }));

  it('adds variables that the environment lacks', () => {
    const env: NodeJS.ProcessEnv = {};
    loadDotenv(folder, env);
    assert.deepEqual(env, {
      SERVICE_PORT: '1',
      SERVICE_HOST: 'a b',
      SERVICE_RELOAD: 'true',
      SERVICE_SCHEDULER: '',
    });
  });

  it('never overrides the real environment, not even an empty variable', () => {
    const env: NodeJS.ProcessEnv = { SERVICE_PORT: '2', SERVICE_HOST: '' };
    loadDotenv(folder, env);
    assert.equal(env['SERVICE_PORT'], '2');
    assert.equal(env['SERVICE_HOST'], '');
  });

  it('may be absent', () => {
    const env: NodeJS.ProcessEnv = {};
    loadDotenv(join(folder, 'nowhere'), env);
    assert.deepEqual(env, {});
  });

  it('is read from the working directory into process.env without a warning', async () => {
    const code = `import { loadDotenv } from ${JSON.stringify(new URL('./dotenv.js', import.meta.url).href)};
      loadDotenv(); process.stdout.write(process.env.SERVICE_PORT);`;
    const { SERVICE_PORT: _, ...env } = process.env;
    const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
      cwd: folder,
      env,
    });
    const { stdout, stderr } = await run;
    assert.equal(stdout, '1');
    assert.equal(stderr, '');
  });
});
