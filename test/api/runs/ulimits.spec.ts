import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

for (const strategy of ['fit', 'direct'] as const) {
  describe(`limits of the program of a run, with the strategy ${strategy}`, () => {
    const service = useTestApp({ env: { SERVICE_SCHEDULER: strategy } });
    const steps = new RunSteps(service.send);

    test('are given only to a worker that allows as much, and explain names what none allows', async () => {
      const run = await steps.create({ ulimits: { nofile: 65_537, memlock: -1 } });
      const steps16 = ['ulimit:nofile:65536', 'ulimit:memlock:unlimited'];
      await steps.heartbeat('less', { capabilities: steps16 });
      assert.deepEqual(await steps.claim('less'), []);
      const { body } = await service.send('GET', `/runs/${run.id}/explain`);
      assert.deepEqual(body.requirements.capabilities, ['ulimit:nofile:131072', 'ulimit:memlock:unlimited']);
      assert.match(body.summary, /no active worker announces the capability ulimit:nofile:131072/);
      await steps.heartbeat('more', { capabilities: [...steps16, 'ulimit:nofile:131072'] });
      const [claimed] = await steps.claim('more');
      assert.deepEqual([claimed.id, claimed.ulimits], [run.id, { nofile: 65_537, memlock: -1 }]);
    });
  });
}

describe('limits of the program of a definition', () => {
  const service = useTestApp();

  test('are merged with those of its run by name', async () => {
    const body = { id: 'limited', version: '1', image: 'i', ulimits: { nofile: 1024, core: 0 } };
    assert.equal((await service.send('POST', '/definitions', { body })).status, 201);
    const run = { ulimits: { nofile: 4096, memlock: -1, core: null } };
    const created = await service.send('POST', '/definitions/limited/runs', { body: run });
    assert.deepEqual(created.body.ulimits, { nofile: 4096, memlock: -1, core: 0 });
  });
});
