import { NO_VOLUMES } from '@longshore/worker/settings/volumes';
import type { KubernetesSettings } from '@longshore/worker/settings/kubernetes-settings';
import type { JobContext } from '../kubernetes/manifest/job-manifest.js';

export const SETTINGS: KubernetesSettings = {
  namespace: 'runs',
  serviceAccount: null,
  helperImage: 'helper:1',
  filesImage: null,
  pullPolicy: 'Always',
  pullGraceSeconds: 300,
  pullSecrets: [],
  priorityClass: null,
  tolerations: [],
  mountImages: null,
  tags: new Map(),
  vramLabel: 'nvidia.com/gpu.memory',
  podTemplate: null,
};

export const CONTEXT: JobContext = {
  settings: SETTINGS,
  volumes: NO_VOLUMES,
  fetchNetworks: null,
  deployment: 'prod',
  workerId: 'w:1/a',
  gpuProducts: new Map(),
  patch: (template) => template,
};
