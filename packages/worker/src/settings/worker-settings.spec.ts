import assert from 'node:assert/strict';
import { test } from 'vitest';
import { helpText } from '@longshore/common/settings/help';
import { SettingsError, type Setting } from '@longshore/common/settings/setting';
import { loadWorkerSettings, WORKER_SETTINGS } from './worker-settings.js';

function problemsOf(env: NodeJS.ProcessEnv): readonly string[] {
  try {
    loadWorkerSettings([], env);
  } catch (error) {
    if (error instanceof SettingsError) return error.problems;
    throw error;
  }
  return [];
}

test('requires only an API key', () => {
  assert.deepEqual(loadWorkerSettings([], { SERVICE_API_KEY: 'k', SERVICE_WORKER_TAGS: '' }), {
    serviceUrl: 'http://127.0.0.1:5555',
    apiKey: 'k',
    workerId: null,
    stateDir: null,
    cpuCores: null,
    ramMb: null,
    gpuIds: null,
    needsRamLimit: false,
    tags: [],
    tickSeconds: 2,
    runtime: 'docker',
    engine: null,
    imagesDir: null,
    allowedImages: null,
    localRegistries: false,
    registryLogins: null,
    maxImageAgeMs: 7 * 86_400_000,
    maxImageBytes: 50_000_000_000,
    maxCacheBytes: 10_000_000_000,
    fetchNetworks: null,
    network: 'longshore',
    networks: new Map(),
    volumes: new Map(),
    containerUser: null,
    ociRuntime: null,
    oldEngine: 'warn',
    maxGraceSeconds: 300,
    onStop: 'drain',
    ulimits: {},
    pids: null,
    capabilities: [],
    maxEvents: 10_000,
    maxEventBytes: 8 * 2 ** 20,
    eventRate: 100,
    maxAnswerBytes: 64 * 2 ** 20,
    awaySeconds: 600,
    drainSeconds: 30,
    workerTimeoutSeconds: 60,
    maxRuns: null,
    exitIdleSeconds: 0,
    maxTotal: 0,
    deployment: 'longshore',
    maxPending: 10,
    pullSilenceSeconds: 0,
    healthFile: null,
    logLevel: 'info',
  });
});

/** Settings in their variables, as they are read. */
const GIVEN: Readonly<Record<string, readonly [string, object]>> = {
  SERVICE_URL: ['https://service.example/base/', { serviceUrl: 'https://service.example/base' }],
  SERVICE_API_KEY: ['k', { apiKey: 'k' }],
  SERVICE_WORKER_ID: ['rack.7:gpu_1', { workerId: 'rack.7:gpu_1' }],
  SERVICE_WORKER_STATE_DIR: ['/var/lib/worker', { stateDir: '/var/lib/worker' }],
  SERVICE_WORKER_CPU: ['4', { cpuCores: 4 }],
  SERVICE_WORKER_RAM_MB: ['8000', { ramMb: 8000 }],
  SERVICE_WORKER_GPUS: [' 1, 0,1', { gpuIds: [1, 0] }],
  SERVICE_WORKER_REQUIRE_RAM_LIMIT: ['true', { needsRamLimit: true }],
  SERVICE_WORKER_TAGS: [' fast, ssd,,fast', { tags: ['fast', 'ssd'] }],
  SERVICE_WORKER_TICK: ['0.5', { tickSeconds: 0.5 }],
  SERVICE_WORKER_RUNTIME: ['process', { runtime: 'process' }],
  SERVICE_WORKER_IMAGE_DAYS: ['0.5', { maxImageAgeMs: 43_200_000 }],
  SERVICE_WORKER_IMAGE_GB: ['0', { maxImageBytes: Infinity }],
  SERVICE_WORKER_CACHE_GB: ['0.5', { maxCacheBytes: 500_000_000 }],
  SERVICE_WORKER_FETCH_NETWORKS: ['10.1.0.0/16, fd00::/8', { fetchNetworks: '10.1.0.0/16, fd00::/8' }],
  SERVICE_WORKER_NETWORK: ['bridge', { network: 'bridge' }],
  SERVICE_WORKER_USER: ['1000:1000', { containerUser: '1000:1000' }],
  SERVICE_WORKER_OCI_RUNTIME: ['runsc', { ociRuntime: 'runsc' }],
  SERVICE_WORKER_OLD_ENGINE: ['refuse', { oldEngine: 'refuse' }],
  SERVICE_WORKER_MAX_GRACE_S: ['900', { maxGraceSeconds: 900 }],
  SERVICE_WORKER_ON_STOP: ['drain', { onStop: 'drain' }],
  SERVICE_WORKER_ULIMITS: ['nofile=65536, memlock=-1', { ulimits: { nofile: 65_536, memlock: -1 } }],
  SERVICE_WORKER_PIDS: ['4096', { pids: 4096 }],
  SERVICE_WORKER_CAPABILITIES: ['CHOWN, SETUID', { capabilities: ['CHOWN', 'SETUID'] }],
  SERVICE_WORKER_IMAGES_DIR: ['images', { imagesDir: 'images' }],
  SERVICE_WORKER_IMAGES: [
    ' ghcr.io/acme/*, docker.io/library/busybox',
    { allowedImages: ['ghcr.io/acme/*', 'docker.io/library/busybox'] },
  ],
  SERVICE_WORKER_LOCAL_REGISTRIES: ['on', { localRegistries: true }],
  SERVICE_WORKER_MAX_EVENTS: ['5', { maxEvents: 5 }],
  SERVICE_WORKER_MAX_EVENT_BYTES: ['6', { maxEventBytes: 6 }],
  SERVICE_WORKER_EVENT_RATE: ['0.5', { eventRate: 0.5 }],
  SERVICE_WORKER_MAX_ANSWER_BYTES: ['70000', { maxAnswerBytes: 70_000 }],
  SERVICE_WORKER_NETWORKS: [
    'db=backend, a=A_1',
    {
      networks: new Map([
        ['db', 'backend'],
        ['a', 'A_1'],
      ]),
    },
  ],
  SERVICE_WORKER_DRAIN: ['0', { drainSeconds: 0 }],
  SERVICE_WORKER_AWAY_S: ['90', { awaySeconds: 90 }],
  SERVICE_WORKER_TIMEOUT: ['3', { workerTimeoutSeconds: 3 }],
  SERVICE_WORKER_MAX_RUNS: ['7', { maxRuns: 7 }],
  SERVICE_WORKER_EXIT_IDLE: ['30', { exitIdleSeconds: 30 }],
  SERVICE_WORKER_MAX_TOTAL: ['9', { maxTotal: 9 }],
  SERVICE_WORKER_DEPLOYMENT: ['team-a', { deployment: 'team-a' }],
  SERVICE_WORKER_MAX_PENDING: ['20', { maxPending: 20 }],
  SERVICE_WORKER_PULL_SILENCE: ['600', { pullSilenceSeconds: 600 }],
  SERVICE_WORKER_HEALTH_FILE: ['/run/worker', { healthFile: '/run/worker' }],
  SERVICE_LOG_LEVEL: ['warning', { logLevel: 'warn' }],
};

function userOf(user: string): string | null {
  const env = { SERVICE_URL: 'http://localhost', SERVICE_API_KEY: 'k', SERVICE_WORKER_USER: user };
  return loadWorkerSettings([], env).containerUser;
}

test('completes a container user by its group, which the image would choose otherwise', () => {
  assert.deepEqual(['1000', '0', '1000:7', 'nonroot'].map(userOf), ['1000:1000', '0:0', '1000:7', 'nonroot']);
});

test('reads every setting from the environment', () => {
  const env = Object.fromEntries(Object.entries(GIVEN).map(([name, [value]]) => [name, value]));
  const read = Object.assign({}, ...Object.values(GIVEN).map(([, setting]) => setting));
  const others = { engine: null, registryLogins: null, volumes: new Map() };
  assert.deepEqual(loadWorkerSettings([], env), { ...others, ...read });
});

test('reports every wrong setting on its own line, without secrets', () => {
  const problems = problemsOf({
    SERVICE_URL: 'http://user:hunter2@host',
    SERVICE_API_KEY: 'hunter2 with space',
    SERVICE_WORKER_ID: '-x\n',
    SERVICE_WORKER_CPU: '0',
    SERVICE_WORKER_RAM_MB: '1.5',
    SERVICE_WORKER_GPUS: 'all',
    SERVICE_WORKER_TAGS: 'a\u202e',
    SERVICE_WORKER_TICK: '0',
    SERVICE_WORKER_RUNTIME: 'podman',
    SERVICE_WORKER_IMAGES: ' , ',
    SERVICE_WORKER_LOCAL_REGISTRIES: 'maybe',
    SERVICE_WORKER_MAX_EVENTS: '-1',
    SERVICE_WORKER_MAX_EVENT_BYTES: '1.5',
    SERVICE_WORKER_EVENT_RATE: '0',
    SERVICE_WORKER_MAX_ANSWER_BYTES: '1',
    SERVICE_WORKER_DRAIN: '-1',
    SERVICE_WORKER_AWAY_S: '0',
    SERVICE_WORKER_TIMEOUT: 'x',
    SERVICE_WORKER_MAX_RUNS: '0',
    SERVICE_WORKER_DEPLOYMENT: 'a_b',
    SERVICE_WORKER_MAX_PENDING: '0',
    SERVICE_LOG_LEVEL: 'loud',
  });
  assert.equal(problems.length, 22);
  for (const problem of problems) {
    assert.match(problem, /^SERVICE_[A-Z_]+ must be /);
    assert.ok(!problem.includes('hunter2') && !problem.includes('\n') && !problem.includes('\u0007'));
  }
  assert.deepEqual(problemsOf({}), [
    'SERVICE_API_KEY must be set to an API key with the scope worker, in visible ASCII characters',
  ]);
});

test('prefers a flag to its variable, and treats an empty variable as unset', () => {
  const argv = ['--id', 'by-flag', '--max-runs=3', '--tick', '1'];
  const settings = loadWorkerSettings(argv, {
    SERVICE_API_KEY: 'k',
    SERVICE_WORKER_ID: 'by-variable',
    SERVICE_WORKER_TICK: 'nonsense',
    SERVICE_WORKER_DRAIN: '',
  });
  assert.equal(settings.workerId, 'by-flag');
  assert.equal(settings.maxRuns, 3);
  assert.equal(settings.tickSeconds, 1);
  assert.equal(settings.drainSeconds, 30);
});

test('refuses unknown flags, and the key as a flag without printing it', () => {
  assert.throws(
    () =>
      loadWorkerSettings(['--api-key', 'hunter2', '--max-runs', '1025', '--nope'], { SERVICE_API_KEY: 'k' }),
    new SettingsError([
      '--api-key is not a flag, since process lists show arguments: set SERVICE_API_KEY',
      'unknown flag --nope; --help lists the flags',
      '--max-runs (SERVICE_WORKER_MAX_RUNS) must be an integer from 1 to 1024, got "1025"',
    ]),
  );
});

test('requires the id of a launcher, and refuses a share of GPUs that it could not keep', () => {
  const [id = '', gpus = '', ...more] = problemsOf({
    SERVICE_API_KEY: 'k',
    SERVICE_WORKER_RUNTIME: 'kubernetes',
    SERVICE_WORKER_GPUS: '0',
  });
  assert.match(id, /^SERVICE_WORKER_ID must be .*: with the runtime kubernetes, jobs are found again by it/);
  assert.match(
    gpus,
    /^SERVICE_WORKER_GPUS must be .*: with the runtime kubernetes, the cluster assigns GPUs/,
  );
  assert.deepEqual(more, []);
});

test('explains every setting in the help', () => {
  const text = helpText('npm run worker -- [flags]', WORKER_SETTINGS);
  const table: readonly Setting[] = WORKER_SETTINGS;
  for (const { flag, env, kind, allowed, ...setting } of table) {
    const fallback = setting.required ? 'Required.' : `Default: ${setting.default ?? 'unset'}.`;
    const shown = kind === 'boolean' ? `--${flag},` : `--${flag} <`;
    assert.ok(text.includes(flag === undefined ? `  ${env}\n` : `  ${shown}`), env);
    assert.ok(text.includes(`Must be ${allowed}. ${fallback}\n`), env);
  }
});

test('refuses volumes that the runtime cannot offer', () => {
  const env = { SERVICE_API_KEY: 'k', SERVICE_WORKER_VOLUMES: 'data=/srv/data:ro' };
  assert.deepEqual(
    [...loadWorkerSettings([], env).volumes],
    [['data', { kind: 'folder', source: '/srv/data', isWritable: false }]],
  );
  assert.throws(() => loadWorkerSettings([], { ...env, SERVICE_WORKER_RUNTIME: 'process' }), {
    name: 'SettingsError',
    message: /the runtime process offers no volumes/,
  });
});

test('refuses to leave programs that end with the worker', () => {
  const env = { SERVICE_API_KEY: 'k', SERVICE_WORKER_RUNTIME: 'process', SERVICE_WORKER_ON_STOP: 'leave' };
  assert.deepEqual(problemsOf(env), [
    'SERVICE_WORKER_ON_STOP must be drain or leave: with the runtime process, programs end with the worker, got "leave"',
  ]);
});
