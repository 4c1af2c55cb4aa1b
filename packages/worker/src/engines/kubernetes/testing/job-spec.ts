import type { JobSpec } from '../../../launcher/engine.js';
import type { KubernetesSettings } from '../kubernetes-settings.js';
import type { JobContext } from '../manifest/job-manifest.js';

export const SETTINGS: KubernetesSettings = {
  namespace: 'runs',
  serviceAccount: null,
  helperImage: 'helper:1',
  pullPolicy: 'Always',
  pullGraceSeconds: 300,
  pullSecrets: [],
  priorityClass: null,
  tolerations: [],
  tags: new Map(),
  vramLabel: 'nvidia.com/gpu.memory',
  podTemplate: null,
};

export const CONTEXT: JobContext = {
  settings: SETTINGS,
  deployment: 'prod',
  workerId: 'w:1/a',
  stopGraceSeconds: 30,
  patch: (template) => template,
};

/** A run without requirements. */
export function jobSpec(more: Partial<JobSpec> = {}): JobSpec {
  return {
    runId: 'r1',
    attempt: 2,
    image: 'img:1',
    inputs: {},
    outputTemplate: {},
    constraints: { cpu: 0, ramMb: 0, vramMb: 0, gpuId: null },
    selector: [],
    env: {},
    secrets: {},
    command: null,
    args: null,
    registry: null,
    trace: null,
    ...more,
  };
}
