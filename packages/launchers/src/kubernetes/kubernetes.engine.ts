import { SettingsError } from '@longshore/common/settings/setting';
import { Backoff } from '@longshore/common/backoff';
import { SYSTEM_CLOCK, type Clock } from '@longshore/worker/process/clock';
import {
  isFinal,
  type Engine,
  type EngineJob,
  type JobKey,
  type JobSpec,
  type JobStatus,
} from '../launcher/engine.js';
import {
  CONTAINER_CAPABILITIES,
  EngineFault,
  type LogLine,
  type RuntimeLog,
} from '@longshore/worker/runtime/runtime';
import type { Resources } from '@longshore/worker/service-api/service-api';
import { connect, asEngineFault } from './api/kubernetes-api.js';
import { ResourceWatch } from './api/resource-watch.js';
import { Paths, type Job, type Pod } from './api/resources.js';
import { BackgroundWork } from './background-work.js';
import { killJob, removeJob, type RemovalParts, submitJob } from './job-lifecycle.js';
import type { WorkerSettings } from '@longshore/worker/settings/worker-settings';
import type { KubernetesSettings } from '@longshore/worker/settings/kubernetes-settings';
import { readOutputs, readPodLog, type LogQuery } from './logs/pod-log.js';
import type { Capability } from '@longshore/client/constants';
import { graceCapabilities } from '@longshore/common/capabilities';
import { volumeCapabilities, type OfferedVolumes } from '@longshore/worker/settings/volumes';
import type { JobContext } from './manifest/job-manifest.js';
import { deploymentSelector, jobName, RUN_CONTAINER } from './manifest/names.js';
import { readSecretValues } from './manifest/secrets.js';
import { choosePatch, sampleSpec } from './manifest/pod-template-patch.js';
import { checkAccess, checkVolumes, mayListNodes } from './permissions.js';
import { hasStarted } from './state/job-status.js';
import { JobStates } from './state/job-states.js';

/** Interval between polls of waiting jobs, in milliseconds. */
const TICK_MS = 5_000;

const RETRY = { firstMs: 250, maxMs: 10_000 };

export interface KubernetesOptions {
  readonly settings: KubernetesSettings;
  /** SERVICE_WORKER_VOLUMES. */
  readonly volumes: OfferedVolumes;
  readonly workerId: string;
  /** Name on all Jobs; launchers of one deployment see each other's. */
  readonly deployment: string;
  readonly log: RuntimeLog;
  /** SERVICE_WORKER_OLD_ENGINE. */
  readonly oldEngine: WorkerSettings['oldEngine'];
  /** KUBECONFIG. */
  readonly env: Readonly<NodeJS.ProcessEnv>;
  /** Whether the launcher reports resources that its settings give: nodes need not be read. */
  readonly fixedResources?: boolean;
  /** SERVICE_WORKER_MAX_GRACE_S; absent: the least that it may be. */
  readonly maxGraceSeconds?: number;
  readonly clock?: Clock;
}

/** What exists after `open`. */
interface Opened extends RemovalParts {
  readonly states: JobStates;
  readonly context: JobContext;
  readonly work: BackgroundWork;
}

/** Executes attempts as Jobs of a Kubernetes cluster. */
export class KubernetesEngine implements Engine {
  readonly name = 'kubernetes';
  readonly capabilities: readonly Capability[];
  readonly tags: readonly string[];
  private readonly clock: Clock;
  private readonly closing = new AbortController();
  private opened: Opened | null = null;

  constructor(private readonly options: KubernetesOptions) {
    const { volumes, maxGraceSeconds = 0 } = options;
    this.capabilities = [
      ...CONTAINER_CAPABILITIES,
      ...volumeCapabilities(volumes),
      ...graceCapabilities(maxGraceSeconds),
    ];
    this.tags = [...options.settings.tags.keys()];
    this.clock = options.clock ?? SYSTEM_CLOCK;
  }

  async open(): Promise<void> {
    const {
      settings,
      volumes,
      workerId,
      deployment,
      log,
      env,
      oldEngine,
      fixedResources = false,
    } = this.options;
    const connection = await connect(env);
    const { api } = connection;
    const paths = new Paths(settings.namespace ?? connection.namespace ?? 'default');
    try {
      const readsCapacity = await checkAccess(api, paths.namespace, fixedResources);
      const reads = readsCapacity ? 'capacity' : (await mayListNodes(api)) ? 'versions' : 'nothing';
      await checkVolumes(api, paths, volumes);
      const context = { settings, volumes, deployment, workerId, gpuProducts: new Map<string, string>() };
      const patch = await choosePatch(context);
      const removal = { api, paths, deployment, clock: this.clock };
      const work = new BackgroundWork(removal, {
        settings,
        workerId,
        template: sampleSpec({ ...context, patch }),
        reads,
        oldEngine,
        log,
        signal: this.closing.signal,
      });
      const states = new JobStates(
        { workerId, clock: this.clock, pullGraceMs: settings.pullGraceSeconds * 1000 },
        work,
      );
      await this.startWatches(removal, states);
      this.opened = { ...removal, states, context: { ...context, patch }, work };
      await work.start(states);
      void this.tick(states);
    } catch (error) {
      this.closing.abort();
      if (error instanceof SettingsError) throw error;
      throw asEngineFault(error, `be used at ${api.server}`);
    }
  }

  async close(): Promise<void> {
    this.closing.abort();
  }

  list(): readonly EngineJob[] {
    return this.parts().states.table.list();
  }

  nextStatus(key: JobKey, known: JobStatus | null, signal: AbortSignal): Promise<EngineJob | null> {
    return this.parts().states.table.nextStatus(key, known, signal);
  }

  async submit(spec: JobSpec): Promise<EngineJob> {
    const { states, context, work, ...parts } = this.parts();
    const listed = states.table.find(spec);
    if (listed !== null) return listed;
    const { gpuProducts } = work.capacity;
    const job = states.submitted(await submitJob(parts, spec, { ...context, gpuProducts }));
    if (job === null) throw new EngineFault(`The Kubernetes job '${jobName(spec)}' is not of a launcher`);
    return job;
  }

  readLines(job: EngineJob, signal: AbortSignal): AsyncIterable<LogLine> {
    const { api, paths, states } = this.parts();
    const hasEnded = () => {
      const listed = states.table.find(job);
      return listed === null || isFinal(listed.status);
    };
    const untilChanged = async (until: AbortSignal) => {
      await states.table.nextStatus(job, states.table.find(job)?.status ?? null, until);
    };
    const source = {
      open: async (query: LogQuery, until: AbortSignal) => {
        for (;;) {
          const pod = states.podOf(job);
          if (pod !== null && hasStarted(pod, RUN_CONTAINER)) {
            const options = { ...query, container: RUN_CONTAINER };
            return api.stream(paths.log(pod.metadata?.name ?? ''), options, until);
          }
          if (hasEnded()) return nothing();
          await untilChanged(until);
        }
      },
      hasEnded,
      untilChanged,
    };
    return readPodLog(source, this.clock, new Backoff(RETRY, Math.random), signal);
  }

  async readOutputs(job: EngineJob, signal: AbortSignal): Promise<Buffer | null> {
    const { states, ...parts } = this.parts();
    const podName = states.podOf(job)?.metadata?.name;
    if (podName === undefined) throw new EngineFault('Kubernetes has deleted the pod with the outputs');
    return readOutputs(parts, podName, signal);
  }

  async readSecrets(key: JobKey): Promise<Readonly<Record<string, string | Buffer>> | null> {
    const { api, paths } = this.parts();
    try {
      return await readSecretValues(api, paths, key);
    } catch (error) {
      throw asEngineFault(error, `give the Secret '${jobName(key)}'`);
    }
  }

  async remove(key: JobKey): Promise<void> {
    try {
      await removeJob(this.parts(), key);
    } catch (error) {
      throw asEngineFault(error, `delete the job '${jobName(key)}'`);
    }
  }

  async kill(key: JobKey): Promise<void> {
    try {
      await killJob(this.parts(), key);
    } catch (error) {
      throw asEngineFault(error, `kill the pods of the job '${jobName(key)}'`);
    }
  }

  capacity(): Resources {
    return this.parts().work.capacity.resources;
  }

  async probe(): Promise<void> {
    const { api, paths } = this.parts();
    try {
      await api.get<object>(paths.jobs(), { limit: 1 });
    } catch (error) {
      throw asEngineFault(error, 'be reached');
    }
  }

  /** Pods first: a Job whose pod is not known yet would look as if it had lost it. */
  private async startWatches(parts: RemovalParts, states: JobStates): Promise<void> {
    const { api, paths, deployment, clock } = parts;
    const common = { api, clock, log: this.options.log, labelSelector: deploymentSelector(deployment) };
    const { signal } = this.closing;
    const pods = new ResourceWatch<Pod>({ ...common, path: paths.pods(), listener: states.podListener });
    const jobs = new ResourceWatch<Job>({ ...common, path: paths.jobs(), listener: states.jobListener });
    const podVersion = await pods.list(signal);
    const jobVersion = await jobs.list(signal);
    void pods.follow(podVersion, signal);
    void jobs.follow(jobVersion, signal);
  }

  private async tick(states: JobStates): Promise<void> {
    const { signal } = this.closing;
    while (!signal.aborted) {
      await this.clock.sleep(TICK_MS, signal);
      states.tick();
    }
  }

  private parts(): Opened {
    if (this.opened === null) throw new EngineFault('The connection to Kubernetes is not open');
    return this.opened;
  }
}

async function* nothing(): AsyncGenerator<Buffer, void, undefined> {
  // The container has never run.
}
