import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { KUBERNETES_SETTINGS } from './kubernetes-settings.js';
import { readSettings } from './setting-table.js';

function read(env: NodeJS.ProcessEnv) {
  return readSettings(KUBERNETES_SETTINGS, env);
}

describe('the settings of the runtime kubernetes', () => {
  it('have defaults', () => {
    assert.deepEqual(read({}), {
      namespace: null,
      serviceAccount: null,
      helperImage: 'docker.io/library/busybox:stable',
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
    });
  });

  it('read tolerations in every form', () => {
    const { tolerations } = read({
      SERVICE_WORKER_KUBERNETES_TOLERATIONS: 'gpu, a.b/c:NoSchedule, team=x, team=:NoExecute',
    });
    assert.deepEqual(tolerations, [
      { key: 'gpu', operator: 'Exists' },
      { key: 'a.b/c', operator: 'Exists', effect: 'NoSchedule' },
      { key: 'team', operator: 'Equal', value: 'x' },
      { key: 'team', operator: 'Equal', value: '', effect: 'NoExecute' },
    ]);
  });

  it('read tags with the labels of nodes', () => {
    const { tags } = read({ SERVICE_WORKER_KUBERNETES_TAGS: 'eu=topology.kubernetes.io/zone:eu-1,a:b=x:y' });
    assert.deepEqual(
      [...tags],
      [
        ['eu', { name: 'topology.kubernetes.io/zone', value: 'eu-1' }],
        ['a:b', { name: 'x', value: 'y' }],
      ],
    );
  });

  it('are refused with the name of the variable', () => {
    const wrong: NodeJS.ProcessEnv = {
      SERVICE_WORKER_KUBERNETES_NAMESPACE: 'A_b',
      SERVICE_WORKER_KUBERNETES_PULL_POLICY: 'always',
      SERVICE_WORKER_KUBERNETES_PULL_GRACE: '-1',
      SERVICE_WORKER_KUBERNETES_PULL_SECRETS: ' , ',
      SERVICE_WORKER_KUBERNETES_TOLERATIONS: 'gpu:Never',
      SERVICE_WORKER_KUBERNETES_MOUNT_IMAGES: 'ghcr.io/a b',
      SERVICE_WORKER_KUBERNETES_TAGS: 'eu=zone',
      SERVICE_WORKER_KUBERNETES_VRAM_LABEL: 'no label',
    };
    for (const [name, value] of Object.entries(wrong))
      assert.throws(() => read({ [name]: value }), {
        name: 'SettingsError',
        message: new RegExp(`^${name} must be `),
      });
  });
});
