import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { endOf, ScriptProject } from '../../support/programs/script-project.js';

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // A zombie has ended; who has to fetch its exit code is not our business.
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch (error) {
    // Without /proc the signal alone has to answer.
    return (
      !(error instanceof Error && 'code' in error && error.code === 'ESRCH') && !existsSync('/proc/self')
    );
  }
}

/** Source of a test that takes a moment and notes in the file `order` when it begins and ends. */
function slowTest(name: string): string {
  return `import { appendFileSync } from 'node:fs';
    it('${name}', (_, done) => {
      appendFileSync('order', 'begin-${name} ');
      setTimeout(() => { appendFileSync('order', 'end-${name} '); done(); }, 200);
    });`;
}

describe('npm test', () => {
  let project: ScriptProject;

  beforeEach(async () => {
    project = await ScriptProject.create();
  });

  afterEach(() => project.remove());

  it('counts tests and not suites, across files, and ends with one plain line', async () => {
    await project.spec(
      'src/a.spec.ts',
      `describe('s', () => { it('1', () => {}); describe('t', () => { it('2', () => {}); }); });`,
    );
    await project.spec(
      'src/b.spec.ts',
      `it('parent', async (t) => { await t.test('3', () => {}); await t.test('4', () => {}); });`,
    );
    const { code, lastLine, output } = await project.run('test.mjs');
    assert.equal(lastLine, '4 passed, 0 failed, 0 skipped (tier: fast)');
    assert.equal(code, 0);
    assert.equal(output.match(/passed, 0 failed, 0 skipped \(tier/g)?.length, 1);
  });

  it('shows what passing tests tell where --notes asks for it', async () => {
    await project.spec('src/a.spec.ts', `it('1', (t) => t.diagnostic('17.8 s of silence'));`);
    assert.doesNotMatch((await project.run('test.mjs')).output, /silence/);
    assert.match((await project.run('test.mjs', ['--notes'])).output, /^ {2}17\.8 s of silence$/m);
  });

  it('fails, and shows name, reason and output of what failed', async () => {
    await project.spec(
      'src/a.spec.ts',
      `describe('s', () => { it('good', () => {}); it('bad', () => { console.log('a clue'); assert.equal(1, 2, 'one is not two'); }); });`,
    );
    const { code, lastLine, output } = await project.run('test.mjs');
    assert.equal(code, 1);
    assert.equal(lastLine, '1 passed, 1 failed, 0 skipped (tier: fast)');
    assert.match(output, /FAILED s > bad\n.*one is not two/);
    assert.match(output, /a clue/);
  });

  it('names skipped tests and their reasons', async () => {
    await project.spec(
      'src/a.spec.ts',
      `it('yes', () => {}); it('no', { skip: 'no engine here' }, () => {}); it('later', { todo: true }, () => {});`,
    );
    const { code, lastLine, output } = await project.run('test.mjs', [], { CI: 'true' });
    assert.equal(lastLine, '1 passed, 0 failed, 2 skipped (tier: fast)');
    assert.equal(code, 0);
    assert.match(output, /^skipped: no \(no engine here\)$/m);
  });

  for (const [what, body, reason] of [
    [
      'exits in the middle',
      `it('1', () => {}); it('2', () => process.exit(0));`,
      /a\.spec\.js|holds no test/,
    ],
    ['is killed', `it('1', () => process.kill(process.pid, 'SIGKILL'));`, /was ended by SIGKILL/],
    ['cannot be loaded', `throw new Error('at load');`, /at load/],
    ['holds no test', ``, /holds no test/],
    [
      'fails after its tests',
      `it('1', () => { setTimeout(() => { throw new Error('late'); }, 20); }); it('2', (_, done) => setTimeout(done, 200));`,
      /late/,
    ],
    [
      'fails in a hook',
      `describe('s', () => { before(() => { throw new Error('no hook'); }); it('1', () => {}); });`,
      /no hook/,
    ],
    ['does not end', `it('1', () => {}); setInterval(() => {}, 1000);`, /did not end within 2 s/],
  ] as const) {
    it(`counts a file as failed that ${what}, names it, and goes on with the others`, async () => {
      await project.spec('src/a.spec.ts', body);
      await project.spec('src/z.spec.ts', `it('fine', () => {});`);
      const { code, lastLine, output } = await project.run('test.mjs', [], { TEST_FILE_TIMEOUT_MS: '2000' });
      assert.equal(code, 1);
      assert.match(lastLine, /^\d passed, [1-9] failed, 0 skipped /);
      assert.match(output, /^FAIL dist\/src\/a\.spec\.js/m);
      assert.match(output, /^ok {3}dist\/src\/z\.spec\.js/m);
      assert.match(output, reason);
    });
  }

  it('fails when nothing ran', async () => {
    await project.spec('src/a.spec.ts', `it.skip('1', () => {});`);
    const skipped = await project.run('test.mjs');
    assert.deepEqual([skipped.code, skipped.lastLine], [1, '0 passed, 0 failed, 1 skipped (tier: fast)']);
    for (const argv of [['no-such-file'], ['--only', 'e2e'], ['--only', 'nonsense'], ['--nonsense']]) {
      const { code, output } = await project.run('test.mjs', argv);
      assert.equal(code, 1, argv.join(' '));
      assert.match(output, /^0 passed, 0 failed, 0 skipped \(tier: fast\)$/m);
    }
  });

  it('fails when the build fails', async () => {
    await project.write('src/bad.ts', 'syntax error');
    const { code, output } = await project.run('test.mjs');
    assert.equal(code, 1);
    assert.match(output, /bad\.ts: broken/);
  });

  it('runs only the files and kinds asked for, e2e files last and one at a time', async () => {
    await project.spec('test/e2e/a.spec.ts', slowTest('e1'));
    await project.spec('test/e2e/b.spec.ts', slowTest('e2'));
    await project.spec('test/api/c.spec.ts', slowTest('api'));
    await project.spec('src/d.spec.ts', slowTest('unit'));
    const whole = await project.run('test.mjs', ['--tier', 'all']);
    assert.equal(whole.lastLine, '4 passed, 0 failed, 0 skipped (tier: all)');
    const order = await project.read('order');
    assert.match(order, /begin-e1 end-e1 begin-e2 end-e2 $/);
    assert.equal(
      (await project.run('test.mjs', ['--only', 'api', '--only', 'unit'])).lastLine,
      '2 passed, 0 failed, 0 skipped (tier: fast)',
    );
    assert.equal(
      (await project.run('test.mjs', ['e2e/b', 'src/d.spec.ts'])).lastLine,
      '2 passed, 0 failed, 0 skipped (tier: fast)',
    );
  });

  it('has tiers: the rest of "all" is what "fast" leaves out, and specs that search deeper', async () => {
    await project.spec('src/a.spec.ts', `it('unit', () => {});`);
    await project.spec('test/e2e/smoke.spec.ts', `it('smoke', () => {});`);
    await project.spec('test/e2e/b.spec.ts', `it('e2e', () => {});`);
    await project.write('test/support/depth.ts', 'export const tier = process.env.LONGSHORE_TEST_TIER;');
    await project.spec(
      'test/api/c.spec.ts',
      `import { tier } from '../support/depth.js';
      it('deep', () => assert.equal(tier, process.env.EXPECTED_TIER));`,
    );
    for (const [argv, tier, tests, files] of [
      [[], 'fast', 3, ['src/a', 'test/api/c', 'test/e2e/smoke']],
      [['--tier', 'all'], 'all', 4, ['src/a', 'test/api/c', 'test/e2e/b', 'test/e2e/smoke']],
      [['--tier', 'all', '--rest'], 'all', 2, ['test/api/c', 'test/e2e/b']],
      [['--tier', 'soak'], 'soak', 1, ['test/api/c']],
    ] as const) {
      const { lastLine, output } = await project.run('test.mjs', argv, { EXPECTED_TIER: tier });
      assert.equal(lastLine, `${tests} passed, 0 failed, 0 skipped (tier: ${tier})`, output);
      const ran = [...output.matchAll(/^ok +dist\/(.*)\.spec\.js/gm)].map(([, name]) => name);
      assert.deepEqual(
        ran.toSorted((left = '', right = '') => left.localeCompare(right)),
        files,
      );
    }
  });

  it('runs unit specs in one process, but specs with hooks of the whole file in their own', async () => {
    const pid = `import { appendFileSync } from 'node:fs'; it('1', () => appendFileSync('pids', process.pid + ' '));`;
    await project.spec('src/a.spec.ts', pid);
    await project.spec('src/b.spec.ts', pid);
    await project.spec('src/c.spec.ts', `${pid}\nbefore(() => {});`);
    assert.equal((await project.run('test.mjs')).code, 0);
    const [a, b, c] = (await project.read('pids')).trim().split(' ');
    assert.equal(new Set([a, b, c]).size, 2);
  });

  it('runs the tests of a name', async () => {
    await project.spec('src/a.spec.ts', `it('one', () => {}); it('two', () => assert.fail());`);
    await project.spec('src/b.spec.ts', `it('three', () => assert.fail());`);
    const { lastLine, output } = await project.run('test.mjs', ['--name', 'one']);
    assert.equal(lastLine, '1 passed, 0 failed, 0 skipped (tier: fast)', output);
    assert.equal((await project.run('test.mjs', ['--name', 'four'])).code, 1);
  });

  it('prints the coverage of the service', async () => {
    await project.write(
      'src/half.ts',
      'export const half = (yes) => {\n  if (yes) return 1;\n  return 2;\n};\n',
    );
    await project.spec('src/half.spec.ts', `import { half } from './half.js'; it('1', () => half(true));`);
    const { code, output } = await project.run('test.mjs', ['--coverage']);
    assert.equal(code, 0, output);
    assert.match(output, /^ +\d+ % of lines, +\d+ % of branches +src\/half\.ts$/m);
  });

  it('waits for a debugger with --inspect', async () => {
    await project.spec('src/a.spec.ts', `it('1', () => {});`);
    const child = project.start('test.mjs', ['--inspect']);
    let output = '';
    const end = endOf(child);
    child.stdout?.on('data', (text: string) => (output += text));
    for (let tries = 0; !/Debugger listening on ws:/.test(output); tries += 1) {
      assert.ok(tries < 500, output);
      await sleep(20);
    }
    child.kill('SIGINT');
    assert.equal((await end).code, 130);
  });

  it('gives the tests a database of their own and none of the settings around, and stops it', async () => {
    await project.write('.env', 'DATABASE_URL=postgres://precious\nSERVICE_HOST=0.0.0.0\n');
    await project.spec(
      'test/integration/a.spec.ts',
      `it('1', () => {
        const { TEST_DATABASE_URL, DATABASE_URL, SERVICE_HOST, SERVICE_PORT } = process.env;
        assert.equal(TEST_DATABASE_URL, 'postgres://throw-away');
        assert.deepEqual([DATABASE_URL, SERVICE_HOST, SERVICE_PORT], ['', '', undefined]);
      });`,
    );
    const env = { DATABASE_URL: 'postgres://precious', SERVICE_PORT: '1' };
    const { code, output } = await project.run('test.mjs', [], env);
    assert.equal(code, 0, output);
    assert.ok(project.has('cluster.log') && !project.has('cluster-runs'));
  });

  it('stops tests, what they started, and the database when it is interrupted', async () => {
    await project.spec(
      'test/e2e/a.spec.ts',
      `import { spawn } from 'node:child_process'; import { writeFileSync } from 'node:fs';
      it('1', (_, done) => { const child = spawn('sleep', ['600']); writeFileSync('sleeper', String(child.pid)); });`,
    );
    const child = project.start('test.mjs', ['--tier', 'all']);
    const end = endOf(child);
    await project.untilExists('sleeper');
    child.kill('SIGINT');
    const { code, lastLine } = await end;
    assert.equal(code, 130);
    assert.equal(lastLine, '0 passed, 0 failed, 0 skipped (tier: all)');
    assert.ok(project.has('cluster.log') && !project.has('cluster-runs'));
    const pid = Number(await project.read('sleeper'));
    const deadline = Date.now() + 10_000;
    while (isRunning(pid)) {
      assert.ok(Date.now() < deadline, 'a process that a test had started is still there');
      await sleep(20);
    }
  });
});
