import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { PROJECT, until } from '../service-process.js';
import { KubeApi } from './kube-api.js';

const run = promisify(execFile);
const SCRIPT = join(PROJECT, 'scripts', 'kubernetes', 'cluster.sh');

/** Name of a node without a kubelet. */
export const EMPTY_NODE = 'empty-node';

/** A process of the cluster that tests end and start. */
export type ClusterPart = 'etcd' | 'apiserver' | 'controllers' | 'scheduler' | 'kubelet';

/** A cluster for tests, or why there is none. */
export interface KubernetesForTests {
  /** For {@link skipFor}: false, or the reason. */
  readonly skip: string | false;
  /** @throws Error when there is no cluster */
  readonly cluster: Cluster;
}

/**
 * Takes the cluster that runs, or starts it where its programs are built. Without them the tests skip with the reason, except
 * when LONGSHORE_REQUIRE_KUBERNETES=1 says that they must run.
 * @throws Error when the cluster is required or built and does not start
 */
export async function startTestKubernetes(): Promise<KubernetesForTests> {
  const reason = await missing();
  if (reason !== null && process.env['LONGSHORE_REQUIRE_KUBERNETES'] === '1') throw new Error(reason);
  const started = reason === null ? await Cluster.start() : null;
  return {
    skip: reason ?? false,
    get cluster() {
      if (started === null) throw new Error(reason ?? 'no cluster');
      return started;
    },
  };
}

/** The real Kubernetes of scripts/kubernetes/cluster.sh. Its namespaces keep tests apart. */
export class Cluster {
  private constructor(
    readonly api: KubeApi,
    private readonly isOwn: boolean,
  ) {}

  static async start(): Promise<Cluster> {
    const runs = await script('status').then(
      () => true,
      () => false,
    );
    if (!runs) await script('up');
    return new Cluster(await KubeApi.open(join(folder(), 'admin.kubeconfig')), !runs);
  }

  /** SIGKILL. */
  async kill(part: ClusterPart): Promise<void> {
    await script('kill', part);
  }

  async startPart(part: ClusterPart): Promise<void> {
    await script('start', part);
  }

  /** Waits until the API server answers again. */
  async untilAnswers(): Promise<void> {
    const ask = () => this.api.ask('GET', '/readyz').then(({ status }) => status === 200, isFalse);
    await until(ask, 'the API server answers');
  }

  /**
   * Adds a node that is ready and takes no pods, without a kubelet. When all nodes are lost, the cluster believes that it is cut
   * off itself and moves no pod.
   * @returns removes it
   */
  async addEmptyNode(): Promise<() => Promise<void>> {
    const metadata = { name: EMPTY_NODE };
    const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
    const lease = () => ({
      metadata: { ...metadata, namespace: 'kube-node-lease' },
      spec: { holderIdentity: metadata.name, renewTime: now().replace('Z', '000Z') },
    });
    const renew = async () => {
      const status = {
        conditions: [{ type: 'Ready', status: 'True', reason: 'Test', lastHeartbeatTime: now() }],
      };
      const path = `/api/v1/nodes/${metadata.name}/status`;
      await this.api.ask('PATCH', path, { status }, 'application/strategic-merge-patch+json');
      await this.api.ask('PATCH', `${leases}/${metadata.name}`, lease(), 'application/merge-patch+json');
    };
    await this.api.must('POST', '/api/v1/nodes', { metadata, spec: { unschedulable: true } });
    await this.api.ask('POST', leases, lease());
    await renew();
    const timer = setInterval(() => void renew().catch(isFalse), 3_000);
    return async () => {
      clearInterval(timer);
      await this.api.must('DELETE', `/api/v1/nodes/${metadata.name}`);
      await this.api.ask('DELETE', `${leases}/${metadata.name}`);
    };
  }

  /** Drops the history of all objects, so that a watch from before has to begin anew. */
  async compactHistory(): Promise<void> {
    const { header } = await etcd('/v3/kv/range', { key: Buffer.from('/registry').toString('base64') });
    await etcd('/v3/kv/compaction', { revision: header.revision, physical: true });
  }

  /** Builds `examples/images/NAME` in the cluster's own container engine. @returns its reference */
  async buildExample(name: string): Promise<string> {
    const env = { ...process.env, DOCKER_HOST: `unix://${join(folder(), 'run', 'docker.sock')}` };
    const reference = `local/${name}:1`;
    await run('docker', ['tag', 'local/busybox:1', 'busybox:stable'], { env });
    await run('docker', ['build', '-q', '-t', reference, resolve(PROJECT, 'examples', 'images', name)], {
      env,
    });
    return reference;
  }

  /** Makes an image with the built worker and the Node of this machine, laid out as by docker/Dockerfile. @returns its reference */
  async buildWorker(): Promise<string> {
    const env = { ...process.env, DOCKER_HOST: `unix://${join(folder(), 'run', 'docker.sock')}` };
    const root = await mkdtemp(join(tmpdir(), 'longshore-worker-image-'));
    const copy = (from: string, to: string) =>
      cp(from, join(root, to), { recursive: true, dereference: true });
    await copy(process.execPath, 'bin/node');
    const { stdout } = await run('ldd', [process.execPath]);
    for (const [library] of stdout.matchAll(/\/\S+/g)) await copy(library, library);
    for (const name of ['client', 'common', 'worker']) {
      const from = join(PROJECT, 'packages', name);
      for (const part of ['package.json', 'dist'])
        await copy(join(from, part), `longshore/packages/${name}/${part}`);
      await mkdir(join(root, 'longshore/node_modules/@longshore'), { recursive: true });
      await symlink(`../../packages/${name}`, join(root, `longshore/node_modules/@longshore/${name}`));
    }
    const modules = new Set(['undici', 'mime-types', 'tar-stream', 'fzstd']);
    for (const name of modules) {
      const from = join(PROJECT, 'node_modules', name);
      await copy(from, `longshore/node_modules/${name}`);
      const { dependencies = {} } = JSON.parse(await readFile(join(from, 'package.json'), 'utf8'));
      for (const needed of Object.keys(dependencies)) modules.add(needed);
    }
    await writeFile(join(root, 'Dockerfile'), 'FROM local/busybox:1\nCOPY . /\nUSER 10001:10001\n');
    const reference = 'local/longshore-worker:1';
    await run('docker', ['build', '-q', '-t', reference, root], { env });
    await rm(root, { recursive: true });
    return reference;
  }

  /** What the node keeps for a pod: its volumes, and folders such as scratch. */
  podFolder(uid: string): string {
    return join(folder(), 'data', 'kubelet', 'pods', uid);
  }

  /** The API server for the user without permissions. */
  openLimited(): Promise<KubeApi> {
    return KubeApi.open(join(folder(), 'limited.kubeconfig'));
  }

  /** Runs kubectl as the administrator. @returns its output */
  async kubectl(...args: readonly string[]): Promise<string> {
    const env = { ...process.env, KUBECONFIG: join(folder(), 'admin.kubeconfig') };
    return (await run(join(folder(), 'bin', 'kubectl'), [...args], { env })).stdout;
  }

  /** Ends the cluster unless it ran before. */
  async stop(): Promise<void> {
    this.api.close();
    if (this.isOwn) await script('down');
  }
}

/** What this machine lacks for a cluster, in one line; null when nothing is missing. */
async function missing(): Promise<string | null> {
  try {
    await script('check');
    return null;
  } catch (error) {
    return String(Reflect.get(Object(error), 'stderr')).trim();
  }
}

async function script(...args: readonly string[]): Promise<void> {
  await run('bash', [SCRIPT, ...args]);
}

async function etcd(path: string, body: object): Promise<EtcdAnswer> {
  const response = await fetch(`http://127.0.0.1:12379${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`etcd: ${response.status} ${await response.text()}`);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the answer of etcd's gateway
  return (await response.json()) as EtcdAnswer;
}

interface EtcdAnswer {
  readonly header: { readonly revision: string };
}

/** As in the script. */
function folder(): string {
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache');
  return process.env['LONGSHORE_KUBERNETES_DIR'] ?? join(cache, 'longshore-kubernetes');
}

function isFalse(): boolean {
  return false;
}

function now(): string {
  return new Date().toISOString();
}
