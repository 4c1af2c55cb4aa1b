import { delimiter } from 'node:path';
import { SettingsError } from '@longshore/common/settings/setting';
import { KubernetesApi } from './kubernetes-api.js';

/** Where the client library looks when nothing is configured. */
const NOT_CONFIGURED = 'http://localhost:8080';

export interface Connection {
  readonly api: KubernetesApi;
  /** Namespace that the configuration names; null: none. */
  readonly namespace: string | null;
}

/**
 * Reads the files of KUBECONFIG, else ~/.kube/config, else what Kubernetes gives to a pod. Loads the client library on first
 * use, because that is slow.
 * @throws SettingsError when there is none or it cannot be used
 */
export async function connect(env: Readonly<NodeJS.ProcessEnv>): Promise<Connection> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  const files = (env['KUBECONFIG'] ?? '').split(delimiter).filter((file) => file !== '');
  try {
    const [first, ...others] = files;
    if (first === undefined) config.loadFromDefault();
    else config.loadFromFile(first);
    for (const file of others) {
      const more = new KubeConfig();
      more.loadFromFile(file);
      config.mergeConfig(more, true);
    }
  } catch (error) {
    const why = error instanceof Error ? error.message.split('\n')[0] : String(error);
    throw new SettingsError([`The configuration of the Kubernetes client cannot be read: ${why}`]);
  }
  const cluster = config.getCurrentCluster();
  if (cluster === null || cluster.server === NOT_CONFIGURED) {
    throw new SettingsError([
      'SERVICE_WORKER_RUNTIME is kubernetes, but no cluster is configured: set KUBECONFIG, or run the worker in a pod with a service account',
    ]);
  }
  const context = config.getContextObject(config.getCurrentContext());
  return { api: new KubernetesApi(config, cluster.server), namespace: context?.namespace ?? null };
}
