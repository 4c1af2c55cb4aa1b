import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PROJECT } from '../service-process.js';
import type { KubeAnswer } from './kube-api.js';

/* oxlint-disable typescript/no-explicit-any -- objects of an API server are of any shape */

/** A version of an object that the API server sent. Its spec is left out: it is that of the job which the launcher creates. */
export interface RecordedVersion {
  /** Milliseconds after the previous version. */
  readonly ms: number;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly kind: 'Job' | 'Pod' | 'Node';
  /** `{{job}}`, `{{pod-1}}` for the first pod of the job, or the node's name. */
  readonly name: string;
  /** Without name, labels, owner and managed fields. */
  readonly metadata: Readonly<Record<string, any>>;
  /** What is set after creation: node of a pod, taints of a node. */
  readonly spec?: Readonly<Record<string, any>>;
  readonly status: any;
}

/**
 * What a real cluster sent about one job. Placeholders in texts: `{{job}}`, `{{job-uid}}`, `{{pod-1}}`, `{{pod-1-uid}}`,
 * `{{namespace}}`, `{{run}}`, and `{{+1.5}}` for a time, in seconds after the creation of the job.
 */
export interface Recording {
  /** Version of the cluster. */
  readonly kubernetes: string;
  /** The pod template of the job, as the cluster completed it, if the recording is of jobs with this one alone. */
  readonly template?: any;
  readonly versions: readonly RecordedVersion[];
  /** Sent after the launcher deleted the job. */
  readonly afterDelete: readonly RecordedVersion[];
  /** Followed logs by `{{pod-1}}/container`: lines as they were sent, with time stamps. */
  readonly logs: Readonly<Record<string, string>>;
}

/** Answers that do not depend on a job. The placeholder `{{name}}` is the object's. */
export interface RecordedAnswers {
  readonly kubernetes: string;
  /** A watch from a version that is no longer known: status, and its only event. */
  readonly expired: KubeAnswer;
  readonly forbidden: KubeAnswer;
  readonly notFound: KubeAnswer;
  readonly alreadyExists: KubeAnswer;
  /** The log of a container that has not started. */
  readonly logTooEarly: KubeAnswer;
  readonly accessAllowed: KubeAnswer;
  readonly accessDenied: KubeAnswer;
  readonly nodes: readonly any[];
}

const FOLDER = join(PROJECT, 'test', 'support', 'kubernetes', 'recordings');
const TIME = /"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)"/g;
const ADDRESS_FIELDS = new Set(['hostIP', 'podIP', 'podIPs', 'managedFields', 'selfLink']);

export async function readRecording(name: string): Promise<Recording> {
  return read(name);
}

export async function readAnswers(): Promise<RecordedAnswers> {
  return read('answers');
}

export async function writeRecording(name: string, recording: Recording | RecordedAnswers): Promise<void> {
  await writeFile(join(FOLDER, `${name}.json`), `${JSON.stringify(recording, null, 1)}\n`);
}

async function read(name: string): Promise<any> {
  return JSON.parse(await readFile(join(FOLDER, `${name}.json`), 'utf8'));
}

/**
 * Replaces what differs between two recordings of the same.
 * @param names placeholders without braces, by the text that they replace
 * @param since that `{{+S}}` counts from, in milliseconds; null leaves times as they are
 */
export function withPlaceholders<T>(value: T, names: ReadonlyMap<string, string>, since: number | null): T {
  let text = JSON.stringify(value, (key, field) => (ADDRESS_FIELDS.has(key) ? undefined : field));
  if (since !== null) {
    text = text.replaceAll(TIME, (_, time) => `"{{+${(Date.parse(time) - since) / 1000}}}"`);
  }
  // The longest first: the name of a pod begins with that of its job.
  const longestFirst = [...names].toSorted(([left], [right]) => right.length - left.length);
  for (const [found, name] of longestFirst) text = text.replaceAll(found, `{{${name}}}`);
  return JSON.parse(text.replaceAll(/[0-9a-f]{64}/g, '0'.repeat(12)));
}

/** The opposite. A placeholder without a value stays. */
export function fillIn<T>(value: T, values: ReadonlyMap<string, string>, since: number): T {
  const text = JSON.stringify(value)
    .replaceAll(/\{\{\+(-?[\d.]+)\}\}/g, (_, seconds) => secondsOf(since + Number(seconds) * 1000))
    .replaceAll(/\{\{([a-z0-9-]+)\}\}/g, (whole, name) => values.get(name) ?? whole);
  return JSON.parse(text);
}

/** As Kubernetes writes times. */
export function secondsOf(epochMs: number): string {
  return `${new Date(epochMs).toISOString().slice(0, 19)}Z`;
}
