import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { runtimeOn } from '../../testing/container-spec.js';
import { FakeDockerEngine } from '../../testing/fake-docker-engine.js';
import { refuse } from '../../testing/fake-engine-answers.js';

const START = 'POST /containers/ID/start';

describe('a probe of the engine', () => {
  const engine = FakeDockerEngine.forEachTest();

  const runtime = () => runtimeOn(engine);

  it('starts an image that it makes itself, with a command that no image has, and leaves nothing', async () => {
    engine.images.add('team/tool:latest');
    await runtime().probe();
    const { query } = engine.calls[0] ?? {};
    assert.deepEqual(query, { fromSrc: '-' }, 'nothing is pulled, and no name is given');
    const { body } = engine.calls.find(({ route }) => route === 'POST /containers/create') ?? {};
    const { Image, Entrypoint, User, WorkingDir } = Object(body);
    assert.match(Image, /^sha256:[0-9a-f]{64}$/);
    assert.deepEqual([Entrypoint, User, WorkingDir], [['longshore-probe'], '0', '/']);
    const names = engine.images.list().flatMap(({ RepoTags }) => RepoTags);
    assert.deepEqual([engine.containers.size, names], [0, ['team/tool:latest']]);
  });

  it('fails with what the engine says, and removes its container and its image', async () => {
    for (const [route, answer] of [
      [START, refuse(500, 'network bridge not found')],
      [START, refuse(500, 'exec: "runc": executable file not found in $PATH')],
      ['POST /containers/create', refuse(500, 'no space left on device')],
      ['POST /images/import', refuse(500, 'no space left on device')],
    ] as const) {
      engine.answerNext(route, answer);
      await assert.rejects(runtime().probe(), { message: /not found|no space/ });
      assert.deepEqual([engine.containers.size, engine.images.list()], [0, []]);
    }
  });

  it('leaves a container that a killed worker with another state folder did not remove until it is in no use', async () => {
    const refusals = Array.from({ length: 6 }, () => refuse(500, 'device busy'));
    engine.answerNext('DELETE /containers/ID', ...refusals);
    await assert.rejects(runtimeOn(engine, { instance: '00000000' }).probe(), /container not removed/);
    assert.equal(await runtime().removeAbandoned(isLost), 1);
    const later = runtimeOn(engine, { now: () => Date.now() + 601_000 });
    assert.equal(await later.removeAbandoned(isLost), 0);
    assert.equal(engine.containers.size, 0);
  });
});

function isLost(): Promise<boolean> {
  assert.fail('it has no run');
}
