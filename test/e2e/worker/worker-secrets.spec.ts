import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { beforeAll, describe, onTestFinished, test } from 'vitest';
import { PULL_TIMING } from '@longshore/worker/runtime/docker/images/image-pull';
import { containerSpec } from '@longshore/worker/testing/container-spec';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { runtimeFor, startDockerWorker } from '../../support/images/docker-runtime.js';
import { PrivateRegistry, REGISTRY_LOGIN } from '../../support/images/private-registry.js';
import {
  makeDataDir,
  processesNaming,
  startService,
  until,
  type ServiceProcess,
  type TestProcess,
} from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

const ADMIN_KEY = 'e2e-admin-key-of-the-tests';
const WORKER_KEY = 'e2e-worker-key-of-the-tests';
const TOKEN = 'token-value-of-the-tests';
/** What must be found nowhere after runs that used it. */
const VALUES = [TOKEN, REGISTRY_LOGIN.password] as const;
const NEVER = new AbortController().signal;

/** Prints what it has, and ends with 7; waits instead if the first argument says so. */
const SCRIPT = `
echo "$GREETING: $# $1"
echo "token $TOKEN"
printf '{"type":"SEEN","msg":"%s","payload":{"token":"%s"}}\\n' "$TOKEN" "$TOKEN"
[ "$1" != wait ] || exec sleep 600
exit 7`;

const forTests = await startTestEngine();

describe('secrets with a container engine', skipFor(forTests.skip), () => {
  let registry: PrivateRegistry;
  let image: string;
  let service: ServiceProcess;
  let worker: TestProcess;
  let send: Send;
  let tmp: string;

  beforeAll(async () => {
    const { engine } = forTests;
    registry = await PrivateRegistry.start(engine);
    image = await registry.publish(await engine.buildScript('private', SCRIPT), 'tool');
    tmp = await makeDataDir();
    service = await startService({
      env: {
        SERVICE_API_KEYS: `admin:${ADMIN_KEY},worker:${WORKER_KEY}`,
        SERVICE_SECRETS_KEY: randomBytes(32).toString('base64'),
        SERVICE_LOG_LEVEL: 'debug',
      },
    });
    send = senderTo(service.url, ADMIN_KEY);
    worker = await startDockerWorker(
      engine.host,
      { url: service.url, key: WORKER_KEY, id: 'e2e-secrets', env: { SERVICE_LOG_LEVEL: 'debug' } },
      tmp,
    );
    await put('api-token', 'opaque', TOKEN);
    await put('login', 'registry', JSON.stringify({ server: registry.address, ...REGISTRY_LOGIN }));
    await put(
      'wrong',
      'registry',
      JSON.stringify({ server: registry.address, username: 'puller', password: 'no' }),
    );
    await put('other', 'registry', JSON.stringify({ server: 'registry.test', ...REGISTRY_LOGIN }));
  });

  async function put(name: string, kind: string, value: string): Promise<void> {
    const { status, text } = await send('PUT', `/secrets/${name}`, { body: { kind, value } });
    assert.equal(status, 201, text);
  }

  const USED = { secrets: { TOKEN: 'api-token' }, image_pull_secret: 'login', env: { GREETING: 'hello' } };

  // oxlint-disable-next-line typescript/no-explicit-any -- a run as it comes
  async function endOf(body: Record<string, unknown>): Promise<any> {
    const { status, body: created, text } = await send('POST', '/runs', { body: { image, ...body } });
    assert.equal(status, 201, text);
    const read = () => send('GET', `/runs/${created.id}`);
    await until(
      async () => ['COMPLETED', 'FAILED', 'CANCELLED'].includes((await read()).body.state),
      `run ${created.id} has ended`,
    );
    return (await read()).body;
  }

  test('a file with a secret is found by its variable, lists show no content, and nothing of it stays', async () => {
    const content = 'shown to all who see the run';
    const files = {
      '/etc/job/greeting': { content, mode: '0440' },
      '/run/keys/token': { secret: 'api-token', env: 'TOKEN_FILE', mode: '0400' },
    };
    const script =
      'cat /etc/job/greeting; echo; stat -c "%a %u %g" $TOKEN_FILE /etc/job/greeting; cat "$TOKEN_FILE"; exit 7';
    const run = await endOf({
      files,
      image_pull_secret: 'login',
      user: '1000:100',
      command: ['sh', '-c', script],
    });
    const { error_message: message } = run.execution_summary;
    assert.match(
      message,
      /shown to all who see the run\n400 1000 100\n440 1000 100\n\*\*\*$/,
      JSON.stringify(run),
    );
    assert.deepEqual(run.files, files);
    const { body } = await send('GET', '/runs?limit=1');
    const sha256 = createHash('sha256').update(content).digest('hex');
    assert.deepEqual(body.data[0].files, {
      ...files,
      '/etc/job/greeting': { size: content.length, sha256, mode: '0440' },
    });
    const { text: log } = await send('GET', `/runs/${run.id}/logs`);
    assert.ok(log.endsWith('***') || log.includes('***'), log);
    assert.ok(!log.includes(TOKEN), log);
    assert.deepEqual(await forTests.engine.containerIds(), []);
  });

  test('a private image is pulled with its login and gets variables, arguments and secrets', async () => {
    const run = await endOf({ ...USED, args: ['a b'] });
    const { cause, exit_code: exitCode, error_message: message } = run.execution_summary;
    assert.deepEqual([run.state, cause, exitCode], ['FAILED', 'exit', 7], JSON.stringify(run));
    assert.match(message, /hello: 1 a b\ntoken \*\*\*$/);
    const seen = run.events.find(({ type }: { type: string }) => type === 'SEEN');
    assert.deepEqual([seen.msg, seen.payload], ['***', { token: '***' }]);
    const { text: log } = await send('GET', `/runs/${run.id}/logs`);
    assert.ok(log.includes('token ***'), log);
  });

  test('a command takes the place of the entrypoint', async () => {
    const script = 'printf \'{"by":"%s","token":"%s"}\' "$0 $1" "$TOKEN" >"$SERVICE_OUTPUT_PATH"';
    const run = await endOf({ ...USED, command: ['/bin/sh', '-c', script], args: ['the', 'run'] });
    assert.deepEqual([run.state, run.outputs], ['COMPLETED', { by: 'the run', token: '***' }]);
  });

  test('runs without the login, with a wrong one or that of another registry do not get the image', async () => {
    for (const [name, reason] of [
      [undefined, /the registry refused access$/],
      ['wrong', /with its login: the registry refused access$/],
      ['other', /its pull secret is for another registry$/],
    ] as const) {
      const run = await endOf(name === undefined ? {} : { image_pull_secret: name });
      const { cause, error_message: message } = run.execution_summary;
      assert.deepEqual([run.state, cause], ['FAILED', 'image'], JSON.stringify(run));
      assert.match(message, reason);
    }
  });

  test('an image that was pulled with a login is not used without it while its registry is away', async () => {
    const { engine } = forTests;
    const runtime = runtimeFor(engine);
    const login = { server: registry.address, ...REGISTRY_LOGIN };
    await runtime.pull(image, NEVER, login);
    const [older = ''] = (await engine.docker.getImage(image).inspect()).RepoDigests;
    assert.match(older, /@sha256:/);
    await registry.publish(await engine.buildScript('newer', `${SCRIPT} # newer`), 'tool');
    await runtime.pull(image, NEVER, login);
    await registry.stop();
    for (const name of [image, older]) await assert.rejects(runtime.pull(name, NEVER), /could not be pulled/);
    await assert.rejects(runtime.pull(image, NEVER, login), /could not be pulled with its login/);
    await registry.startAgain();
    await runtime.pull(image, NEVER, login);
    const { Id, RepoTags } = await engine.docker.getImage(image).inspect();
    for (const mark of RepoTags.filter((tag) => tag !== image))
      await assert.rejects(runtime.pull(mark, NEVER), /is a name that workers use/);
    for (const id of [Id, Id.slice(0, 'sha256:fc9'.length)])
      await assert.rejects(runtime.pull(id, NEVER), /is not a valid image reference/);
  });

  test('a private image that the engine has is given by its digest to those alone who have a login for it', async () => {
    const { engine } = forTests;
    const runtime = runtimeFor(engine, { pullTiming: { ...PULL_TIMING, retryMs: [] } });
    const login = { server: registry.address, ...REGISTRY_LOGIN };
    const id = await runtime.pull(image, NEVER, login);
    const [digest = ''] = (await engine.docker.getImage(image).inspect()).RepoDigests;
    // The engine itself asks nobody.
    const [repository, tag] = digest.split('@');
    await engine.docker.createImage({ fromImage: repository, tag }).then(untilEnd);
    await assert.rejects(runtime.pull(digest, NEVER), /the registry refused access$/);
    await assert.rejects(
      runtime.pull(digest, NEVER, { ...login, password: 'no' }),
      /with its login: the registry refused access$/,
    );
    assert.equal(await runtime.pull(digest, NEVER, login), id);
  });

  test('a registry whose manifest names the private image by its id does not get it', async () => {
    const { engine } = forTests;
    const runtime = runtimeFor(engine);
    const login = { server: registry.address, ...REGISTRY_LOGIN };
    const id = await runtime.pull(image, NEVER, login);
    const foreign = await foreignRegistry(id);
    // The engine itself gives it: what it has is not downloaded.
    await engine.docker.createImage({ fromImage: foreign, tag: 'latest' }).then(untilEnd);
    assert.equal((await engine.docker.getImage(foreign).inspect()).Id, id);
    await engine.removeImage(foreign);
    const container = await runtime.start({ ...containerSpec(id), command: ['/bin/sh', '-c', 'sleep 600'] });
    try {
      await assert.rejects(runtime.pull(foreign, NEVER), /has it from another repository/);
      await assert.rejects(
        runtime.pull(foreign, NEVER, { ...login, server: foreign.split('/')[0] ?? '' }),
        /has it from another repository/,
      );
    } finally {
      await container.remove();
    }
    await assert.rejects(runtime.pull(foreign, NEVER), /could not be pulled|was not found/);
    assert.equal(await runtime.pull(image, NEVER, login), id);
  });

  test('no value is found outside of the container and its environment', async () => {
    const { engine } = forTests;
    const { body: run } = await send('POST', '/runs', { body: { image, ...USED, args: ['wait'] } });
    const events = async () => (await send('GET', `/runs/${run.id}`)).body.events;
    await until(async () => JSON.stringify(await events()).includes('SEEN'), 'the container works');
    for (const id of await engine.containerIds()) {
      const inspected = await engine.docker.getContainer(id).inspect();
      assert.ok(inspected.Config.Env.includes(`TOKEN=${TOKEN}`));
      assertUnseen(JSON.stringify({ ...inspected, Config: { ...inspected.Config, Env: [] } }), 'inspection');
    }
    const commands = (await processesNaming([...VALUES])).map(({ command }) => command);
    assertUnseen(commands.join('\n'), 'list of processes');
    await checkFiles(tmp);
    await send('POST', `/runs/${run.id}/cancel`);
    await until(async () => (await engine.containerIds()).length === 0, 'the container is removed');
    for (const path of ['/events?limit=500', '/runs?limit=100', '/secrets', '/audit', '/metrics'])
      assertUnseen((await send('GET', path)).text, path);
    worker.signal('SIGTERM');
    await worker.exited;
    await service.kill('SIGTERM');
    assertUnseen(worker.output, "the worker's log");
    assertUnseen(service.output, "the service's log");
    // Tables, indexes and write-ahead log: more than a dump has.
    assert.ok((await checkFiles(service.dataDir)) > 0, 'the search finds what the database holds');
  });
});

/** A registry that has nothing but a manifest with the id of an image. @returns the name that leads to it */
async function foreignRegistry(id: string): Promise<string> {
  const mediaType = 'application/vnd.docker.distribution.manifest.v2+json';
  const config = { mediaType: 'application/vnd.docker.container.image.v1+json', size: 1, digest: id };
  const manifest = JSON.stringify({ schemaVersion: 2, mediaType, config, layers: [] });
  const server = createServer(({ url = '' }, response) => {
    if (url === '/v2/') response.end('{}');
    else if (url.includes('/manifests/')) {
      const digest = `sha256:${createHash('sha256').update(manifest).digest('hex')}`;
      const headers = { 'Content-Length': Buffer.byteLength(manifest), 'Docker-Content-Digest': digest };
      response.writeHead(200, { 'Content-Type': mediaType, ...headers }).end(manifest);
    } else response.writeHead(404).end('{}');
  });
  onTestFinished(() => void server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return `127.0.0.1:${typeof address === 'object' ? address?.port : ''}/x`;
}

async function untilEnd(report: AsyncIterable<unknown>): Promise<void> {
  for await (const piece of report) void piece;
}

function assertUnseen(text: string, where: string): void {
  for (const value of VALUES) assert.ok(!text.includes(value), `${where} shows ${value}`);
}

/** @returns the number of files with the name of the secret */
async function checkFiles(folder: string): Promise<number> {
  let named = 0;
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((found) => found.isFile())) {
    const path = join(entry.parentPath, entry.name);
    const bytes = await readFile(path).catch(() => Buffer.alloc(0));
    for (const value of VALUES) assert.equal(bytes.includes(value), false, `${path} holds ${value}`);
    if (bytes.includes('api-token')) named += 1;
  }
  return named;
}
