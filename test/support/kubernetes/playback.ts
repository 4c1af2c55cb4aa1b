import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FakeObjects, Resource } from './fake-objects.js';
import { differenceOf } from './template-difference.js';
import { fillIn, secondsOf, type RecordedVersion, type Recording } from './recording.js';

/* oxlint-disable typescript/no-explicit-any -- objects of an API server are of any shape */

const RESOURCES = { Job: 'jobs', Pod: 'pods', Node: 'nodes' } as const satisfies Record<string, Resource>;
/** Longest pause between two versions, in milliseconds: enough for a launcher to see each of them. */
const LONGEST_PAUSE_MS = 150;

/** Takes a job and its pods through the states of a recording. */
export class Playback {
  readonly #names: Map<string, string>;
  readonly #createdAt = Date.now();
  readonly #deleting = new AbortController();
  readonly #uid = randomUUID();

  /** @param posted the job that the launcher creates */
  constructor(
    private readonly objects: FakeObjects,
    private readonly posted: any,
    private readonly recording: Recording,
  ) {
    const { name, namespace } = posted.metadata;
    this.#names = new Map([
      ['job', name],
      ['job-uid', this.#uid],
      ['namespace', namespace],
    ]);
    for (const { kind, name: pod } of [...recording.versions, ...recording.afterDelete]) {
      if (kind !== 'Pod') continue;
      const placeholder = pod.slice(2, -2);
      this.#names.set(placeholder, `${name}-${placeholder}`).set(`${placeholder}-uid`, randomUUID());
    }
  }

  /** Whether the pod belongs to this job. */
  owns(pod: string): boolean {
    return [...this.#names.values()].includes(pod);
  }

  /** The recorded log of a container, each line with its time stamp. */
  logOf(pod: string, container: string): string {
    const [placeholder] = [...this.#names].find(([, name]) => name === pod) ?? [];
    const log = this.recording.logs[`{{${placeholder}}}/${container}`] ?? '';
    return fillIn(log, this.#names, this.#createdAt);
  }

  /** Where the job differs from the one that the cluster was given; null: nowhere, or the recording is of any job. */
  difference(): string | null {
    const { template } = this.recording;
    if (template === undefined) return null;
    const own = new Map([...this.#names, ['run', this.posted.metadata.labels['longshore.run']]]);
    return differenceOf(this.posted.spec.template, fillIn(template, own, this.#createdAt), 'template');
  }

  /** The job as it is created. @returns it; its further versions follow */
  create(): any {
    const [first, ...rest] = this.recording.versions;
    if (first === undefined || first.kind !== 'Job') throw new Error('a recording begins with its job');
    const job = this.apply(first);
    void this.play(rest, this.#deleting.signal);
    return job;
  }

  /** The launcher deletes the job. @returns it as it is then */
  delete(): any {
    if (!this.#deleting.signal.aborted) {
      this.#deleting.abort();
      void this.end();
    }
    return this.objects.find('jobs', this.posted.metadata.name);
  }

  private async end(): Promise<void> {
    await this.play(this.recording.afterDelete, new AbortController().signal);
    // What the garbage collector of the cluster removes with the job.
    for (const resource of ['pods', 'secrets', 'jobs'] as const) {
      for (const { metadata } of this.objects.list(resource)) {
        const owners: any[] = metadata.ownerReferences ?? [];
        if (metadata.uid === this.#uid || owners.some(({ uid }) => uid === this.#uid)) {
          this.objects.delete(resource, metadata.name);
        }
      }
    }
  }

  private async play(versions: readonly RecordedVersion[], signal: AbortSignal): Promise<void> {
    for (const version of versions) {
      await sleep(Math.min(version.ms, LONGEST_PAUSE_MS), undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      this.apply(version);
    }
  }

  private apply(version: RecordedVersion): any {
    const filled = fillIn(version, this.#names, this.#createdAt);
    const resource = RESOURCES[filled.kind];
    const object = this.objectOf(filled);
    if (filled.type !== 'DELETED') return this.objects.put(resource, object);
    this.objects.delete(resource, filled.name, object);
    return object;
  }

  private objectOf({ kind, name, metadata, spec, status }: RecordedVersion): any {
    const { apiVersion, metadata: posted, spec: job } = this.posted;
    switch (kind) {
      case 'Node': {
        const node = this.objects.find('nodes', name);
        return { ...node, spec: { ...node.spec, ...spec }, status: { ...node.status, ...status } };
      }
      case 'Job': {
        const selector = { matchLabels: { 'controller-uid': this.#uid } };
        const stored = this.objects.find('jobs', name)?.metadata ?? posted;
        const own = { ...posted, ...metadata, name, annotations: stored.annotations };
        return { apiVersion, kind, metadata: own, spec: { ...job, selector }, status };
      }
      case 'Pod': {
        const labels = {
          ...job.template.metadata?.labels,
          'controller-uid': this.#uid,
          'job-name': posted.name,
        };
        const owner = { apiVersion, kind: 'Job', name: posted.name, uid: this.#uid, controller: true };
        const own = { ...job.template.metadata, ...metadata, name, namespace: posted.namespace, labels };
        const pod = {
          ...own,
          creationTimestamp: metadata['creationTimestamp'] ?? secondsOf(this.#createdAt),
        };
        return {
          apiVersion: 'v1',
          kind,
          metadata: { ...pod, ownerReferences: [owner] },
          spec: { ...job.template.spec, ...spec },
          status,
        };
      }
    }
  }
}
