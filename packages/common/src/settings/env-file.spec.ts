import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { promisify } from 'node:util';
import { parseEnvFile } from './env-file.js';

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

const parse = (text: string | Buffer, env = {}): Record<string, string> =>
  parseEnvFile(Buffer.from(text), 'my.env', env);

describe('a file of environment variables', () => {
  for (const [content, variables] of [
    ['A=b#c', { A: 'b#c' }],
    ['A="unclosed\nB=2\n', { A: '"unclosed', B: '2' }],
    ["A='x'\nB=`y`\nC=$A ${B}", { A: "'x'", B: '`y`', C: '$A ${B}' }],
    ['A=1\n\n  # comment\n\tB= two \n', { A: '1', B: ' two ' }],
    ['A=1\r\nB=\r\n', { A: '1', B: '' }],
    ['A=x=y\nA=last', { A: 'last' }],
    ['\ufeffA=1\nB=\ufeff', { A: '1', B: '\ufeff' }],
    ['D\nA=1\nMISSING\nB=2', { D: 'of the environment', A: '1', B: '2' }],
    ['', {}],
  ] as const) {
    it(`reads ${JSON.stringify(content)} as docker run does`, () => {
      assert.deepEqual(parse(content, { D: 'of the environment' }), variables);
    });
  }

  it('is refused with the number of every wrong line, and without its text', () => {
    const content = Buffer.concat([
      Buffer.from('A=1\nexport B=secret\n=secret\nC =secret\nsecret words\nD=\0\nE='),
      Buffer.from([0xff, 0x0a]),
      Buffer.from('F=1'),
    ]);
    assert.throws(() => parse(content), {
      name: 'SettingsError',
      problems: [
        'my.env, line 2: the name of the variable has white space',
        'my.env, line 3: there is no name before =',
        'my.env, line 4: the name of the variable has white space',
        'my.env, line 5: the name of the variable has white space',
        'my.env, line 6: it has a NUL character',
        'my.env, line 7: it is not UTF-8 text',
      ],
    });
  });
});

describe('the .env file of the working directory', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-dotenv-'));
    await writeFile(
      join(folder, '.env'),
      '\ufeff# comment\nTEST_PORT=1\r\nTEST_HOST="a b" # why\n  TEST_RELOAD=true\nTEST_EMPTY=\nPATH\n',
    );
  });

  afterAll(() => rm(folder, { recursive: true }));

  it('adds variables that the environment lacks, and prints nothing', async () => {
    assert.deepEqual(await load(folder), {
      TEST_PORT: '1',
      TEST_HOST: '"a b" # why',
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

  it('is an error when it has a wrong line', async () => {
    await mkdir(join(folder, 'wrong'));
    await writeFile(join(folder, 'wrong', '.env'), 'TEST_PORT=1\nexport TEST_HOST=a\n');
    await assert.rejects(
      load(join(folder, 'wrong')),
      /\.env, line 2: the name of the variable has white space/,
    );
  });

  it('is an error when it is there and cannot be read', async () => {
    await mkdir(join(folder, 'unreadable', '.env'), { recursive: true });
    await assert.rejects(load(join(folder, 'unreadable')), /EISDIR/);
  });
});
