import assert from 'node:assert/strict';
import { EMPTY_NODE } from './cluster.js';
import type { KubeApi, KubeEvent } from './kube-api.js';
import { withPlaceholders, type RecordedVersion, type Recording } from './recording.js';

/* oxlint-disable typescript/no-explicit-any -- objects of an API server are of any shape */

/** Fields of metadata that the fake API server takes from the job that the launcher creates, or sets itself. */
const SET_BY_FAKE = new Set([
  'name',
  'namespace',
  'labels',
  'annotations',
  'ownerReferences',
  'generateName',
  'resourceVersion',
]);

interface Seen {
  readonly at: number;
  readonly type: RecordedVersion['type'];
  readonly object: any;
}

/** Watches a namespace of a real cluster and keeps what its API server sends about jobs, pods and their logs. */
export class Recorder {
  readonly #seen: Seen[] = [];
  readonly #logs = new Map<string, string>();
  readonly #closing = new AbortController();
  /** Jobs that not the launcher has deleted. */
  readonly #deletedByOthers = new Set<string>();
  readonly #watches: Promise<unknown>;

  constructor(
    private readonly api: KubeApi,
    private readonly namespace: string,
  ) {
    const jobs = `/apis/batch/v1/namespaces/${namespace}/jobs`;
    this.#watches = Promise.all(
      [jobs, this.#pods, '/api/v1/nodes'].map((path) =>
        api.watch(path, (event) => this.keep(event), this.#closing.signal),
      ),
    );
  }

  get #pods(): string {
    return `/api/v1/namespaces/${this.namespace}/pods`;
  }

  /** The deletion of this job is part of what happens to the launcher. */
  markDeletedByOthers(job: string): void {
    this.#deletedByOthers.add(job);
  }

  /** Versions of the pods of a job, oldest first, with those that are gone. */
  podVersions(job: string): any[] {
    return this.#seen.flatMap(({ object }) => (ownerOf(object) === job ? [object] : []));
  }

  /** What a container has printed, each line with its time. */
  logOf(pod: string, container: string): string {
    return this.#logs.get(`${pod}/${container}`) ?? '';
  }

  /** Whether the last pod of a job was gone before the first one of another job came. */
  endedBefore(job: string, next: string): boolean {
    const lastOf = this.#seen.findLastIndex(({ object }) => ownerOf(object) === job);
    const firstOf = this.#seen.findIndex(({ object }) => ownerOf(object) === next);
    return this.#seen[lastOf]?.type === 'DELETED' && lastOf < firstOf;
  }

  /** Names of all jobs that were there, oldest first: one for each UID, whatever a watch repeats. */
  jobNames(): string[] {
    const jobs = this.#seen.filter(({ object }) => object.kind === 'Job');
    return [...new Map(jobs.map(({ object: { metadata } }) => [metadata.uid, metadata.name])).values()];
  }

  /** What was sent about a job and its pods so far; about nodes, in the same time. */
  recordingOf(job: string, run: string, kubernetes: string): Recording {
    const created = this.#seen.find(({ object }) => object.kind === 'Job' && object.metadata.name === job);
    assert.ok(created, `the job ${job} was never there`);
    const since = Date.parse(created.object.metadata.creationTimestamp);
    const names = new Map([
      [job, 'job'],
      [created.object.metadata.uid, 'job-uid'],
      [this.namespace, 'namespace'],
      [run, 'run'],
    ]);
    const pods = [...new Set(this.podVersions(job).map(({ metadata }) => metadata.name))];
    for (const { metadata } of this.podVersions(job)) {
      const name = `pod-${pods.indexOf(metadata.name) + 1}`;
      names.set(metadata.name, name).set(metadata.uid, `${name}-uid`);
    }
    const belongs = ({ object }: Seen) =>
      (object.kind === 'Node' && object.metadata.name !== EMPTY_NODE) ||
      object.metadata.name === job ||
      ownerOf(object) === job;
    // Each kind has a watch of its own: only versions tell the order of changes.
    const seen = this.#seen
      .slice(this.#seen.indexOf(created))
      .filter(belongs)
      .toSorted((left, right) => revisionOf(left) - revisionOf(right));
    const deletes = this.#deletedByOthers.has(job)
      ? -1
      : seen.findIndex(
          ({ type, object }) => object.kind === 'Job' && (type === 'DELETED' || isDeleting(object)),
        );
    const end = deletes === -1 ? seen.length : deletes;
    const versions = seen.map((one, index) =>
      withPlaceholders(versionOf(one, seen[index - 1] ?? one), names, since),
    );
    const logs = [...this.#logs].filter(([key]) => pods.includes(key.split('/')[0]));
    return {
      kubernetes,
      template: withPlaceholders(created.object.spec.template, names, null),
      versions: versions.slice(0, end),
      afterDelete: versions.slice(end),
      logs: withPlaceholders(Object.fromEntries(logs), names, null),
    };
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#watches;
  }

  private keep({ type, object }: KubeEvent): void {
    if (type === 'BOOKMARK' || type === 'ERROR') return;
    const { uid, resourceVersion } = object.metadata;
    const earlier = this.#seen.filter((one) => one.object.metadata.uid === uid);
    // A watch that begins again reports all objects again.
    if (earlier.some((one) => one.type === type && one.object.metadata.resourceVersion === resourceVersion))
      return;
    const last = earlier.at(-1);
    if (object.kind === 'Node' && last !== undefined && readinessOf(last.object) === readinessOf(object))
      return;
    this.#seen.push({ at: Date.now(), type, object });
    if (object.kind === 'Pod') this.followLogs(object);
  }

  private followLogs({ metadata, status }: any): void {
    for (const { name, state } of containersOf({ status })) {
      const key = `${metadata.name}/${name}`;
      if (this.#logs.has(key) || (state.running === undefined && state.terminated === undefined)) continue;
      this.#logs.set(key, '');
      const path = `${this.#pods}/${metadata.name}/log?container=${name}&follow=true&timestamps=true`;
      const add = (text: string) => void this.#logs.set(key, `${this.#logs.get(key)}${text}`);
      void this.api.stream(path, add).catch(() => undefined);
    }
  }
}

function versionOf({ at, type, object }: Seen, previous: Seen): RecordedVersion {
  const { kind, metadata, spec, status } = object;
  const rest = Object.fromEntries(Object.entries(metadata).filter(([field]) => !SET_BY_FAKE.has(field)));
  const set =
    kind === 'Job' ? {} : { spec: kind === 'Node' ? { taints: spec.taints } : { nodeName: spec.nodeName } };
  return {
    ms: Math.max(0, at - previous.at),
    type,
    kind,
    name: metadata.name,
    metadata: rest,
    ...set,
    status,
  };
}

function revisionOf({ object }: Seen): number {
  return Number(object.metadata.resourceVersion);
}

function ownerOf(object: any): string | undefined {
  return object.kind === 'Pod' ? object.metadata.ownerReferences?.[0]?.name : undefined;
}

function isDeleting(object: any): boolean {
  return object.metadata.deletionTimestamp !== undefined;
}

/** What changes of a node are of interest: it reports its load every few seconds. */
function readinessOf({ spec, status }: any): string {
  const ready = status.conditions?.find(({ type }: any) => type === 'Ready');
  return JSON.stringify([ready?.status, spec.taints ?? null, spec.unschedulable ?? false]);
}

function containersOf({ status }: any): any[] {
  return [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
}
