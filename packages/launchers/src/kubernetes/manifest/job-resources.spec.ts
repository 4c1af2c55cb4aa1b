import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { RunFault } from '@longshore/worker/runtime/runtime';
import { NO_CONSTRAINTS, type Constraints } from '@longshore/worker/service-api/constraints';
import { CONTEXT } from '../../testing/job-context.js';
import { jobSpec } from '../../testing/job-spec.js';
import { jobManifest } from './job-manifest.js';

const podOf = (...args: Parameters<typeof jobManifest>) => jobManifest(...args).spec?.template.spec;
const runOf = (...args: Parameters<typeof jobManifest>) => podOf(...args)?.initContainers?.[1];

/** A run that asks for these. */
const asking = (constraints: Partial<Constraints>) =>
  jobSpec({ constraints: { ...NO_CONSTRAINTS, ...constraints } });

/** Volume and mount of its /dev/shm. */
function shmOf(constraints: Partial<Constraints>): unknown[] {
  const spec = asking(constraints);
  const volume = podOf(spec, CONTEXT)?.volumes?.find(({ name }) => name === 'longshore-shm');
  const mount = runOf(spec, CONTEXT)?.volumeMounts?.find(({ name }) => name === 'longshore-shm');
  return [volume?.emptyDir, mount?.mountPath];
}

const resourcesOf = (constraints: Partial<Constraints>) => runOf(asking(constraints), CONTEXT)?.resources;

describe('the resources of the Job of an attempt', () => {
  it('requests and limits what the run requires', () => {
    const cpu = { cpuMillis: 2000, cpuLimitMillis: 2000 };
    const spec = asking({ ...cpu, ramMb: 512, vramMb: 16_000 });
    const resources = { cpu: '2', memory: '512Mi', 'nvidia.com/gpu': '1' };
    assert.deepEqual(runOf(spec, CONTEXT)?.resources, { requests: resources, limits: resources });
    assert.deepEqual(podOf(spec, CONTEXT)?.affinity, {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [
            { matchExpressions: [{ key: 'nvidia.com/gpu.memory', operator: 'Gt', values: ['15999'] }] },
          ],
        },
      },
    });
  });

  it('requests and limits parts of a core, and whole GPUs', () => {
    assert.deepEqual(resourcesOf({ cpuMillis: 500, cpuLimitMillis: 1500 }), {
      requests: { cpu: '500m' },
      limits: { cpu: '1500m' },
    });
    assert.deepEqual(resourcesOf({ cpuMillis: 2500, gpus: 8 }), {
      requests: { cpu: '2500m', 'nvidia.com/gpu': '8' },
      limits: { 'nvidia.com/gpu': '8' },
    });
    // Without a request of 0 the cluster would take the limit for one.
    assert.deepEqual(resourcesOf({ cpuLimitMillis: 4000 }), { requests: { cpu: '0' }, limits: { cpu: '4' } });
    assert.equal(resourcesOf({}), undefined);
  });

  it('gives /dev/shm the size that the run says, else its memory, else that of the node', () => {
    assert.deepEqual(shmOf({ shmMb: 64, ramMb: 512 }), [{ medium: 'Memory', sizeLimit: '64Mi' }, '/dev/shm']);
    assert.deepEqual(shmOf({ ramMb: 512 }), [{ medium: 'Memory', sizeLimit: '512Mi' }, '/dev/shm']);
    assert.deepEqual(shmOf({}), [undefined, undefined]);
  });

  it("selects nodes by the tags of the run's GPUs, and refuses tags that no node has", () => {
    const context = {
      ...CONTEXT,
      settings: { ...CONTEXT.settings, tags: new Map([['nvlink', { name: 'link', value: 'nv' }]]) },
      gpuProducts: new Map([['nvidia-a100', 'NVIDIA-A100']]),
    };
    const both = asking({ gpus: 1, gpuSelector: ['nvidia-a100', 'nvlink'] });
    assert.deepEqual(podOf(both, context)?.nodeSelector, {
      link: 'nv',
      'nvidia.com/gpu.product': 'NVIDIA-A100',
    });
    assert.throws(() => jobManifest(asking({ gpus: 1, gpuSelector: ['h100'] }), context), {
      name: 'RunFault',
      message: "No node of the cluster has GPUs with the tag 'h100'",
    });
  });

  it('selects nodes by the tags that have a label, and refuses tags that no node can have together', () => {
    const tags = new Map([
      ['fast', { name: 'disk', value: 'ssd' }],
      ['slow', { name: 'disk', value: 'hdd' }],
      ['eu', { name: 'zone', value: 'eu-1' }],
    ]);
    const context = { ...CONTEXT, settings: { ...CONTEXT.settings, tags } };
    const spec = jobSpec({ selector: ['fast', 'eu', 'other'] });
    assert.deepEqual(podOf(spec, context)?.nodeSelector, { disk: 'ssd', zone: 'eu-1' });
    assert.throws(() => jobManifest(jobSpec({ selector: ['fast', 'slow'] }), context), RunFault);
  });
});
