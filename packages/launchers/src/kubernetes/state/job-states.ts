import type { Clock } from '@longshore/worker/process/clock';
import { isFinal, type EngineJob, type JobStatus } from '../../launcher/engine.js';
import { JobTable } from '../../launcher/job-table.js';
import type { Job, Pod } from '../api/resources.js';
import type { ResourceListener } from '../api/resource-watch.js';
import { mountsClaim } from '../manifest/mounts.js';
import { identityOf, INPUTS_CONTAINER, jobName, keyOf, POD_ANNOTATION } from '../manifest/names.js';
import { QuickSteps } from './silence.js';
import { hasStarted, statusOf, timesOf, type KnownProblem, waitProblemOf } from './job-status.js';

/** What the states ask of the engine. */
export interface StateActions {
  /** Lists the pods of the attempt; `setPods` takes the answer. */
  listPods(job: EngineJob): void;
  /** Remembers the pod of a Job in the cluster. */
  recordPod(name: string, podUid: string): void;
  /** Ends a Job whose pod is lost, so that the cluster starts no other one. */
  endLost(job: EngineJob): void;
}

export interface StateOptions {
  readonly workerId: string;
  readonly clock: Clock;
  /** How long an image may be unavailable, in milliseconds. */
  readonly pullGraceMs: number;
}

/** The Job of an attempt and what is known about its pods. */
interface Entry {
  job: Job;
  /** Monotonic time at which this process submitted the Job; a list that is older may lack it. */
  readonly submittedAtMs: number;
  firstPod: string | null;
  creationProblem: string;
  unmounted: string | null;
}

/** Derives the table of jobs from the listed Jobs and pods. */
export class JobStates {
  readonly table = new JobTable();
  private readonly entries = new Map<string, Entry>();
  /** By name of the Job, then by UID. */
  private readonly pods = new Map<string, Map<string, Pod>>();
  /** Why pods cannot start, by UID. */
  private readonly problems = new Map<string, KnownProblem>();
  private readonly quickSteps = new QuickSteps();

  constructor(
    private readonly options: StateOptions,
    private readonly actions: StateActions,
  ) {}

  readonly jobListener: ResourceListener<Job> = {
    onList: (jobs, startedAtMs) => {
      const listed = new Set(jobs.map(({ metadata }) => metadata?.name));
      for (const job of jobs) this.setJob(job);
      for (const [name, { submittedAtMs }] of this.entries)
        if (!listed.has(name) && submittedAtMs < startedAtMs) this.deleteJob(name);
    },
    onChange: (job) => this.setJob(job),
    onDelete: ({ metadata }) => this.deleteJob(metadata?.name ?? ''),
  };

  readonly podListener: ResourceListener<Pod> = {
    onList: (pods) => {
      const names = new Set([...this.pods.keys(), ...pods.map(jobOf)]);
      const uids = new Set(pods.map(({ metadata }) => metadata?.uid));
      this.quickSteps.keepOnly(uids);
      for (const uid of this.problems.keys()) if (!uids.has(uid)) this.problems.delete(uid);
      this.pods.clear();
      for (const pod of pods) this.putPod(pod);
      for (const name of names) this.evaluate(name);
    },
    onChange: (pod) => {
      this.putPod(pod);
      this.evaluate(jobOf(pod));
    },
    onDelete: (pod) => {
      const { uid = '' } = pod.metadata ?? {};
      const name = jobOf(pod);
      const pods = this.pods.get(name);
      pods?.delete(uid);
      if (pods?.size === 0) this.pods.delete(name);
      this.problems.delete(uid);
      this.quickSteps.forget(uid);
      this.evaluate(name);
    },
  };

  /** A Job that this process has just created or found. */
  submitted(job: Job): EngineJob | null {
    this.setJob(job, this.options.clock.nowMs());
    const key = keyOf(job.metadata?.labels);
    return key === null ? null : this.table.find(key);
  }

  /** Takes over a complete list of the pods of an attempt that is newer than its Job. */
  setPods(name: string, pods: readonly Pod[]): void {
    if (!this.entries.has(name)) return;
    this.pods.delete(name);
    for (const pod of pods) this.putPod(pod);
    this.evaluate(name, true);
  }

  setCreationProblem(name: string, problem: string): void {
    const entry = this.entries.get(name);
    if (entry === undefined) return;
    entry.creationProblem = problem;
    this.evaluate(name);
  }

  /** The node of the pod could not mount a volume of the run. */
  setUnmounted(name: string, volume: string): void {
    const entry = this.entries.get(name);
    if (entry === undefined) return;
    entry.unmounted = volume;
    this.evaluate(name);
  }

  /** The pod of the attempt that counts; null: none is there. */
  podOf(job: EngineJob): Pod | null {
    const name = jobName(job);
    const known = this.entries.get(name)?.firstPod ?? null;
    return (
      this.podsOf(name, job.engineId).find(({ metadata }) => known === null || metadata?.uid === known) ??
      null
    );
  }

  /** Names of Jobs that have had no pod yet. */
  withoutPod(): readonly string[] {
    return [...this.entries].filter(([, { firstPod }]) => firstPod === null).map(([name]) => name);
  }

  /** Names of Jobs by the UIDs of their pods that mount volumes and have not started. */
  withoutVolumes(): ReadonlyMap<string, string> {
    const waiting = [...this.entries].flatMap(([name, { firstPod }]) => {
      const pod = this.pods.get(name)?.get(firstPod ?? '');
      const waits = pod !== undefined && mountsClaim(pod.spec) && !hasStarted(pod, INPUTS_CONTAINER);
      return waits ? [[pod.metadata?.uid ?? '', name] as const] : [];
    });
    return new Map(waiting);
  }

  /** Pods whose Job is not listed. */
  orphans(): readonly Pod[] {
    const lone = [...this.pods].filter(([name]) => !this.entries.has(name));
    return lone.flatMap(([, pods]) => [...pods.values()]);
  }

  /** Judges waiting jobs again, as time has passed. */
  tick(): void {
    for (const name of this.entries.keys()) this.evaluate(name);
  }

  private setJob(job: Job, submittedAtMs = -Infinity): void {
    const { name = '', uid } = job.metadata ?? {};
    const old = this.entries.get(name);
    if (old !== undefined && old.job.metadata?.uid === uid) {
      old.job = job;
    } else {
      const firstPod = job.metadata?.annotations?.[POD_ANNOTATION] ?? null;
      this.entries.set(name, { job, submittedAtMs, firstPod, creationProblem: '', unmounted: null });
    }
    this.evaluate(name);
  }

  private deleteJob(name: string): void {
    const entry = this.entries.get(name);
    const key = keyOf(entry?.job.metadata?.labels);
    this.entries.delete(name);
    if (key !== null) this.table.delete(key);
  }

  private putPod(pod: Pod): void {
    const uid = pod.metadata?.uid ?? '';
    const name = jobOf(pod);
    const pods = this.pods.get(name) ?? new Map<string, Pod>();
    this.pods.set(name, pods.set(uid, pod));
    this.quickSteps.see(pod, this.options.clock.epochMs());
    const problem = waitProblemOf(pod);
    const last = this.problems.get(uid);
    if (last !== undefined && hasStarted(pod, last.container)) this.problems.delete(uid);
    if (problem === null) return;
    const { container } = problem;
    const known = last?.container === container ? last : undefined;
    // A pod that this process has seen without the problem has it since now, another one for as long as the engine knows.
    const isNew = this.entries.get(name)?.firstPod !== uid;
    const sinceMs =
      known?.sinceMs ?? (isNew ? problem.startingSinceMs : null) ?? this.options.clock.epochMs();
    // Between two pulls the engine only says that it waits.
    const message = problem.isBackOff ? (known?.message ?? problem.message) : problem.message;
    this.problems.set(uid, { container, sinceMs, message });
  }

  private podsOf(name: string, jobUid: string | undefined): readonly Pod[] {
    return [...(this.pods.get(name)?.values() ?? [])].filter(({ metadata }) =>
      metadata?.ownerReferences?.some(({ uid }) => uid === jobUid),
    );
  }

  private evaluate(name: string, arePodsComplete = false): void {
    const entry = this.entries.get(name);
    const identity = entry === undefined ? null : identityOf(entry.job);
    if (entry === undefined || identity === null) return;
    const known = this.table.find(identity);
    const isSame = known?.engineId === identity.engineId;
    // What has ended stays as it was, whatever is deleted later.
    if (known !== null && isSame && isFinal(known.status)) return;
    const pods = this.podsOf(name, identity.engineId);
    this.recordFirst(entry, name, identity, pods);
    const nowMs = this.options.clock.epochMs();
    const status = statusOf({
      ...entry,
      pods,
      arePodsComplete,
      problem: this.problems.get(entry.firstPod ?? '') ?? null,
      silence: this.quickSteps.silenceOf(entry.firstPod ?? '', nowMs),
      nowMs,
      pullGraceMs: this.options.pullGraceMs,
    });
    if (status.kind === 'pods-unknown') {
      const before: JobStatus = isSame && known !== null ? known.status : { kind: 'pending', reason: '' };
      this.table.put({ ...identity, status: before });
      this.actions.listPods({ ...identity, status: before });
      return;
    }
    const times = timesOf(pods) ?? (isSame ? known?.times : undefined);
    this.table.put({ ...identity, status, ...(times && { times }) });
    if (!isFinal(status)) return;
    for (const { metadata: { uid = '' } = {} } of pods) {
      this.problems.delete(uid);
      this.quickSteps.forget(uid);
    }
    const isLost = status.kind === 'failed' && status.cause === 'infrastructure';
    if (isLost && this.isOwn(identity) && entry.job.metadata?.deletionTimestamp === undefined)
      this.actions.endLost({ ...identity, status });
  }

  private recordFirst(
    entry: Entry,
    name: string,
    identity: Omit<EngineJob, 'status'>,
    [pod, ...others]: readonly Pod[],
  ): void {
    const uid = pod?.metadata?.uid;
    if (entry.firstPod !== null || uid === undefined || others.length > 0) return;
    entry.firstPod = uid;
    if (this.isOwn(identity)) this.actions.recordPod(name, uid);
  }

  private isOwn({ workerId }: Pick<EngineJob, 'workerId'>): boolean {
    return workerId === this.options.workerId;
  }
}

function jobOf(pod: Pod): string {
  const key = keyOf(pod.metadata?.labels);
  return key === null ? '' : jobName(key);
}
