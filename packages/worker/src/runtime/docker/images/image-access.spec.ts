import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'vitest';
import { containerSpec, runtimeOn } from '../../../testing/container-spec.js';
import { FakeDockerEngine } from '../../../testing/fake-docker-engine.js';
import { cut, refuse } from '../../../testing/fake-engine-answers.js';
import { imageId } from '../../../testing/fake-images.js';
import { PULL_TIMING } from './image-pull.js';

const NEVER = new AbortController().signal;
const PULL = 'POST /images/create';
const PRIVATE = 'registry.test/team/secret:1';
const LOGIN = { server: 'registry.test', username: 'bot', password: 'pull-password' };
/** An image of a registry whose manifest names the private image. */
const FOREIGN = 'evil.test/x:latest';

describe('who gets an image of the engine', () => {
  const engine = FakeDockerEngine.forEachTest();

  beforeEach(() => {
    engine.images.publish(FOREIGN, imageId(PRIVATE));
  });

  const runtime = () => runtimeOn(engine);

  for (const image of ['sha256', 'sha256:fc9', `sha256:${'ab'.repeat(32)}`, 'ab'.repeat(32)]) {
    it(`refuses the id or prefix ${image.slice(0, 12)} without asking the engine`, async () => {
      await assert.rejects(runtime().pull(image, NEVER), { name: 'RunFault', reported: 'image' });
      assert.deepEqual(engine.calls, []);
    });
  }

  it('refuses what the engine has under another name', async () => {
    engine.images.add('other:1', imageId('other:1'));
    engine.answerNext('GET /images/tool:latest/json', (response) =>
      response.end(
        JSON.stringify({ Id: imageId('other:1'), RepoTags: ['other:1'], RepoDigests: [], Size: 1 }),
      ),
    );
    await assert.rejects(runtime().pull('tool', NEVER), { name: 'RunFault', reported: 'image' });
  });

  it('knows an image by any form of its name, and by its digest', async () => {
    const digest = `sha256:${'a'.repeat(64)}`;
    engine.images.add('busybox:1', imageId('b'));
    engine.answerNext('GET /images/docker.io/library/busybox:1/json', (response) =>
      response.end(JSON.stringify({ Id: imageId('b'), RepoTags: ['busybox:1'], RepoDigests: [], Size: 1 })),
    );
    assert.equal(await runtime().pull('docker.io/library/busybox:1', NEVER), imageId('b'));
    const byDigest = `registry.test/tool@${digest}`;
    assert.equal(await runtime().pull(`registry.test/tool:2@${digest}`, NEVER), imageId(byDigest));
  });

  it('creates the container from the image that was checked, also when its name moves', async () => {
    const image = await runtime().pull('tool', NEVER);
    engine.images.add('tool:latest', imageId('newer'));
    await runtime().start(containerSpec(image));
    assert.equal(engine.container().create.Image, imageId('tool:latest'));
  });

  it('refuses the names of its marks', async () => {
    await runtime().pull('tool', NEVER);
    for (const image of ['', 'library/', 'docker.io/', 'docker.io/library/'].map(
      (at) => `${at}longshore-image:empty`,
    ))
      await assert.rejects(runtime().pull(image, NEVER), { name: 'RunFault' });
  });

  for (const [what, login] of [
    ['without a login', null],
    ['with a login of its own', { ...LOGIN, server: 'evil.test' }],
  ] as const) {
    it(`a foreign registry that names a private image does not get it ${what}`, async () => {
      const worker = runtime();
      const end = worker.keep(PRIVATE);
      await worker.pull(PRIVATE, NEVER, LOGIN);
      // In use: it cannot be removed, so its registry cannot be asked.
      await assert.rejects(worker.pull(FOREIGN, NEVER, login), /has it from another repository/);
      end();
      // The engine has nothing to give, and neither has the registry.
      engine.images.publish(FOREIGN, imageId(PRIVATE));
      engine.answerNext(PULL, (response) => {
        engine.images.pull(FOREIGN);
        response.end();
      });
      engine.answerNext(PULL, refuse(500, 'blob unknown to registry'));
      await assert.rejects(worker.pull(FOREIGN, NEVER, login), /could not be pulled/);
      assert.ok(!engine.images.has(imageId(PRIVATE)), 'the image was removed before the registry was asked');
    });
  }

  it('a registry that has the image itself gives it, to every run from then on', async () => {
    const worker = runtime();
    await worker.pull(PRIVATE, NEVER, LOGIN);
    assert.equal(await worker.pull(FOREIGN, NEVER), imageId(PRIVATE));
    await worker.pull(PRIVATE, NEVER, LOGIN);
    engine.answerNext(PULL, cut);
    assert.equal(
      await worker.pull(FOREIGN, NEVER),
      imageId(PRIVATE),
      'a login makes nothing private that was free',
    );
  });

  it('a private image by its digest is given to those alone to whom its registry gives it now', async () => {
    const image = `registry.test/team/secret@sha256:${'a'.repeat(64)}`;
    const worker = runtimeOn(engine, { pullTiming: { ...PULL_TIMING, retryMs: [] } });
    await worker.pull(image, NEVER, LOGIN);
    // The engine has it, and pulls it by its digest without asking.
    for (const login of [null, { ...LOGIN, password: 'wrong' }]) {
      engine.answerNext(`GET /distribution/${image}/json`, refuse(401, 'unauthorized'));
      await assert.rejects(worker.pull(image, NEVER, login), /the registry refused access$/);
    }
    assert.equal(await worker.pull(image, NEVER, LOGIN), imageId(image));
  });

  it('a private image stays private when its name moves to a newer one', async () => {
    await runtime().pull(PRIVATE, NEVER, LOGIN);
    engine.images.publish(PRIVATE, imageId('newer'));
    await runtime().pull(PRIVATE, NEVER, LOGIN);
    engine.images.add('other.test/y:1', imageId(PRIVATE));
    engine.answerNext(PULL, cut);
    await assert.rejects(runtime().pull('other.test/y:1', NEVER), /could not be pulled/);
  });

  it('an image counts as private when the worker ended between pull and mark', async () => {
    const died = runtime().pull(PRIVATE, NEVER, LOGIN);
    // Nothing is marked after the pull.
    engine.answerNext(`GET /images/${PRIVATE}/json`, cut);
    await assert.rejects(died);
    assert.ok(engine.images.has(PRIVATE));
    assert.deepEqual(engine.images.marksOf(PRIVATE), []);
    engine.answerNext(PULL, cut);
    await assert.rejects(runtime().pull(PRIVATE, NEVER), /could not be pulled/);
    await assert.rejects(
      (async () => {
        engine.answerNext(PULL, (response) => {
          engine.images.pull(FOREIGN);
          response.end();
        });
        const worker = runtime();
        worker.keep(PRIVATE);
        await worker.pull(FOREIGN, NEVER);
      })(),
      /has it from another repository/,
    );
  });

  it('an image that its registry gives without a login is used, whoever had a login before', async () => {
    await runtime().pull(PRIVATE, NEVER, LOGIN);
    assert.equal(await runtime().pull(PRIVATE, NEVER), imageId(PRIVATE));
  });

  it('pulls nothing with a login that could not be marked before', async () => {
    engine.answerNext('POST /images/import', refuse(500, 'no space left on device'));
    await assert.rejects(runtime().pull(PRIVATE, NEVER, LOGIN), { name: 'EngineFault' });
    assert.ok(!engine.routes().includes(PULL));
  });
});
