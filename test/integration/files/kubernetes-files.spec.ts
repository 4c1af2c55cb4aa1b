import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import {
  CLUSTER_PERMISSIONS,
  FILES_PERMISSIONS,
  NAMESPACE_PERMISSIONS,
  type Permission,
} from '@longshore/launchers/kubernetes/permissions';
import { WORKER_SETTINGS } from '@longshore/worker/settings/worker-settings';

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly resources: readonly string[];
  readonly rules: readonly {
    readonly apiGroups: string[];
    readonly resources: string[];
    readonly verbs: string[];
  }[];
  readonly roleRef: { readonly name: string };
  readonly subjects: readonly { readonly name: string; readonly namespace: string }[];
  readonly data: Readonly<Record<string, string>>;
  readonly spec: {
    readonly replicas: number;
    readonly strategy: object;
    readonly template: { readonly spec: { readonly serviceAccountName: string } };
  };
}

function manifests(file: string): Manifest[] {
  const text = readFileSync(join('docker', 'kubernetes', file), 'utf8');
  return parseAllDocuments(text).map((document): Manifest => document.toJS());
}

const [kustomization] = manifests('kustomization.yaml');
const all = (kustomization?.resources ?? []).flatMap(manifests);

function only(kind: string): Manifest {
  const found = all.filter((manifest) => manifest.kind === kind);
  assert.equal(found.length, 1, kind);
  const [first] = found;
  assert.ok(first);
  return first;
}

const rulesOf = (permissions: readonly Permission[]) =>
  permissions.map(({ group, resource, verbs }) => ({
    apiGroups: [group],
    resources: [resource],
    verbs: [...verbs],
  }));

describe('the files for a worker in Kubernetes', () => {
  it('allow exactly what the worker does', () => {
    assert.deepEqual(only('Role').rules, rulesOf([...NAMESPACE_PERMISSIONS, ...FILES_PERMISSIONS]));
    assert.deepEqual(only('ClusterRole').rules, rulesOf(CLUSTER_PERMISSIONS));
  });

  it('give the permissions to the account of the worker and no other', () => {
    const account = only('ServiceAccount').metadata;
    for (const [binding, role] of [
      ['RoleBinding', 'Role'],
      ['ClusterRoleBinding', 'ClusterRole'],
    ] as const) {
      assert.equal(only(binding).roleRef.name, only(role).metadata.name);
      assert.deepEqual(
        only(binding).subjects.map(({ name, namespace }) => ({ name, namespace })),
        [account],
      );
    }
    assert.equal(only('Deployment').spec.template.spec.serviceAccountName, account.name);
  });

  it('never start a second process with the same id', () => {
    const { replicas, strategy } = only('Deployment').spec;
    assert.deepEqual({ replicas, strategy }, { replicas: 1, strategy: { type: 'Recreate' } });
  });

  it('set only variables that the worker reads', () => {
    const known: readonly string[] = WORKER_SETTINGS.map(({ env }) => env);
    const { data } = only('ConfigMap');
    assert.deepEqual(
      Object.keys(data).filter((name) => !known.includes(name)),
      [],
    );
    assert.equal(data['SERVICE_WORKER_RUNTIME'], 'kubernetes');
  });
});
