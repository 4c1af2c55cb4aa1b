import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { PodSpec } from '../api/resources.js';
import { ScriptedApi } from '../../testing/scripted-api.js';
import { readCapacity, parseQuantity } from './cluster-capacity.js';

function node(
  name: string,
  allocatable: object,
  more: { spec?: object; labels?: object; ready?: string } = {},
): object {
  const { spec = {}, labels = {}, ready = 'True' } = more;
  return {
    metadata: { name, labels },
    spec,
    status: { allocatable, conditions: [{ type: 'Ready', status: ready }] },
  };
}

const gpus = (count: number) => ({ 'nvidia.com/gpu': String(count) });
const container = (requests: object, more: object = {}) => ({ resources: { requests }, ...more });
const pod = (nodeName: string, spec: object, labels: object = {}) => ({
  metadata: { labels },
  spec: { nodeName, ...spec },
});

describe('the capacity of a cluster', () => {
  const scripted = ScriptedApi.forEachTest();

  function read(
    nodes: readonly object[],
    pods: readonly object[] = [],
    template: Pick<PodSpec, 'tolerations' | 'nodeSelector'> = {},
  ) {
    scripted.on('GET /api/v1/nodes', { body: { items: nodes } });
    scripted.on('GET /api/v1/pods', { body: { items: pods } });
    return readCapacity(scripted.api, {
      template,
      vramLabel: 'vram',
      tags: new Map([['fast', { name: 'disk', value: 'ssd' }]]),
      isOwn: ({ metadata }) => metadata?.labels?.['own'] === 'yes',
    });
  }

  it('is what nodes can give, less the requests of other pods', async () => {
    const nodes = [node('a', { cpu: '4', memory: '8Gi' }), node('b', { cpu: '1500m', memory: '1Gi' })];
    const pods = [
      pod('a', { containers: [container({ cpu: '500m', memory: '1Gi' }), container({ cpu: '250m' })] }),
      pod('a', { containers: [container({ cpu: '2' })] }, { own: 'yes' }),
      pod('other', { containers: [container({ cpu: '9' })] }),
      { spec: { containers: [container({ cpu: '9' })] } },
    ];
    const { resources } = await read(nodes, pods);
    assert.deepEqual(resources, { cpuCores: 4, ramMb: 8192, gpus: [] });
    const query = scripted.calls.at(-1)?.query;
    assert.equal(query?.['fieldSelector'], 'status.phase!=Succeeded,status.phase!=Failed');
  });

  it('counts a pod as the scheduler does', async () => {
    const nodes = [node('a', { cpu: '8', memory: '8Gi' })];
    const spec = {
      overhead: { cpu: '500m' },
      containers: [container({ cpu: '1' })],
      initContainers: [container({ cpu: '3' }), container({ cpu: '500m' }, { restartPolicy: 'Always' })],
    };
    assert.equal((await read(nodes, [pod('a', spec)])).resources.cpuCores, 4);
  });

  it('leaves out nodes that take no pods of runs', async () => {
    const size = { cpu: '1', memory: '1Gi' };
    const tainted = (name: string, ...taints: readonly object[]) => node(name, size, { spec: { taints } });
    const nodes = [
      node('not-ready', size, { ready: 'False' }),
      node('cordoned', size, { spec: { unschedulable: true } }),
      tainted('foreign', { key: 'team', value: 'x', effect: 'NoSchedule' }),
      tainted('two', { key: 'gpu', effect: 'NoSchedule' }, { key: 'other', effect: 'NoExecute' }),
      tainted('preferred', { key: 'any', effect: 'PreferNoSchedule' }),
      tainted('gpu', { key: 'gpu', effect: 'NoSchedule' }),
      tainted('equal', { key: 'team', value: 'y', effect: 'NoExecute' }),
    ];
    const tolerations = [
      { key: 'gpu', operator: 'Exists' },
      { key: 'team', operator: 'Equal', value: 'y', effect: 'NoExecute' },
    ];
    assert.equal((await read(nodes, [], { tolerations })).resources.cpuCores, 3);
    assert.equal((await read(nodes, [], { tolerations: [{ operator: 'Exists' }] })).resources.cpuCores, 5);
    const implied = [{ key: 'team', value: 'x' }];
    assert.equal((await read(nodes, [], { tolerations: implied })).resources.cpuCores, 2);
  });

  it('counts only nodes that the node selector of the pod template selects', async () => {
    const size = { cpu: '1', memory: '1Gi' };
    const nodes = [node('a', size, { labels: { pool: 'runs' } }), node('b', size, { labels: { pool: 'x' } })];
    assert.equal((await read(nodes, [], { nodeSelector: { pool: 'runs' } })).resources.cpuCores, 1);
  });

  it('lists free GPUs whose memory is known with their tags, the largest first and at most 64', async () => {
    const nodes = [
      node('small', gpus(3), { labels: { vram: '16000', disk: 'ssd' } }),
      node('large', gpus(70), { labels: { vram: '80000', 'nvidia.com/gpu.product': 'NVIDIA-A100' } }),
      node('unknown', gpus(8)),
    ];
    const used = pod('large', { containers: [container(gpus(8))] });
    const { resources, gpuProducts } = await read(nodes, [used]);
    const { gpus: listed } = resources;
    assert.equal(listed.length, 64);
    assert.deepEqual(listed[0], { id: 0, vramMb: 80_000, tags: ['nvidia-a100'] });
    assert.deepEqual(listed.at(-1), { id: 63, vramMb: 16_000, tags: ['fast'] });
    assert.deepEqual([...gpuProducts], [['nvidia-a100', 'NVIDIA-A100']]);
    assert.equal(listed.filter(({ vramMb }) => vramMb === 80_000).length, 62);
  });
});

describe('a quantity', () => {
  it('is read with its suffix', () => {
    const texts = ['2', '500m', '1.5', '1e3', '64Mi', '1Gi', '2k', '1M', '100u', '-1'];
    assert.deepEqual(
      texts.map(parseQuantity).map((value) => Number(value.toPrecision(12))),
      [2, 0.5, 1.5, 1000, 67_108_864, 1_073_741_824, 2000, 1_000_000, 0.0001, -1],
    );
  });

  it('is 0 when there is none or it cannot be read', () => {
    assert.deepEqual([undefined, '', 'x', '1.2.3', '1Qi'].map(parseQuantity), [0, 0, 0, 0, 0]);
  });
});
