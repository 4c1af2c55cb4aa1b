import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { MemoryLog } from '@longshore/worker/testing/container-spec';
import { FakeClock } from '@longshore/worker/testing/fake-clock';
import { SETTINGS } from '../testing/job-context.js';
import { ScriptedApi } from '../testing/scripted-api.js';
import { Paths } from './api/resources.js';
import { BackgroundWork, type BackgroundOptions } from './background-work.js';
import { JobStates } from './state/job-states.js';

const NODES = 'GET /api/v1/nodes';

function node(name: string, kubeletVersion: string, labels: object = {}): object {
  const nodeInfo = { kubeletVersion, containerRuntimeVersion: 'containerd://2.2.0' };
  return {
    metadata: { name, labels },
    status: { nodeInfo, conditions: [{ type: 'Ready', status: 'True' }] },
  };
}

describe('the versions of the nodes of a cluster', () => {
  const scripted = ScriptedApi.forEachTest();
  const clock = new FakeClock();
  let log: MemoryLog;
  let closing: AbortController;

  beforeEach(() => {
    log = new MemoryLog();
    closing = new AbortController();
    scripted.on('GET /api/v1/pods', { body: { items: [] } });
  });
  afterEach(() => closing.abort());

  async function start(more: Partial<BackgroundOptions>, ...nodes: readonly object[]): Promise<void> {
    scripted.on(NODES, { body: { items: nodes } });
    const parts = { api: scripted.api, paths: new Paths('runs'), deployment: 'prod', clock };
    const work = new BackgroundWork(parts, {
      settings: SETTINGS,
      workerId: 'w1',
      template: { containers: [] },
      reads: 'capacity',
      oldEngine: 'warn',
      log,
      signal: closing.signal,
      ...more,
    });
    await work.start(new JobStates({ workerId: 'w1', clock, pullGraceMs: 0 }, work));
  }

  const warnings = (): string[] =>
    log.warnings.map(({ message }) => message).filter((message) => message.startsWith('Nodes '));

  for (const reads of ['capacity', 'versions'] as const) {
    it(`are read at the start, and old ones are named in one warning (${reads})`, async () => {
      await start({ reads }, node('old', 'v1.22.1'), node('new', 'v1.22.2'));
      assert.equal(warnings().length, 1);
      assert.match(warnings()[0] ?? '', /kubelet v1.22.1 of old\. Upgrade them/);
    });

    it(`keep the launcher from starting when the operator wants no old ones (${reads})`, async () => {
      await assert.rejects(start({ reads, oldEngine: 'refuse' }, node('old', 'v1.22.1')), {
        name: 'SettingsError',
        message:
          /^SERVICE_WORKER_OLD_ENGINE=refuse: Nodes have versions [^\n]* kubelet v1.22.1 of old[^\n]*$/,
      });
      await start({ reads, oldEngine: 'refuse' }, node('new', 'v1.22.2'));
    });
  }

  it('do not matter where no pod of a run can be scheduled', async () => {
    const template = { containers: [], nodeSelector: { pool: 'runs' } };
    const other = node('other', 'v1.22.1', { pool: 'web' });
    await start({ template, oldEngine: 'refuse' }, other, node('new', 'v1.22.2', { pool: 'runs' }));
    assert.deepEqual(warnings(), []);
  });

  it('must be readable when the operator wants no old ones, and only then', async () => {
    await start({ reads: 'nothing' });
    assert.deepEqual([scripted.routes(), warnings()], [[], []]);
    await assert.rejects(start({ reads: 'nothing', oldEngine: 'refuse' }), {
      name: 'SettingsError',
      message: /^SERVICE_WORKER_OLD_ENGINE=refuse: the account of the launcher may not list nodes/,
    });
  });

  it('are told again when a node with others joins, which nothing else is ended for', async () => {
    await start({ oldEngine: 'refuse' }, node('new', 'v1.22.2'));
    scripted.on(NODES, { body: { items: [node('new', 'v1.22.2'), node('late', 'v1.22.1')] } });
    await clock.until('the node is told of', () => warnings().length > 0, 200);
    assert.match(warnings()[0] ?? '', /kubelet v1.22.1 of late\./);
    const asked = scripted.routes().filter((route) => route === NODES).length;
    const isReadAgain = () => scripted.routes().filter((route) => route === NODES).length > asked + 1;
    await clock.until('nodes are read again', isReadAgain, 200);
    assert.equal(warnings().length, 1);
  });
});
