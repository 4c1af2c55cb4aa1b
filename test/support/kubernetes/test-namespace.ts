import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { until } from '../service-process.js';
import type { Cluster } from './cluster.js';
import { Recorder } from './recorder.js';
import { readAnswers, writeRecording } from './recording.js';

/* oxlint-disable typescript/no-explicit-any -- objects of an API server are of any shape */

const VOLUMES = '/api/v1/persistentvolumes';

/** A namespace of the real cluster that one test file has for itself, and the record of what happens in it. */
export class TestNamespace {
  readonly recorder: Recorder;

  private constructor(
    readonly cluster: Cluster,
    readonly name: string,
  ) {
    this.recorder = new Recorder(cluster.api, name);
  }

  static async create(cluster: Cluster): Promise<TestNamespace> {
    const name = `longshore-test-${randomBytes(4).toString('hex')}`;
    await cluster.api.must('POST', '/api/v1/namespaces', { metadata: { name } });
    const account = `/api/v1/namespaces/${name}/serviceaccounts/default`;
    const isThere = async () => (await cluster.api.ask('GET', account)).status === 200;
    await until(isThere, 'the namespace has its service account');
    return new TestNamespace(cluster, name);
  }

  get jobsPath(): string {
    return `/apis/batch/v1/namespaces/${this.name}/jobs`;
  }

  get podsPath(): string {
    return `/api/v1/namespaces/${this.name}/pods`;
  }

  get claimsPath(): string {
    return `/api/v1/namespaces/${this.name}/persistentvolumeclaims`;
  }

  /**
   * Adds a claim for a folder of this machine, which is the node.
   * @param type of the volume `hostPath`: with `Directory`, the node looks for the folder; else the engine creates it
   */
  async addClaim(name: string, path: string, type = ''): Promise<void> {
    const { api } = this.cluster;
    const volumeName = `${this.name}-${name}`;
    const common = { accessModes: ['ReadWriteMany'], storageClassName: '' };
    const storage = '1Gi';
    await api.must('POST', VOLUMES, {
      metadata: { name: volumeName },
      spec: {
        ...common,
        capacity: { storage },
        hostPath: { path, type },
        claimRef: { namespace: this.name, name },
      },
    });
    await api.must('POST', this.claimsPath, {
      metadata: { name },
      spec: { ...common, volumeName, resources: { requests: { storage } } },
    });
    const isBound = async () =>
      (await api.must('GET', `${this.claimsPath}/${name}`)).status.phase === 'Bound';
    await until(isBound, `the claim ${name} is bound`);
  }

  async pods(): Promise<any[]> {
    return (await this.cluster.api.must('GET', this.podsPath)).items;
  }

  /** The pod of a run, when there is exactly one. */
  async podOf(run: string): Promise<any> {
    const pods = (await this.pods()).filter(({ metadata }) => metadata.name.includes(run));
    assert.equal(pods.length, 1, pods.map(({ metadata }) => metadata.name).join(', '));
    return pods[0];
  }

  /** Waits until the pods of a run have ended. */
  async untilPodEnded(run: string): Promise<void> {
    await until(async () => {
      const pods = (await this.pods()).filter(({ metadata }) => metadata.name.includes(run));
      return pods.every(isOver);
    }, `the pods of ${run} have ended`);
  }

  /** Asserts that no pod of an attempt was there when that of the next one was created. */
  assertOneAtATime(run: string): void {
    const jobs = this.recorder.jobNames().filter((job) => job.includes(run));
    for (const [index, job] of jobs.entries()) {
      const next = jobs[index + 1];
      if (next !== undefined)
        assert.ok(this.recorder.endedBefore(job, next), `${next} was there before ${job} ended`);
    }
  }

  /** Jobs, pods and secrets that are there, but for those of the cluster itself. */
  async leftovers(): Promise<string[]> {
    const { api } = this.cluster;
    const lists = await Promise.all(
      [this.jobsPath, this.podsPath, `/api/v1/namespaces/${this.name}/secrets`].map((path) =>
        api.must('GET', path),
      ),
    );
    return lists.flatMap(({ kind, items }) =>
      items
        .filter(({ type }: any) => type !== 'kubernetes.io/service-account-token')
        .map(({ metadata }: any) => `${kind.replace('List', '')} ${metadata.name}`),
    );
  }

  async untilClean(): Promise<void> {
    let left: string[] = [];
    await until(
      async () => (left = await this.leftovers()).length === 0,
      `nothing is left of ${left.join(', ')}`,
    );
  }

  /**
   * Writes what the cluster sent about the first job of a run, when recordings are to be made (`--record`).
   * @param hasTemplate whether the recording is of jobs with this pod template alone
   */
  async record(name: string, run: string, hasTemplate = false): Promise<void> {
    if (process.env['LONGSHORE_RECORD'] !== '1') return;
    const job = this.recorder.jobNames().find((one) => one.includes(run));
    assert.ok(job, `there was no job of ${run}`);
    const { template, ...recording } = this.recorder.recordingOf(job, run, (await readAnswers()).kubernetes);
    await writeRecording(name, { ...recording, ...(hasTemplate && { template }) });
  }

  /** Deletes it with all that is in it, and the volumes of its claims. */
  async remove(): Promise<void> {
    const { api } = this.cluster;
    await this.recorder.close();
    await api.must('DELETE', `/api/v1/namespaces/${this.name}`);
    const { items } = await api.must('GET', VOLUMES);
    for (const { metadata, spec } of items)
      if (spec.claimRef?.namespace === this.name) await api.must('DELETE', `${VOLUMES}/${metadata.name}`);
  }
}

function isOver({ status }: any): boolean {
  return status.phase === 'Succeeded' || status.phase === 'Failed';
}
