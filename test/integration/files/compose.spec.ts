import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, normalize } from 'node:path';
import { beforeAll, describe, onTestFinished, test } from 'vitest';
import { parse, parseDocument } from 'yaml';
import { loadWorkerSettings, WORKER_SETTINGS } from '@longshore/worker/settings/worker-settings';
import { loadSettings } from '../../../src/config/settings.module.js';
import { SETTING_KEYS } from '../../../src/config/settings.js';
import {
  composeCommand,
  ComposeProject,
  readComposeFile,
  type ComposeFile,
} from '../../support/images/compose.js';
import { readStages } from '../../support/images/dockerfile.js';
import { PROJECT } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

const compose = composeCommand();
const isRequired = process.env['CI'] === 'true';
const skip = compose === null && !isRequired ? 'no docker-compose (see .ci/install-test-tools.sh)' : false;

describe('docker/compose.yaml', () => {
  const file: ComposeFile = readComposeFile();
  const services = Object.entries(file.services);
  const text = readFileSync(join(PROJECT, 'docker', 'compose.yaml'), 'utf8');

  test('is YAML that every reader takes the same way', () => {
    const { errors, warnings } = parseDocument(text, { merge: true, strict: true, uniqueKeys: true });
    assert.deepEqual([errors, warnings], [[], []]);
  });

  test('names its project, whatever the folder is called', () => {
    assert.equal(file.name, 'longshore');
  });

  test('has PostgreSQL, service and worker, and monitoring on demand', () => {
    assert.deepEqual(
      services.filter(([, { profiles }]) => profiles === undefined).map(([name]) => name),
      ['postgres', 'service', 'worker'],
    );
    assert.deepEqual(
      services.filter(([, { profiles }]) => profiles?.includes('monitoring')).map(([name]) => name),
      ['metrics-key', 'prometheus', 'grafana'],
    );
  });

  for (const [name, service] of services) {
    test(`keeps ${name} within limits, off the network and without new privileges`, () => {
      assert.match(service.mem_limit ?? '', /^\d+[mg]$/);
      assert.ok((service.pids_limit ?? 0) > 0);
      assert.deepEqual(service.security_opt, ['no-new-privileges:true']);
      assert.ok(service.logging?.options?.['max-size'] !== undefined);
      for (const port of service.ports ?? []) assert.match(port, /^127\.0\.0\.1:\d+:\d+$/);
      if (service.build === undefined) assert.match(service.image, /:v?\d+\.\d+[\w.-]*$/);
      if (name === 'metrics-key') {
        assert.deepEqual([service.restart, service.healthcheck], ['no', { disable: true }]);
        return;
      }
      assert.equal(service.restart, 'unless-stopped');
      // Those of service and worker are in their images.
      assert.equal(service.healthcheck === undefined, service.build !== undefined);
      if (service.build !== undefined) {
        assert.deepEqual([service.read_only, service.cap_drop, service.user], [true, ['ALL'], undefined]);
      }
    });
  }

  test('builds stages that the Dockerfile has', () => {
    for (const [, { build }] of services) {
      if (build === undefined) continue;
      const stages = readStages(join(PROJECT, 'docker', build.context, build.dockerfile));
      const stage = stages.find(({ name }) => name === build.target);
      assert.ok(stage?.healthcheck !== null && stage?.command !== null, build.target);
    }
  });

  test('mounts files that there are', () => {
    const mounted = services.flatMap(([, { volumes = [] }]) =>
      volumes.map((volume) => volume.split(':')[0] ?? ''),
    );
    const own = mounted.filter((path) => path.startsWith('./'));
    const missing = own.filter((path) => !existsSync(normalize(join(PROJECT, 'docker', path))));
    assert.deepEqual(missing, []);
    assert.ok(own.length > 0);
    const named = mounted.filter((path) => /^\w/.test(path));
    assert.deepEqual([...new Set(named)].toSorted(), Object.keys(file.volumes).toSorted());
  });

  test('gives Prometheus the key where its configuration reads it', () => {
    const config = readFileSync(join(PROJECT, 'docker', 'prometheus', 'prometheus.yml'), 'utf8');
    const [, folder] = /credentials_file: (\S+)\/metrics\.key/.exec(config) ?? [];
    assert.ok(file.services['prometheus']?.volumes?.includes(`metrics-key:${folder}:ro`));
    const maker = file.services['metrics-key'];
    assert.deepEqual([maker?.volumes, maker?.entrypoint], [['metrics-key:/key'], ['/bin/sh', '-euc']]);
  });

  test('writes that key to a file that only Prometheus may read, also when it is exchanged', (t) => {
    if (process.getuid?.() !== 0) return t.skip('only root may give a file away');
    const folder = mkdtempSync(join(tmpdir(), 'longshore-metrics-key-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const [script = ''] = file.services['metrics-key']?.command ?? [];
    for (const key of ['first', 'second']) {
      const path = join(folder, 'metrics.key');
      const here = script.replaceAll('/key/metrics.key', path).replaceAll('$$', () => '$');
      const env = { PATH: process.env['PATH'], LONGSHORE_METRICS_KEY: key };
      execFileSync('/bin/sh', ['-euc', here], { env });
      assert.equal(readFileSync(path, 'utf8'), key);
      const { uid, gid, mode } = statSync(path);
      assert.deepEqual([uid, gid, mode & 0o777], [65_534, 65_534, 0o600]);
    }
  });

  test('holds no secret', () => {
    for (const [name, { environment = {} }] of services) {
      for (const [variable, value] of Object.entries(environment)) {
        if (!/KEY|PASSWORD|SECRET|DATABASE_URL/.test(variable)) continue;
        const rest = value.replaceAll(/\$\{\w+:(?:\?[^}]+|-)\}/g, '');
        assert.notEqual(rest, value, `${name}: ${variable}`);
        assert.match(
          rest,
          /^(?:|admin:,worker@[^:]*:-compose-worker\}:,metrics:|postgres:\/\/longshore:@postgres:5432\/longshore)$/,
        );
      }
    }
  });

  test('mounts nothing of the host into the worker but the socket of the engine', () => {
    assert.deepEqual(file.services['worker']?.volumes, [
      '/var/run/docker.sock:/var/run/docker.sock',
      'worker:/var/lib/longshore-worker',
    ]);
  });

  test('keeps files of runs in a volume that starts as a folder of the user of the service', () => {
    const { environment, volumes = [], build } = file.services['service'] ?? {};
    const url = /^file:(\/.+)\/files$/.exec(environment?.['SERVICE_FILES_URL'] ?? '');
    assert.ok(url?.[1] !== undefined);
    assert.deepEqual(volumes, [`service:${url[1]}`]);
    const dockerfile = readFileSync(
      join(PROJECT, 'docker', build?.context ?? '', build?.dockerfile ?? ''),
      'utf8',
    );
    assert.ok(dockerfile.includes(`COPY --from=build --chown=10001:10001 /longshore/state ${url[1]}\n`));
  });

  describe('as Compose reads it', skipFor(skip), () => {
    let project: ComposeProject;
    beforeAll(async () => {
      project = await ComposeProject.make();
    });

    test('is refused without keys, by a line that says what to do', async () => {
      const { code, stdout, stderr } = await project.config(compose ?? 'docker-compose');
      assert.notEqual(code, 0);
      assert.equal(stdout, '');
      assert.match(stderr, /run docker\/make-env\.sh first/);
    });

    test('is refused with a key that its schema does not know', async () => {
      const other = await ComposeProject.make();
      await other.makeEnv();
      const path = join(other.folder, 'compose.yaml');
      writeFileSync(path, text.replace('    read_only: true\n', '    read_onyl: true\n'));
      const { code, stderr } = await other.config(compose ?? 'docker-compose');
      assert.notEqual(code, 0);
      assert.match(stderr, /read_onyl/);
    });

    test('is taken with the keys that make-env.sh makes, once, for their owner alone', async () => {
      const made = await project.makeEnv();
      assert.deepEqual([made.code, made.stderr], [0, '']);
      const path = join(project.folder, '.env');
      assert.equal(statSync(path).mode & 0o777, 0o600);
      const keys = readFileSync(path, 'utf8');
      const again = await project.makeEnv();
      assert.deepEqual([again.code, readFileSync(path, 'utf8')], [0, keys]);
      assert.doesNotMatch(made.stdout + again.stderr, /[0-9a-f]{48}/);
      const secrets = [...keys.matchAll(/^\w+=([0-9a-f]{48})$/gm)].map(([, secret]) => secret);
      assert.deepEqual([secrets.length, new Set(secrets).size], [5, 5]);

      const { code, stdout, stderr } = await project.config(compose ?? 'docker-compose');
      assert.equal(code, 0, stderr);
      const read: { services: Record<string, { environment: Record<string, string> }> } = parse(stdout);
      const ofService = read.services['service']?.environment ?? {};
      const known = new Set<string>(SETTING_KEYS.map((key) => key.env));
      assert.deepEqual(
        Object.keys(ofService).filter((name) => !known.has(name)),
        [],
      );
      const settings = loadSettings([], ofService);
      assert.deepEqual(
        settings.apiKeys.map(({ scope }) => scope),
        ['admin', 'worker', 'metrics'],
      );
      assert.equal(settings.secretsKeys.length, 1);
      assert.ok(keys.includes(`LONGSHORE_METRICS_KEY=${settings.apiKeys[2]?.key}\n`));
      const knownToWorker = new Set<string>(WORKER_SETTINGS.map(({ env }) => env));
      const ofWorker = read.services['worker']?.environment ?? {};
      assert.deepEqual(
        Object.keys(ofWorker).filter((name) => !knownToWorker.has(name)),
        [],
      );
      const agent = loadWorkerSettings([], ofWorker);
      assert.equal(agent.apiKey, settings.apiKeys[1]?.key);
      assert.deepEqual(settings.apiKeys[1]?.workerIds, [agent.workerId]);
      assert.equal(agent.serviceUrl, 'http://service:5555');
    });

    test('gives service and worker the time that they take to end', () => {
      const { drainSeconds, workerTimeoutSeconds } = loadWorkerSettings([], { SERVICE_API_KEY: 'k' });
      assert.ok(
        seconds(file.services['worker']?.stop_grace_period) > drainSeconds + 2 * workerTimeoutSeconds,
      );
      assert.ok(seconds(file.services['service']?.stop_grace_period) >= 20);
    });
  });
});

describe('the context of the images', async () => {
  const { BuildContext } = await import('../../support/images/build-context.js');
  const context = new BuildContext(PROJECT);

  test('has no secret, no history, no test and nothing that was built', () => {
    for (const path of [
      '.env',
      '.env.local',
      'src/.env',
      'packages/dashboard/.env.production',
      'docker/.env',
      'docker/metrics.key',
      'scripts/own.key',
      '.git/config',
      '.data/admin-key',
      'src/.data/admin-key',
      '.npmrc.bak',
      'node_modules/pg/package.json',
      'packages/dashboard/node_modules/react/package.json',
      'dist/src/main.js',
      'packages/worker/dist/main.js',
      'packages/client/src/schema.ts',
      'test/e2e/programs/images.spec.ts',
      'bench/run.mjs',
      'packages/worker/src/claims/capacity.spec.ts',
      'packages/worker/src/testing/worker-harness.ts',
      'notes.txt',
    ]) {
      assert.equal(context.sends(path), false, path);
    }
  });

  test('has what the build reads', () => {
    const files = context.files();
    for (const path of [
      '.npmrc',
      'package-lock.json',
      'src/main.ts',
      'packages/dashboard/index.html',
      'scripts/build-if-needed.mjs',
    ]) {
      assert.ok(files.includes(path), path);
    }
    assert.deepEqual(
      files.filter((path) => !/^(?:migrations|scripts|src|packages)\/|^[\w.-]+$/.test(path)),
      [],
    );
  });
});

/** Seconds of a period such as `30s` or `2m`. */
function seconds(period = ''): number {
  const [, count, unit] = /^(\d+)([sm])$/.exec(period) ?? [];
  return Number(count) * (unit === 'm' ? 60 : 1);
}
