import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { beforeEach, describe, it } from 'vitest';
import { FakeDockerEngine } from '../../../testing/fake-docker-engine.js';
import { refuse, reports, silence } from '../../../testing/fake-engine-answers.js';
import { imageId } from '../../../testing/fake-images.js';
import { MemoryLog, runtimeOn, until } from '../../../testing/container-spec.js';
import { ImagePolicy } from './image-policy.js';
import { PULL_TIMING, type PullTiming } from './image-pull.js';

const NEVER = new AbortController().signal;

describe('image pull', () => {
  const engine = FakeDockerEngine.forEachTest();
  let log: MemoryLog;

  beforeEach(() => {
    log = new MemoryLog();
  });

  const runtime = (pullTiming: Partial<PullTiming> = {}) =>
    runtimeOn(engine, { log, pullTiming: { ...PULL_TIMING, retryMs: [], ...pullTiming } });

  function pings(): number {
    return engine.routes().filter((route) => route === 'GET /_ping').length;
  }

  const digest = `sha256:${'a'.repeat(64)}`;
  for (const [image, fromImage, tag] of [
    ['tool', 'tool', 'latest'],
    ['localhost:5000/team/tool', 'localhost:5000/team/tool', 'latest'],
    ['team/tool:1.2', 'team/tool', '1.2'],
    [`team/tool:1.2@${digest}`, 'team/tool', digest],
  ] as const) {
    it(`requests one image, not all tags: ${image}`, async () => {
      await runtime().pull(image, NEVER);
      assert.deepEqual(
        engine.calls.filter(({ route }) => route === 'POST /images/create').map(({ query }) => query),
        [{ fromImage, tag }],
      );
    });
  }

  const none = 'and the worker has none of that name';
  for (const [words, reason, name] of [
    ['toomanyrequests: slow down', 'the registry limits requests', 'Error'],
    ['unauthorized: authentication required', 'the registry refused access', 'RunFault'],
    ['write /var/lib/docker/tmp/x: no space left on device', "the engine's disk is full", 'EngineFault'],
    [
      'no matching manifest for linux/arm64 in the manifest list',
      'it is not made for this kind of machine',
      'Error',
    ],
    [
      'Get "http://10.0.0.1:22/v2/": malformed HTTP response "SSH-2.0-x"',
      'its registry did not provide it',
      'Error',
    ],
  ] as const) {
    it(`gives a short reason, and the words of the registry to the log only: ${words}`, async () => {
      engine.answerNext(
        'POST /images/create',
        reports({ status: 'Pulling' }, { errorDetail: { message: words }, error: words }),
        refuse(500, words),
      );
      for (let i = 0; i < 2; i++) {
        await assert.rejects(runtime().pull('tool', NEVER), {
          name,
          message: `Image 'tool:latest' could not be pulled, ${none}: ${reason}`,
        });
        assert.deepEqual(log.warnings[i], {
          fields: { image: 'tool:latest', reason: words },
          message: 'image not pulled',
        });
      }
    });
  }

  it('asks the engine for nothing when the image is refused', async () => {
    const policy = new ImagePolicy({ allowedImages: ['ghcr.io/*'], localRegistries: false });
    await assert.rejects(runtimeOn(engine, { policy }).pull('tool', NEVER), /SERVICE_WORKER_IMAGES/);
    assert.deepEqual(engine.calls, []);
  });

  it('says when the image does not exist', async () => {
    engine.answerNext('POST /images/create', refuse(404, 'manifest for tool:9 not found: manifest unknown'));
    await assert.rejects(runtime().pull('tool:9', NEVER), {
      name: 'RunFault',
      reported: 'image',
      message: /^Image 'tool:9' was not found/,
    });
  });

  it('uses a local image when the registry is unreachable, and logs it', async () => {
    engine.images.add('team/tool:latest');
    engine.answerNext('POST /images/create', refuse(500, 'dial tcp: connection refused'));
    await runtime().pull('team/tool', NEVER);
    assert.deepEqual(log.warnings, [
      {
        fields: { image: 'team/tool:latest', reason: 'dial tcp: connection refused' },
        message: 'image not pulled, using the one that is here',
      },
    ]);
  });

  describe('with a login', () => {
    const password = 'pull-password';
    const login = { server: 'https://Registry.test:5000/v2/', username: 'bot', password };
    const image = 'registry.test:5000/team/tool:1';

    it('sends it to the registry of the image, and nowhere else', async () => {
      engine.images.add(image);
      await runtime().pull(image, NEVER, login);
      assert.deepEqual(engine.logins, [{ username: 'bot', password, serveraddress: login.server }]);
      assert.ok(!JSON.stringify(engine.calls).includes(password));
      for (const other of ['tool', 'registry.test/team/tool', 'registry.test:5001/tool']) {
        await assert.rejects(runtime().pull(other, NEVER, login), {
          name: 'RunFault',
          reported: 'image',
          message: /cannot be pulled: its pull secret is for another registry$/,
        });
      }
      assert.equal(engine.logins.length, 1);
    });

    it('knows the default registry by all of its names', async () => {
      engine.images.add('tool:latest');
      for (const server of ['docker.io', 'https://index.docker.io/v1/', 'registry-1.docker.io'])
        await runtime().pull('tool', NEVER, { ...login, server });
      assert.equal(engine.logins.length, 3);
    });

    it('does not use a local image when the registry refuses the login or cannot be reached', async () => {
      engine.images.add(image);
      const basic = Buffer.from(`bot:${password}`).toString('base64');
      engine.answerNext(
        'POST /images/create',
        refuse(500, `unauthorized: ${password} (Basic ${basic})`),
        refuse(500, 'dial tcp: connection refused'),
      );
      await assert.rejects(runtime().pull(image, NEVER, login), {
        name: 'RunFault',
        reported: 'image',
        message: `Image '${image}' could not be pulled with its login: the registry refused access`,
      });
      await assert.rejects(
        runtime().pull(image, NEVER, login),
        /^Error: .* with its login: its registry cannot be reached$/,
      );
      assert.deepEqual(log.warnings[0]?.fields, { image, reason: 'unauthorized: *** (Basic ***)' });
    });

    it('logs no piece of it when the words of the engine are too long for the log', async () => {
      engine.answerNext('POST /images/create', refuse(500, `${'x'.repeat(990)} ${password}`));
      await assert.rejects(runtime().pull(image, NEVER, login));
      assert.deepEqual(log.warnings[0]?.fields, { image, reason: `${'x'.repeat(990)} ***` });
    });

    it('fails when the engine does not mark the pulled image as private', async () => {
      engine.images.add(image);
      engine.answerNext(`POST /images/${imageId(image)}/tag`, refuse(500, 'no space left on device'));
      await assert.rejects(
        runtime().pull(image, NEVER, login),
        /^EngineFault: .* could not be pulled with its login/,
      );
    });

    it('keeps the pulled image from runs without it while the registry cannot be reached', async () => {
      engine.images.add(image);
      await runtime().pull(image, NEVER, login);
      engine.answerNext('POST /images/create', refuse(500, 'no basic auth credentials'));
      await assert.rejects(runtime().pull(image, NEVER), {
        name: 'RunFault',
        message: /the registry refused access$/,
      });
      engine.answerNext('POST /images/create', refuse(500, 'dial tcp: connection refused'));
      await assert.rejects(runtime().pull(image, NEVER), /could not be pulled/);
      await runtime().pull(image, NEVER);
    });

    it('keeps images of its repository whose name a newer one took from runs without it', async () => {
      engine.images.add(image);
      await runtime().pull(image, NEVER, login);
      const older = `registry.test:5000/team/tool@${digest}`;
      engine.images.add(older);
      const refused = refuse(500, 'dial tcp: connection refused');
      engine.answerNext('POST /images/create', refused, refused);
      await assert.rejects(runtime().pull(older, NEVER), /could not be pulled/);
      engine.images.add('registry.test:5000/team/other:1');
      await runtime().pull('registry.test:5000/team/other:1', NEVER);
    });
  });

  describe('in silence', () => {
    const quick = { intervalMs: 10, awayMs: 50 };

    it('goes on while the engine answers, and the log tells how far it is', async () => {
      engine.images.add('tool:latest');
      let stream: ServerResponse | null = null;
      engine.answerNext('POST /images/create', (response) => {
        response.writeHead(200).write('{"status":"Extracting","id":"a"}\n{"status":"Waiting","id":"b"}\n');
        stream = response;
      });
      const pulling = runtime(quick).pull('tool', NEVER);
      await until(() => pings() > 10);
      Object(stream).end();
      await pulling;
      const { fields } = log.infos.at(-1) ?? {};
      assert.deepEqual(Reflect.get(Object(fields), 'layers'), { Extracting: 1, Waiting: 1 });
      assert.deepEqual(log.warnings, []);
    });

    it('also waits so for the first word', async () => {
      engine.images.add('tool:latest');
      engine.answerNext(
        'POST /images/create',
        (response) => void until(() => pings() > 10).then(() => response.end()),
      );
      await runtime(quick).pull('tool', NEVER);
    });

    it('is given up when the engine does not answer', async () => {
      engine.answerNext('POST /images/create', (response) => response.writeHead(200).write('\n'));
      engine.answerNext('GET /_ping', ...Array.from({ length: 1_000 }, () => refuse(500, 'broken')));
      await assert.rejects(runtime(quick).pull('tool', NEVER), /^EngineFault: .*engine did not answer$/);
    });

    it('is given up after the limit of the operator', async () => {
      engine.answerNext('POST /images/create', (response) => response.writeHead(200).write('\n'));
      await assert.rejects(
        runtime({ ...quick, silentMs: 50 }).pull('tool', NEVER),
        /^Error: .* could not be pulled.*: its registry sent nothing more$/,
      );
    });
  });

  describe('after an answer that would be the image’s fault', () => {
    for (const words of [
      'content digest sha256:0f: not found',
      'unauthorized: authentication required',
      'error pulling image: download failed after attempts=1: unknown blob (404 Not Found)',
    ]) {
      it(`asks again, because it may have passed: ${words}`, async () => {
        engine.answerNext('POST /images/create', reports({ error: words }), refuse(500, words));
        await runtime({ retryMs: [1, 1] }).pull('tool', NEVER);
        assert.equal(engine.routes().filter((route) => route === 'POST /images/create').length, 3);
      });

      it(`believes it after the last try: ${words}`, async () => {
        engine.answerNext('POST /images/create', ...Array.from({ length: 3 }, () => refuse(500, words)));
        await assert.rejects(runtime({ retryMs: [1, 1] }).pull('tool', NEVER), {
          name: 'RunFault',
          reported: 'image',
        });
      });
    }

    it('ends at once when it is aborted in between', async () => {
      const abort = new AbortController();
      engine.answerNext('POST /images/create', refuse(404, 'manifest unknown'));
      const pulling = runtime({ retryMs: [600_000] }).pull('tool', abort.signal);
      await until(() => log.warnings.length > 0);
      abort.abort();
      await assert.rejects(pulling, /was given up/);
    });
  });

  for (const words of [
    'Get "https://registry.test/v2/": dial tcp 10.0.0.1:443: connect: connection refused',
    'Get "https://denied.test/v2/": dial tcp: lookup denied.test on 10.0.0.1:53: no such host',
    'received unexpected HTTP status: 503 Service Unavailable',
    'failed to fetch anonymous token: unexpected status: 503 Service Unavailable: denied',
    'toomanyrequests: slow down',
    'failed to register layer: open /var/lib/docker/x: permission denied',
  ]) {
    it(`counts against the machine, not the image: ${words}`, async () => {
      engine.answerNext('POST /images/create', refuse(500, words));
      await assert.rejects(runtime({ retryMs: [1] }).pull('tool', NEVER), { name: 'Error' });
    });
  }

  it('ends when it is aborted, without a lookup of a local image', async () => {
    engine.images.add('tool:latest');
    engine.answerNext('POST /images/create', silence);
    const abort = new AbortController();
    const pulling = runtime().pull('tool', abort.signal);
    await until(() => engine.routes().includes('POST /images/create'));
    abort.abort();
    await assert.rejects(pulling, /was given up/);
    assert.ok(!engine.routes().includes('GET /images/tool:latest/json'));
  });

  it('refuses a reference that would address other paths of the engine', async () => {
    await assert.rejects(
      runtime().pull('../containers/json?all=1', NEVER),
      /^RunFault: .*not a valid image reference/,
    );
    assert.deepEqual(engine.calls, []);
  });

  it('reports an unreachable engine', async () => {
    const away = runtimeOn({ host: 'unix:///nowhere/docker.sock' }, { log });
    await assert.rejects(away.pull('tool', NEVER), /^EngineFault: .*the container engine did not answer/);
  });
});
