import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { containerSpec, runtimeOn } from '../../../testing/container-spec.js';
import { FakeDockerEngine } from '../../../testing/fake-docker-engine.js';
import { refuse } from '../../../testing/fake-engine-answers.js';

const CREATE = 'POST /networks/create';

describe('the network of runs', () => {
  const engine = FakeDockerEngine.forEachTest();

  async function start(network: string): Promise<unknown> {
    await runtimeOn(engine, { network }).start(containerSpec('tool'));
    const { body } = engine.calls.findLast(({ route }) => route === 'POST /containers/create') ?? {};
    return Object(body).HostConfig.NetworkMode;
  }

  it('is created once, without traffic between containers', async () => {
    assert.equal(await start('longshore'), 'longshore');
    assert.equal(await start('longshore'), 'longshore');
    const created = engine.calls.filter(({ route }) => route === CREATE);
    assert.deepEqual(
      created.map(({ body }) => body),
      [
        {
          Name: 'longshore',
          CheckDuplicate: true,
          Driver: 'bridge',
          Options: {
            'com.docker.network.bridge.enable_icc': 'false',
            'com.docker.network.bridge.name': 'longshore0',
          },
        },
      ],
    );
  });

  it('has IPv6 of the default network only on an engine that keeps containers apart over it', async () => {
    for (const [ApiVersion, expected] of [
      ['1.45', undefined],
      ['1.46', true],
    ] as const) {
      engine.networks.delete('longshore');
      engine.version = { ...engine.version, ApiVersion };
      engine.answerNext('GET /networks/bridge', (response) => response.end('{"EnableIPv6": true}'));
      await start('longshore');
      const { body } = engine.calls.findLast(({ route }) => route === CREATE) ?? {};
      assert.equal(Object(body).EnableIPv6, expected);
    }
  });

  it('is that of another worker which was faster, also if the engine does not show it yet', async () => {
    const conflict = refuse(403, 'networks have same bridge name');
    engine.answerNext(CREATE, conflict, (response, call, goOn) => {
      engine.networks.add('longshore');
      conflict(response, call, goOn);
    });
    assert.equal(await start('longshore'), 'longshore');
  });

  it('is created again after somebody removed it', async () => {
    await start('longshore');
    engine.networks.delete('longshore');
    await start('longshore');
    assert.ok(engine.networks.has('longshore'));
  });

  for (const network of ['bridge', 'none']) {
    it(`is ${network} if the setting says so`, async () => {
      assert.equal(await start(network), network);
      assert.ok(!engine.routes().includes(CREATE));
    });
  }

  it('is never created under a name of the setting', async () => {
    await assert.rejects(start('team-net'), {
      name: 'EngineFault',
      message: /network 'team-net' \(SERVICE_WORKER_NETWORK\) cannot be used/,
    });
    assert.ok(!engine.routes().includes('POST /containers/create'));
  });

  it('stops the start when the engine cannot create it: no run gets another one', async () => {
    engine.answerNext(CREATE, refuse(400, 'unsupported bridge network option'));
    await assert.rejects(start('longshore'), /SERVICE_WORKER_NETWORK.*unsupported bridge network option/);
    assert.ok(!engine.routes().includes('POST /containers/create'));
  });
});
