import { SettingsError } from '@longshore/common/settings/setting';
import { Backoff } from '@longshore/common/backoff';
import { SYSTEM_CLOCK, type Clock } from '@longshore/worker/process/clock';
import {
  isFinal,
  type Engine,
  type EngineJob,
  type JobKey,
  type JobMemo,
  type JobSpec,
  type JobStatus,
} from '../launcher/engine.js';
import {
  CONTAINER_CAPABILITIES,
  EngineFault,
  type LogLine,
  type RuntimeLog,
} from '@longshore/worker/runtime/runtime';
import type { Collected, GetUploads } from '@longshore/worker/artifacts/collect';
import type { RunArtifacts } from '@longshore/worker/service-api/run-artifacts';
import type { Resources } from '@longshore/worker/service-api/service-api';
import { connect, asEngineFault, orNull } from './api/kubernetes-api.js';
import { ResourceWatch } from './api/resource-watch.js';
import { Paths, type Job, type Pod } from './api/resources.js';
import { BackgroundWork } from './background-work.js';
import { killJob, removeJob, type RemovalParts, submitJob } from './job-lifecycle.js';
import type { WorkerSettings } from '@longshore/worker/settings/worker-settings';
import type { KubernetesSettings } from '@longshore/worker/settings/kubernetes-settings';
import { exchangeFiles, notesIn } from './files-exchange.js';
import { containerSource } from './logs/container-source.js';
import { readOutputs, readPodLog } from './logs/pod-log.js';
import type { Capability } from '@longshore/client/constants';
import { graceCapabilities } from '@longshore/common/capabilities';
import { volumeCapabilities, type OfferedVolumes } from '@longshore/worker/settings/volumes';
import type { JobContext } from './manifest/job-manifest.js';
import {
  deploymentSelector,
  FILES_CONTAINER,
  filesSecretName,
  jobName,
  OUTPUTS_CONTAINER,
  RUN_CONTAINER,
} from './manifest/names.js';
import { sourcesContent } from './manifest/run-files.js';
import { encodedData, memoIn, readSecretData, secretValues, type SecretData } from './manifest/secrets.js';
import { choosePatch, sampleSpec } from './manifest/pod-template-patch.js';
import { checkAccess, checkVolumes, mayListNodes } from './permissions.js';
import { hasContainer, hasEnded, hasSucceeded, storesFiles } from './state/job-status.js';
import { JobStates } from './state/job-states.js';

/** Interval between polls of waiting jobs, in milliseconds. */
const TICK_MS = 5_000;

const RETRY = { firstMs: 250, maxMs: 10_000 };

export interface KubernetesOptions {
  readonly settings: KubernetesSettings;
  /** SERVICE_WORKER_VOLUMES. */
  readonly volumes: OfferedVolumes;
  /** SERVICE_WORKER_FETCH_NETWORKS; null: none. */
  readonly fetchNetworks?: string | null;
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
      ...(options.settings.filesImage === null ? [] : (['artifacts'] as const)),
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
      fetchNetworks = null,
    } = this.options;
    const connection = await connect(env);
    const { api } = connection;
    const paths = new Paths(settings.namespace ?? connection.namespace ?? 'default');
    try {
      const readsCapacity = await checkAccess(
        api,
        paths.namespace,
        fixedResources,
        settings.filesImage !== null,
      );
      const reads = readsCapacity ? 'capacity' : (await mayListNodes(api)) ? 'versions' : 'nothing';
      await checkVolumes(api, paths, volumes);
      const gpuProducts = new Map<string, string>();
      const context = { settings, volumes, fetchNetworks, deployment, workerId, gpuProducts };
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

  async *readLines(job: EngineJob, signal: AbortSignal): AsyncGenerator<LogLine, void, undefined> {
    const hasFiles = await this.untilKnown(job, signal);
    if (hasFiles) yield* notesIn(this.readContainer(job, FILES_CONTAINER, signal));
    yield* this.readContainer(job, RUN_CONTAINER, signal);
    const pod = this.parts().states.podOf(job);
    if (pod !== null && storesFiles(pod)) yield* notesIn(this.readContainer(job, OUTPUTS_CONTAINER, signal));
  }

  async renewFiles(key: JobKey, artifacts: RunArtifacts): Promise<void> {
    const { api, paths, context, clock } = this.parts();
    const content = sourcesContent(artifacts, context.fetchNetworks, clock.epochMs());
    try {
      await orNull(api.merge(paths.secrets(filesSecretName(key)), { data: encodedData(content) }));
    } catch (error) {
      throw asEngineFault(error, 'take the URLs of the files of the run');
    }
  }

  async storeFiles(job: EngineJob, getUploads: GetUploads, signal: AbortSignal): Promise<Collected> {
    const { states, ...parts } = this.parts();
    const pod = states.podOf(job);
    if (pod === null) throw new EngineFault('Kubernetes has deleted the pod with the files of the run');
    const program = {
      ...job,
      podName: pod.metadata?.name ?? '',
      hasSucceeded: hasSucceeded(pod) === true,
      isOver: () => hasEnded(states.podOf(job) ?? pod, OUTPUTS_CONTAINER),
    };
    const lines = this.readContainer(job, OUTPUTS_CONTAINER, signal);
    return exchangeFiles(parts, program, lines, getUploads, signal);
  }

  private readContainer(job: EngineJob, container: string, signal: AbortSignal): AsyncIterable<LogLine> {
    const source = containerSource(this.parts(), job, container);
    return readPodLog(source, this.clock, new Backoff(RETRY, Math.random), signal);
  }

  /** Waits for the pod. @returns whether its run gets or leaves files */
  private async untilKnown(job: EngineJob, signal: AbortSignal): Promise<boolean> {
    const { states } = this.parts();
    for (;;) {
      const pod = states.podOf(job);
      if (pod !== null) return hasContainer(pod, FILES_CONTAINER);
      const listed = states.table.find(job);
      if (listed === null || isFinal(listed.status)) return false;
      await states.table.nextStatus(job, listed.status, signal);
    }
  }

  async readOutputs(job: EngineJob, signal: AbortSignal): Promise<Buffer | null> {
    const { states, ...parts } = this.parts();
    const podName = states.podOf(job)?.metadata?.name;
    if (podName === undefined) throw new EngineFault('Kubernetes has deleted the pod with the outputs');
    return readOutputs(parts, podName, signal);
  }

  readSecrets(key: JobKey): Promise<Readonly<Record<string, string | Buffer>> | null> {
    return this.readSecret(key, secretValues);
  }

  readMemo(key: JobKey): Promise<JobMemo | null> {
    return this.readSecret(key, memoIn);
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

  private async readSecret<T>(key: JobKey, read: (data: SecretData) => T): Promise<T | null> {
    const { api, paths } = this.parts();
    try {
      const data = await readSecretData(api, paths, key);
      return data && read(data);
    } catch (error) {
      throw asEngineFault(error, `give the Secret '${jobName(key)}'`);
    }
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
