import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'vitest';
import { containerSpec, runtimeOn } from '../../../testing/container-spec.js';
import { CONTAINER_TIMING } from '../container/docker.container.js';
import { FakeDockerEngine } from '../../../testing/fake-docker-engine.js';
import { cut, refuse } from '../../../testing/fake-engine-answers.js';
import { imageId } from '../../../testing/fake-images.js';
import type { DockerRuntime } from '../docker.runtime.js';

const NEVER = new AbortController().signal;
const HOUR = 3_600_000;

describe('the budget of pulled images', () => {
  const engine = FakeDockerEngine.forEachTest();
  let now: number;

  beforeEach(() => {
    now = Date.UTC(2026, 0, 1);
  });

  /** A process of the worker. The fake engine's images have 1,000 bytes. */
  function worker(maxBytes = Infinity, maxAgeMs = 24 * HOUR): DockerRuntime {
    const imageBudget = { maxBytes, maxAgeMs };
    return runtimeOn(engine, { timing: CONTAINER_TIMING, imageBudget, now: () => now });
  }

  /** Also waits for the search that follows a pull. */
  async function pull(name: string): Promise<void> {
    const process = worker();
    await process.pull(name, NEVER);
    await process.removeUnusedImages();
  }

  function images(): string[] {
    const names = ['a', 'b', 'c', 'd'].map((name) => `${name}:latest`);
    return names.filter((name) => engine.images.has(name));
  }

  it('removes what was not used for longer than its age, with all marks, after a restart as well', async () => {
    await pull('a');
    now += 20 * HOUR;
    await pull('b');
    now += 5 * HOUR;
    await worker().removeUnusedImages();
    assert.deepEqual(images(), ['b:latest']);
    assert.ok(!engine.images.has(imageId('a:latest')));
  });

  it('removes those that were used least recently until the rest fits', async () => {
    for (const name of ['a', 'b', 'c']) {
      await pull(name);
      now += HOUR;
    }
    await pull('a');
    now += HOUR;
    await worker(2_000).removeUnusedImages();
    assert.deepEqual(images(), ['a:latest', 'c:latest']);
  });

  it('removes after a pull, but nothing that another worker may be about to start', async () => {
    const small = worker(1_000);
    await small.pull('a', NEVER);
    await small.pull('b', NEVER);
    await small.removeUnusedImages();
    assert.deepEqual(images(), ['a:latest', 'b:latest']);
    now += HOUR;
    await small.pull('c', NEVER);
    await small.removeUnusedImages();
    assert.deepEqual(images(), ['c:latest']);
  });

  it('removes an older image whose name a newer one took', async () => {
    await pull('a');
    engine.images.publish('a:latest', imageId('newer'));
    await pull('a');
    now += 25 * HOUR;
    await pull('a');
    await worker().removeUnusedImages();
    assert.deepEqual(
      [engine.images.has(imageId('a:latest')), engine.images.has(imageId('newer'))],
      [false, true],
    );
  });

  it('keeps what a container has, what a claimed run needs, and what no worker pulled', async () => {
    const busy = worker();
    engine.images.add('d:latest');
    for (const name of ['a', 'b', 'c', 'd']) await busy.pull(name, NEVER);
    await busy.start(containerSpec(imageId('a:latest')));
    const end = busy.keep('b');
    now += 25 * HOUR;
    await busy.removeUnusedImages();
    assert.deepEqual(images(), ['a:latest', 'b:latest', 'd:latest']);
    end();
    await busy.removeUnusedImages();
    assert.deepEqual(images(), ['a:latest', 'd:latest']);
  });

  it('keeps the image that a claimed run has pulled when its name moves', async () => {
    const busy = worker();
    const end = busy.keep('a');
    await busy.pull('a', NEVER);
    engine.images.add('a:latest', imageId('by hand'));
    now += 25 * HOUR;
    await busy.removeUnusedImages();
    assert.ok(engine.images.has(imageId('a:latest')));
    end();
    await busy.removeUnusedImages();
    assert.ok(!engine.images.has(imageId('a:latest')));
  });

  it('keeps an image that somebody has given another name', async () => {
    await pull('a');
    engine.images.add('mine:1', imageId('a:latest'));
    now += 25 * HOUR;
    await worker().removeUnusedImages();
    assert.deepEqual(images(), ['a:latest']);
  });

  it('knows an image whose pull ended after the worker did', async () => {
    engine.answerNext('GET /images/a:latest/json', cut);
    await worker().pull('a', NEVER);
    assert.deepEqual(engine.images.marksOf('a:latest'), []);
    now += 25 * HOUR;
    await worker().removeUnusedImages();
    assert.deepEqual(images(), []);
  });

  it('removes all unused images when the disk of the engine is full', async () => {
    await pull('a');
    now += HOUR;
    engine.answerNext('POST /images/create', refuse(500, 'write /x: no space left on device'));
    await assert.rejects(worker().pull('b', NEVER), { name: 'EngineFault' });
    assert.deepEqual(images(), []);
  });

  it('keeps an image that another worker used between the search and the removal', async () => {
    await pull('a');
    now += 25 * HOUR;
    const sweeper = worker();
    engine.answerNext('GET /containers/json', (response) => {
      void pull('a').then(() => response.writeHead(200, { 'Content-Type': 'application/json' }).end('[]'));
    });
    await sweeper.removeUnusedImages();
    assert.deepEqual(images(), ['a:latest']);
  });

  it('goes on after an image that the engine does not remove', async () => {
    for (const name of ['a', 'b']) await pull(name);
    now += 25 * HOUR;
    engine.answerNext(`DELETE /images/${imageId('a:latest')}`, refuse(409, 'image is being used'));
    await worker().removeUnusedImages();
    assert.deepEqual(images(), ['a:latest']);
  });

  it('removes nothing without limits', async () => {
    await pull('a');
    now += 10_000 * HOUR;
    await worker(Infinity, Infinity).removeUnusedImages();
    assert.deepEqual(images(), ['a:latest']);
  });
});
