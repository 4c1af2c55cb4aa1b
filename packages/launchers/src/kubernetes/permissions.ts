import { SettingsError } from '@longshore/common/settings/setting';
import type { OfferedVolumes } from '@longshore/worker/settings/volumes';
import { ApiError, type KubernetesApi } from './api/kubernetes-api.js';
import type { Paths } from './api/resources.js';

/** What a launcher does with a resource. */
export interface Permission {
  /** API group; empty: the core group. */
  readonly group: '' | 'batch';
  readonly resource: 'jobs' | 'pods' | 'pods/log' | 'secrets' | 'events' | 'nodes';
  readonly verbs: readonly ('get' | 'list' | 'watch' | 'create' | 'patch' | 'delete')[];
}

/** Needed in the namespace of the jobs. */
export const NAMESPACE_PERMISSIONS: readonly Permission[] = [
  { group: 'batch', resource: 'jobs', verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'] },
  { group: '', resource: 'pods', verbs: ['list', 'watch', 'delete'] },
  { group: '', resource: 'pods/log', verbs: ['get'] },
  { group: '', resource: 'secrets', verbs: ['list', 'create', 'patch', 'delete'] },
  { group: '', resource: 'events', verbs: ['list'] },
];

/** Needed there, too, for the files of runs. */
export const FILES_PERMISSIONS: readonly Permission[] = [{ group: '', resource: 'pods', verbs: ['patch'] }];

/** Needed in the whole cluster to measure its capacity. */
export const CLUSTER_PERMISSIONS: readonly Permission[] = [
  { group: '', resource: 'nodes', verbs: ['list'] },
  { group: '', resource: 'pods', verbs: ['list'] },
];

interface AccessReview {
  readonly status?: { readonly allowed?: boolean };
}

/**
 * What the launcher may not do, such as `create jobs` or `list pods`.
 * @param namespace null: the whole cluster
 */
export async function missingPermissions(
  api: KubernetesApi,
  permissions: readonly Permission[],
  namespace: string | null,
): Promise<readonly string[]> {
  const needed = permissions.flatMap(({ verbs, ...rest }) => verbs.map((verb) => ({ verb, ...rest })));
  const answers = await Promise.all(
    needed.map(async ({ verb, group, resource }) => {
      const [name, subresource] = resource.split('/');
      const attributes = { verb, group, resource: name, subresource, namespace: namespace ?? undefined };
      const review = await api.create<AccessReview>(
        '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
        {
          apiVersion: 'authorization.k8s.io/v1',
          kind: 'SelfSubjectAccessReview',
          spec: { resourceAttributes: attributes },
        },
      );
      return review.status?.allowed === true ? [] : [`${verb} ${resource}`];
    }),
  );
  return answers.flat();
}

/**
 * Checks that the namespace exists and that nothing is missing.
 * @param fixedResources whether the capacity of the cluster is not needed
 * @param storesFiles whether runs have files
 * @returns whether nodes and pods of the whole cluster can be read
 * @throws SettingsError with one line that names what is missing
 */
export async function checkAccess(
  api: KubernetesApi,
  namespace: string,
  fixedResources: boolean,
  storesFiles = false,
): Promise<boolean> {
  try {
    await api.get<object>(`/api/v1/namespaces/${namespace}`);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 404) throw refused(`the namespace '${namespace}' does not exist`);
    if (error.status === 401) throw refused(`the API server at ${api.server} refuses the login`);
    // Without the permission to see the namespace, the others decide.
    if (error.status !== 403) throw error;
  }
  const needed = [...NAMESPACE_PERMISSIONS, ...(storesFiles ? FILES_PERMISSIONS : [])];
  const missing = await missingPermissions(api, needed, namespace);
  if (missing.length > 0)
    throw refused(`its account may not ${missing.join(', ')} in the namespace '${namespace}'`);
  if (fixedResources) return false;
  const missingInCluster = await missingPermissions(api, CLUSTER_PERMISSIONS, null);
  if (missingInCluster.length > 0) {
    throw refused(
      `its account may not ${missingInCluster.join(', ')} in the cluster: set SERVICE_WORKER_CPU and SERVICE_WORKER_RAM_MB to what the runs may use, or allow it`,
    );
  }
  return true;
}

/** Whether nodes, and so their versions, can be read. */
export async function mayListNodes(api: KubernetesApi): Promise<boolean> {
  const missing = await missingPermissions(api, [{ group: '', resource: 'nodes', verbs: ['list'] }], null);
  return missing.length === 0;
}

/** Looks for the claims of the volumes. @throws SettingsError that names one that is missing or cannot be seen */
export async function checkVolumes(api: KubernetesApi, paths: Paths, volumes: OfferedVolumes): Promise<void> {
  for (const [name, { source }] of volumes) {
    const claim = `the claim '${source}' of the volume '${name}' (SERVICE_WORKER_VOLUMES)`;
    try {
      await api.get<object>(paths.claims(source));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 404)
        throw refused(`${claim} does not exist in the namespace '${paths.namespace}'`);
      if (error.status !== 403) throw error;
      throw refused(`its account may not get persistentvolumeclaims, so it cannot see ${claim}`);
    }
  }
}

function refused(why: string): SettingsError {
  return new SettingsError([`The runtime kubernetes cannot be used: ${why} (docs/kubernetes.md)`]);
}
