import type { EngineJob } from '../launcher/engine.js';
import type { RuntimeLog } from '@longshore/worker/runtime/runtime';
import { SettingsError } from '@longshore/common/settings/setting';
import type { WorkerSettings } from '@longshore/worker/settings/worker-settings';
import { orNull } from './api/kubernetes-api.js';
import type { ClusterEvent, Pod, PodSpec } from './api/resources.js';
import { removeJob, type RemovalParts, removeOrphans } from './job-lifecycle.js';
import type { KubernetesSettings } from '@longshore/worker/settings/kubernetes-settings';
import { unmountedVolume } from './manifest/mounts.js';
import {
  attemptSelector,
  DEPLOYMENT_LABEL,
  jobName,
  labelValue,
  POD_ANNOTATION,
  WORKER_LABEL,
} from './manifest/names.js';
import { readCapacity, readWeaknesses, type ClusterCapacity } from './state/cluster-capacity.js';
import type { JobStates, StateActions } from './state/job-states.js';
import { errorText } from '@longshore/common/errors';
import { repeat } from '@longshore/worker/process/clock';

/** Times between two rounds, in milliseconds. */
const CAPACITY_MS = 30_000;
const ORPHANS_MS = 60_000;
const EVENTS_MS = 10_000;

const NOTHING: ClusterCapacity = {
  resources: { cpuCores: 0, ramMb: 0, gpus: [] },
  gpuProducts: new Map(),
  weaknesses: null,
};

export interface BackgroundOptions {
  readonly settings: KubernetesSettings;
  readonly workerId: string;
  /** Pod of a run, with the operator's patch. */
  readonly template: PodSpec | undefined;
  /** What the launcher reads of the whole cluster: nodes and pods, the versions of nodes alone, or nothing. */
  readonly reads: 'capacity' | 'versions' | 'nothing';
  /** SERVICE_WORKER_OLD_ENGINE. */
  readonly oldEngine: WorkerSettings['oldEngine'];
  readonly log: RuntimeLog;
  /** Aborted when the engine is closed. */
  readonly signal: AbortSignal;
}

/** Requests that no call of the launcher waits for. A failed one is logged, and repeated with the next round or change. */
export class BackgroundWork implements StateActions {
  /** What the cluster could give to this launcher's jobs, as of the last reading. */
  capacity = NOTHING;
  private readonly pending = new Set<string>();
  private states: JobStates | null = null;
  private warned: string | null = null;

  constructor(
    private readonly parts: RemovalParts,
    private readonly options: BackgroundOptions,
  ) {}

  /**
   * Reads the capacity, and begins the rounds.
   * @throws SettingsError when nodes have weaknesses that the operator refuses
   */
  async start(states: JobStates): Promise<void> {
    this.states = states;
    const { reads, oldEngine, template } = this.options;
    if (reads === 'capacity') await this.readCapacity();
    if (reads === 'versions')
      this.warnOnce(await readWeaknesses(this.parts.api, template ?? { containers: [] }));
    if (oldEngine === 'refuse' && (this.warned !== null || reads === 'nothing')) {
      const why = this.warned ?? 'the account of the launcher may not list nodes';
      throw new SettingsError([`SERVICE_WORKER_OLD_ENGINE=refuse: ${why} (docs/kubernetes.md)`]);
    }
    if (reads === 'capacity') {
      this.repeat('reading the capacity', CAPACITY_MS, () => this.readCapacity());
    }
    this.repeat('removing orphans', ORPHANS_MS, () => this.removeOrphans(states));
    this.repeat('reading events', EVENTS_MS, () => this.readEvents(states));
  }

  listPods(job: EngineJob): void {
    const { api, paths, deployment } = this.parts;
    this.begin(`listing the pods of ${jobName(job)}`, async () => {
      const labelSelector = attemptSelector(deployment, job);
      const { items } = await api.list<Pod>(paths.pods(), { labelSelector });
      this.states?.setPods(jobName(job), items);
    });
  }

  recordPod(name: string, podUid: string): void {
    const { api, paths } = this.parts;
    const patch = { metadata: { annotations: { [POD_ANNOTATION]: podUid } } };
    this.begin(`recording the pod of ${name}`, async () => {
      await orNull(api.merge(paths.jobs(name), patch));
    });
  }

  endLost(job: EngineJob): void {
    this.begin(`ending ${jobName(job)}`, () => removeJob(this.parts, job, this.options.signal));
  }

  private begin(what: string, request: () => Promise<void>): void {
    if (this.pending.has(what)) return;
    this.pending.add(what);
    void this.logged(what, request).finally(() => this.pending.delete(what));
  }

  private repeat(what: string, everyMs: number, request: () => Promise<void>): void {
    void repeat(this.parts.clock, everyMs, this.options.signal, () => this.logged(what, request));
  }

  private async logged(what: string, request: () => Promise<void>): Promise<void> {
    try {
      await request();
    } catch (error) {
      this.options.log.warn({ error: errorText(error) }, `Kubernetes: ${what} failed`);
    }
  }

  private async readCapacity(): Promise<void> {
    const { settings, workerId, template = { containers: [] } } = this.options;
    const own = [labelValue(this.parts.deployment), labelValue(workerId)];
    this.capacity = await readCapacity(this.parts.api, {
      template,
      vramLabel: settings.vramLabel,
      tags: settings.tags,
      isOwn: ({ metadata }) =>
        metadata?.labels?.[DEPLOYMENT_LABEL] === own[0] && metadata?.labels?.[WORKER_LABEL] === own[1],
    });
    this.warnOnce(this.capacity.weaknesses);
  }

  /** Once for the same words: nodes come and go. */
  private warnOnce(weaknesses: string | null): void {
    if (weaknesses !== null && weaknesses !== this.warned) this.options.log.warn({}, weaknesses);
    this.warned = weaknesses;
  }

  private async removeOrphans(states: JobStates): Promise<void> {
    const removed = await removeOrphans(this.parts, states.orphans());
    if (removed > 0) this.options.log.info({ removed }, 'removed what a launcher left in the cluster');
  }

  /** Only events tell why the cluster creates no pod, for example because of a quota, and which volume a node cannot mount. */
  private async readEvents(states: JobStates): Promise<void> {
    const withoutPod = new Set(states.withoutPod());
    if (withoutPod.size > 0) {
      for (const { involvedObject, message } of await this.listEvents('Job', 'FailedCreate')) {
        const name = involvedObject.name ?? '';
        if (withoutPod.has(name)) states.setCreationProblem(name, message ?? '');
      }
    }
    const withoutVolumes = states.withoutVolumes();
    if (withoutVolumes.size === 0) return;
    for (const { involvedObject, message } of await this.listEvents('Pod', 'FailedMount')) {
      const name = withoutVolumes.get(involvedObject.uid ?? '');
      const volume = unmountedVolume(message);
      if (name !== undefined && volume !== undefined) states.setUnmounted(name, volume);
    }
  }

  private async listEvents(kind: string, reason: string): Promise<readonly ClusterEvent[]> {
    const { api, paths } = this.parts;
    const fieldSelector = `involvedObject.kind=${kind},reason=${reason}`;
    return (await api.list<ClusterEvent>(paths.events(), { fieldSelector })).items;
  }
}
