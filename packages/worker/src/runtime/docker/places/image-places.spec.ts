import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { containerSpec, runtimeOn } from '../../../testing/container-spec.js';
import { FakeDockerEngine } from '../../../testing/fake-docker-engine.js';
import { parseVolumes } from '../../../settings/volumes.js';
import type { ContainerSpec } from '../../runtime.js';

const LOOK = 'HEAD /containers/ID/archive';
const START = 'POST /containers/ID/start';

describe('the places of containers', () => {
  const engine = FakeDockerEngine.forEachTest();

  const start = async (more: Partial<ContainerSpec> = {}): Promise<unknown> =>
    runtimeOn(engine, { volumes: parseVolumes('out=/srv/out') ?? new Map() }).start({
      ...containerSpec('tool'),
      ...more,
    });

  for (const folder of ['/dev', '/proc', '/sys', '/longshore']) {
    it(`are refused with an image that has a link at ${folder}`, async () => {
      engine.links.set(folder, '/elsewhere');
      await assert.rejects(start(), {
        name: 'RunFault',
        message: `The folder '${folder}' cannot be used: '${folder}' is a link in the image`,
      });
      assert.deepEqual([engine.containers.size, engine.routes().includes(START)], [0, false]);
    });
  }

  it('are looked at with nothing mounted, also of what the image mounts', async () => {
    engine.imageConfig = { Volumes: { '/v/': {}, '/w/../x': {}, '/out': {} } };
    await start({ mounts: [{ volume: 'out', path: '/out' }] });
    const [first, last] = engine.calls.filter(({ route }) => route === 'POST /containers/create');
    assert.deepEqual(
      Object(first?.body).HostConfig.Mounts,
      ['/v', '/x', '/out'].map((Target) => ({ Type: 'tmpfs', Source: '', Target })),
    );
    assert.equal(Object(last?.body).HostConfig.Mounts[0].Target, '/out');
    const routes = engine.routes();
    assert.ok(routes.lastIndexOf(LOOK) < routes.lastIndexOf('POST /containers/create'));
  });

  for (const volume of [
    '',
    'data',
    '/',
    '//dev',
    '/dev/x',
    '/longshore',
    '/a/../longshore',
    '/a/../proc',
    '/x/../proc/sys',
  ])
    it(`are refused with the VOLUME '${volume}' of an image, before a container is created`, async () => {
      engine.imageConfig = { Volumes: { [volume]: {} } };
      await assert.rejects(start(), {
        name: 'RunFault',
        message: /^The VOLUME of the image '.*' cannot be used/,
      });
      assert.ok(!engine.routes().includes('POST /containers/create'));
    });

  it('are not taken for free when the container that is looked into disappears', async () => {
    engine.answerNext(LOOK, (_response, _call, goOn) => {
      engine.containers.clear();
      goOn();
    });
    await assert.rejects(start({ mounts: [{ scratch_mb: 1, path: '/s' }] }), { name: 'EngineFault' });
    assert.ok(!engine.routes().includes(START));
  });

  it('are looked up once for an image, and again for other paths of it', async () => {
    const runtime = runtimeOn(engine);
    const looks = async (more: Partial<ContainerSpec>): Promise<string[]> => {
      engine.calls.length = 0;
      await runtime.start({ ...containerSpec('tool'), ...more });
      return engine.calls.flatMap(({ route, query }) => (route === LOOK ? [query['path'] ?? ''] : []));
    };
    const file = { content: '', mode: 0o444, isSecret: false };
    assert.deepEqual(await looks({}), ['/longshore', '/dev', '/proc', '/sys', '/']);
    assert.deepEqual(await looks({}), []);
    assert.deepEqual(await looks({ files: [{ ...file, path: '/etc/a' }] }), ['/etc', '/']);
    assert.deepEqual(await looks({ files: [{ ...file, path: '/etc/b' }], workdir: '/' }), []);
  });
});
