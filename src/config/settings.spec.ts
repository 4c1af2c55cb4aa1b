import 'reflect-metadata';
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { SettingsError } from '@longshore/common/settings/setting';
import { Budgets } from './budgets.js';
import { settingKeysOf } from './setting-decorators.js';
import { loadSettings } from './settings.module.js';
import { SETTING_KEYS, Settings } from './settings.js';

const BUDGETS: ReadonlySet<string> = new Set(settingKeysOf(Budgets).map(({ field }) => field));

function problemsOf(argv: readonly string[], env: NodeJS.ProcessEnv = {}): readonly string[] {
  try {
    loadSettings(argv, env);
  } catch (error) {
    assert.ok(error instanceof SettingsError);
    return error.problems;
  }
  return assert.fail('the settings were accepted');
}

function valuesOf({ secretsKeys: _secretsKeys, ...settings }: Settings): object {
  return Object.fromEntries(Object.entries(settings).filter(([field]) => !BUDGETS.has(field)));
}

describe('settings', () => {
  it('have the documented defaults', () => {
    assert.deepEqual(valuesOf(loadSettings([], {})), {
      host: '127.0.0.1',
      port: 5555,
      reload: false,
      workers: 1,
      logLevel: 'info',
      workerTimeout: 60,
      workerAwayMax: 600,
      databaseUrl: undefined,
      dataDir: '.data',
      apiKeys: [],
      scheduler: 'direct',
      extensions: undefined,
      fitReserveAfter: 300,
      reaperInterval: 5,
      maxReclaims: 3,
      lossPatience: 900,
      feedEnabled: true,
      defaultTopic: undefined,
      feedRetentionDays: 7,
      fileMaxBytes: 5_368_709_120,
      filePartBytes: 536_870_912,
      fileRetentionDays: 0,
      runRetentionDays: 0,
      webhookHttp: false,
      webhookNetworks: undefined,
      publicUrl: undefined,
      auditRetentionDays: 400,
      logLimitBytes: 16_777_216,
      maxBodyBytes: 1_048_576,
      journalGroupBytes: 524_288,
      journalWaiting: 20_000,
      journalWaitingPerKey: 10_000,
      journalWaitingBytes: 33_554_432,
      journalWaitingBytesPerKey: 16_777_216,
      rateLimit: 0,
      authFailureLimit: 20,
      dbPoolSize: 10,
      workerPool: undefined,
      filesUrl: undefined,
      filesBaseUrl: undefined,
      filesMinFreeMb: 1024,
      filesStores: undefined,
      awsAccessKeyId: undefined,
      awsSecretAccessKey: undefined,
      awsSessionToken: undefined,
    });
  });

  it('are an instance of the class with a field for every key of the table', () => {
    const settings = loadSettings([], {});
    assert.ok(settings instanceof Settings);
    assert.deepEqual(Object.keys(settings).toSorted(), SETTING_KEYS.map((key) => key.field).toSorted());
  });

  it('cannot be changed after they were loaded', () => {
    assert.ok(Object.isFrozen(loadSettings([], {})));
  });

  it('prefer the last flag to the variable and the variable to the default', () => {
    assert.equal(loadSettings(['--port', '1'], { SERVICE_PORT: '2' }).port, 1);
    assert.equal(loadSettings(['--port', '1'], { SERVICE_PORT: 'nonsense' }).port, 1);
    assert.equal(loadSettings(['--port', '1', '--port', '2'], {}).port, 2);
    assert.equal(loadSettings(['--port=1'], { SERVICE_PORT: '2' }).port, 1);
    assert.equal(loadSettings([], { SERVICE_PORT: '2' }).port, 2);
  });

  it('read texts, levels and switches from variables and flags', () => {
    const texts = {
      SERVICE_HOST: '::1',
      SERVICE_LOG_LEVEL: 'warning',
      SERVICE_DATA_DIR: '/var/lib/x y',
      SERVICE_SCHEDULER: 'my.Own-strategy_2',
      SERVICE_EXTENSIONS: 'a.js, /b c.js',
      SERVICE_DEFAULT_TOPIC: '🚀'.repeat(255),
      SERVICE_WORKER_POOL: 'shared',
    };
    const flags = Object.entries(texts).flatMap(([name, text]) => [
      `--${name.replace('SERVICE_', '').toLowerCase().replaceAll('_', '-')}`,
      text,
    ]);
    for (const settings of [loadSettings([], texts), loadSettings(flags, {})]) {
      const { host, logLevel, dataDir, scheduler, extensions, defaultTopic, workerPool } = settings;
      assert.deepEqual(
        [host, logLevel, dataDir, scheduler, extensions, defaultTopic, workerPool],
        Object.values(texts),
      );
    }
    assert.equal(loadSettings(['--reload'], {}).reload, true);
    assert.equal(loadSettings([], { SERVICE_FEED_ENABLED: 'false' }).feedEnabled, false);
  });

  it('read secrets from variables', () => {
    const url = 'postgres://me@localhost/db?host=%2Ftmp%2Fx';
    const { databaseUrl, apiKeys } = loadSettings([], {
      DATABASE_URL: url,
      SERVICE_API_KEYS:
        'admin:a:1-key-of-twenty-letters, client:b-key-of-twenty-letters,worker@w-1+gpu/*:c-key-of-twenty-letters',
    });
    assert.equal(databaseUrl, url);
    assert.deepEqual(apiKeys, [
      { scope: 'admin', key: 'a:1-key-of-twenty-letters' },
      { scope: 'client', key: 'b-key-of-twenty-letters' },
      { scope: 'worker', key: 'c-key-of-twenty-letters', workerIds: ['w-1', 'gpu/*'] },
    ]);
  });

  it('count an empty variable as unset', () => {
    const env = Object.fromEntries(SETTING_KEYS.map((key) => [key.env, '']));
    assert.deepEqual(valuesOf(loadSettings([], env)), valuesOf(loadSettings([], {})));
  });

  for (const [text, expected] of [
    ['true', true],
    ['Yes', true],
    ['ON', true],
    ['1', true],
    ['false', false],
    ['no', false],
    ['Off', false],
    ['0', false],
  ] as const) {
    it(`read ${text} as ${expected}`, () => {
      assert.equal(loadSettings([], { SERVICE_RELOAD: text }).reload, expected);
      assert.equal(loadSettings([`--reload=${text}`], {}).reload, expected);
    });
  }

  for (const [variable, ...values] of [
    ['SERVICE_HOST', 'http://x', 'a b'],
    ['SERVICE_PORT', '80.5', '0x50', '1e3', ' '],
    ['SERVICE_WORKER_TIMEOUT', 'Infinity'],
    ['SERVICE_RELOAD', 'maybe'],
    ['SERVICE_LOG_LEVEL', 'warn', 'INFO'],
    ['SERVICE_DATA_DIR', 'a\nb'],
    ['SERVICE_SCHEDULER', '../x'],
    ['SERVICE_EXTENSIONS', 'a\nb'],
    ['SERVICE_FEED_ENABLED', 'maybe'],
    ['SERVICE_DEFAULT_TOPIC', 'a\nb', 'a\u202eb'],
    ['SERVICE_WORKER_POOL', 'redis'],
  ] as const) {
    for (const value of values) {
      it(`refuse ${variable}=${JSON.stringify(value)} in one line that names it, the rule and the value`, () => {
        const key = SETTING_KEYS.find((candidate) => candidate.env === variable);
        assert.deepEqual(problemsOf([], { [variable]: value }), [
          `${variable} must be ${key?.allowed}, got ${JSON.stringify(value)}`,
        ]);
      });
    }
  }

  it('refuse a default topic that is longer than a topic may be', () => {
    const [problem = ''] = problemsOf([], { SERVICE_DEFAULT_TOPIC: 'x'.repeat(256) });
    assert.match(problem, /^SERVICE_DEFAULT_TOPIC must be a text .* of 1 to 255 characters, got "x+\.\.\."$/);
  });

  for (const { field, env, flag = '', kind, allowed, default: preset } of SETTING_KEYS) {
    if (kind === 'text' || kind === 'boolean') continue;
    it(`take the default of ${env}, its smallest value and its largest one, and no other`, () => {
      const bounds = [...allowed.matchAll(/\d+/g)].map(([text]) => Number(text));
      assert.equal(loadSettings([], {})[field], Number(preset));
      const [least = 0, most = 0] = bounds;
      for (const value of [allowed.includes('greater than') ? least + 0.001 : least, most]) {
        assert.equal(loadSettings([], { [env]: String(value) })[field], value);
        assert.equal(loadSettings([`--${flag}`, String(value)], {})[field], value);
      }
      for (const text of [String(least - 1), String(most + 1), '1mb']) {
        assert.throws(
          () => loadSettings([], { [env]: text }),
          new SettingsError([`${env} must be ${allowed}, got "${text}"`]),
        );
      }
    });
  }

  it('name the flag when the wrong value came by flag', () => {
    assert.deepEqual(problemsOf(['--port', 'x'], { SERVICE_PORT: '80' }), [
      '--port (SERVICE_PORT) must be an integer from 0 to 65535, got "x"',
    ]);
    assert.deepEqual(problemsOf(['--port='], {}), [
      '--port (SERVICE_PORT) must be an integer from 0 to 65535, got ""',
    ]);
  });

  it('report every problem at once, a line each', () => {
    const problems = problemsOf(['--port', 'x', '--nope', 'stray', '--log-level'], {
      SERVICE_WORKERS: 'many',
      SERVICE_WORKER_POOL: 'redis',
      DATABASE_URL: 'mysql://x',
      SERVICE_API_KEYS: 'x',
    });
    for (const name of [
      '--nope',
      '--log-level',
      '--port',
      'SERVICE_WORKERS',
      'SERVICE_WORKER_POOL',
      'DATABASE_URL',
      'SERVICE_API_KEYS',
    ]) {
      assert.equal(problems.filter((line) => line.includes(name)).length, 1, name);
    }
    assert.equal(problems.length, 7);
    assert.ok(problems.every((line) => !/[\r\n]/.test(line)));
  });

  it('keep a hostile value on one line of bounded length', () => {
    const [line] = problemsOf([], { SERVICE_PORT: `1\nSERVICE_OK \u001b[31m${'x'.repeat(10_000)}` });
    assert.ok(line !== undefined && line.length < 300 && !line.includes('\n') && !line.includes('\u001b'));
  });

  it('refuse an unknown flag, an argument without a flag and a flag without its value', () => {
    assert.match(problemsOf(['--prot', '1']).join('\n'), /^unknown flag --prot/);
    assert.match(problemsOf(['-x']).join('\n'), /^unknown flag -x/);
    assert.deepEqual(problemsOf(['serve']), ['unexpected argument "serve"']);
    assert.deepEqual(problemsOf(['--', 'serve']), ['unexpected argument "serve"']);
    assert.match(problemsOf(['--port']).join('\n'), /^--port \(SERVICE_PORT\) needs a value/);
    assert.match(problemsOf(['--port', '--reload']).join('\n'), /^--port \(SERVICE_PORT\) needs a value/);
  });

  it('keep the pool of workers where every process finds it', () => {
    const problem =
      'SERVICE_WORKER_POOL must be memory or shared, and shared with several server processes, got "memory"';
    assert.deepEqual(problemsOf(['--workers', '2'], { SERVICE_WORKER_POOL: 'memory' }), [problem]);
    assert.deepEqual(problemsOf(['--worker-pool', 'memory'], { SERVICE_WORKERS: '256' }), [
      problem.replace('SERVICE_WORKER_POOL', '--worker-pool (SERVICE_WORKER_POOL)'),
    ]);
    for (const pair of ['1 memory', '1 shared', '2 shared', '2 ']) {
      const [workers = '', pool = ''] = pair.split(' ');
      const settings = loadSettings(['--workers', workers], { SERVICE_WORKER_POOL: pool });
      assert.equal(settings.workerPool, pool === '' ? undefined : pool);
    }
  });

  it('do not blame the pool for a number of processes that is wrong by itself', () => {
    const problem = '--workers (SERVICE_WORKERS) must be an integer from 1 to 256, got "257"';
    assert.deepEqual(problemsOf(['--workers', '257'], { SERVICE_WORKER_POOL: 'memory' }), [problem]);
  });
});

describe('secrets among the settings', () => {
  for (const value of [
    'mysql://root:hunter2@h/db',
    'hunter2',
    'postgres://me:hunter2@h:port/db',
    'postgres://me:hunter2@h/a b',
  ]) {
    it(`refuse DATABASE_URL ${value.replace('hunter2', '...')} without showing it`, () => {
      const refusal =
        /^DATABASE_URL must be a postgres:\/\/ or postgresql:\/\/ URL, .*\(the value is not shown\)$/;
      assert.match(problemsOf([], { DATABASE_URL: value }).join('\n'), refusal);
    });
  }

  it('are read from the files that NAME_FILE names, and refused when that is not clear', () => {
    const folder = mkdtempSync(join(tmpdir(), 'settings-'));
    const file = (name: string, content: string): string => {
      writeFileSync(join(folder, name), content);
      return join(folder, name);
    };
    const url = file('url', 'postgres://me:hunter2@h/d\n');
    const keys = file('keys', 'admin:a-key-of-twenty-letters\n');
    const settings = loadSettings([], {
      DATABASE_URL_FILE: url,
      SERVICE_API_KEYS_FILE: keys,
      SERVICE_SECRETS_KEY_FILE: file('secrets', `${Buffer.alloc(32).toString('base64')}\n`),
    });
    assert.equal(settings.databaseUrl, 'postgres://me:hunter2@h/d');
    assert.equal(settings.databaseUrlFile, url);
    assert.deepEqual(settings.apiKeys, [{ scope: 'admin', key: 'a-key-of-twenty-letters' }]);
    assert.equal(settings.secretsKeys.length, 1);
    assert.deepEqual(
      problemsOf([], {
        DATABASE_URL: 'postgres://me@h/d',
        DATABASE_URL_FILE: url,
        SERVICE_API_KEYS_FILE: join(folder, 'missing'),
        SERVICE_SECRETS_KEY_FILE: file('empty', '\n'),
        SERVICE_PORT_FILE: url,
      }).toSorted(),
      [
        'DATABASE_URL and DATABASE_URL_FILE are set; unset one of them',
        'SERVICE_PORT_FILE is not read, because SERVICE_PORT is no secret; set SERVICE_PORT',
        `the file ${join(folder, 'empty')} of SERVICE_SECRETS_KEY_FILE is empty`,
        `the file ${join(folder, 'missing')} of SERVICE_API_KEYS_FILE cannot be read: ENOENT`,
      ],
    );
    rmSync(folder, { recursive: true });
  });

  it('accept both spellings of the database URL scheme', () => {
    for (const url of ['postgres://u:p@h:1/d', 'postgresql://u:p@h1,h2/d']) {
      assert.equal(loadSettings([], { DATABASE_URL: url }).databaseUrl, url);
    }
  });

  it('are refused as flags without being echoed', () => {
    for (const argv of [
      ['--database-url', 'postgres://u:hunter2@h/d'],
      ['--database-url=postgres://u:hunter2@h/d'],
      ['--api-keys', 'admin:hunter2'],
      ['--databse-url', 'postgres://u:hunter2@h/d'],
      ['--api-key=hunter2'],
    ]) {
      const problems = problemsOf(argv);
      assert.equal(problems.length, 1);
      assert.doesNotMatch(problems.join('\n'), /hunter2/);
    }
  });
});
