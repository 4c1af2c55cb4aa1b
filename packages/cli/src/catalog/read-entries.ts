import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { errorText } from '@longshore/common/errors';
import type { JsonObject } from '@longshore/common/json/json-value';
import { usageError } from '../cli-error.js';
import { readJobs, without, type Job } from '../runs/job-file.js';

export type Kind = 'definition' | 'schedule';

/** A definition or a schedule of a file. */
export interface Entry {
  readonly kind: Kind;
  /** `ID/VERSION` of a definition, the id of a schedule. */
  readonly key: string;
  /** The body of the request that stores it. */
  readonly body: JsonObject;
  readonly job: Job;
}

/** What the files of a folder say. */
export interface Entries {
  /** In the order of the files, definitions first. */
  readonly entries: readonly Entry[];
  /** Name of the set, where a file gives it. */
  readonly set: string | undefined;
}

/**
 * Reads definitions and schedules from a file, or from all files `*.json`, `*.yaml` and `*.yml` of a folder and those in it.
 * @param path `-` is standard input
 * @throws CliError that names file and entry
 */
export async function readEntries(path: string, stdin: Readable): Promise<Entries> {
  const byName = new Map<string, Entry>();
  let set: string | undefined;
  for (const file of await listFiles(path)) {
    for (const job of await readJobs(file, stdin)) {
      const kind = kindOf(job);
      if (kind === 'set') {
        if (set !== undefined) throw usageError(`${placeOf(job)}: the set has its name already: ${set}`);
        set = textOf(job, 'name');
        continue;
      }
      const id = textOf(job, 'id');
      const key = kind === 'schedule' ? id : `${id}/${textOf(job, 'version')}`;
      const before = byName.get(`${kind} ${key}`);
      if (before) throw usageError(`${placeOf(job)}: ${kind} ${key} is in ${placeOf(before.job)} already`);
      const body = without(job.value, 'kind', ...(kind === 'schedule' ? ['id'] : []));
      byName.set(`${kind} ${key}`, { kind, key, body, job });
    }
  }
  const all = [...byName.values()];
  const ofKind = (kind: Kind): readonly Entry[] => all.filter((entry) => entry.kind === kind);
  return { entries: [...ofKind('definition'), ...ofKind('schedule')], set };
}

async function listFiles(path: string): Promise<readonly string[]> {
  if (path === '-' || !(await isFolder(path))) return [path];
  const names = await readdir(path, { recursive: true });
  const wanted = names.filter((name) => /\.(?:json|ya?ml)$/.test(name) && !/(?:^|[/\\])\./.test(name));
  const files: string[] = [];
  for (const name of wanted.toSorted()) if (!(await isFolder(join(path, name)))) files.push(join(path, name));
  if (files.length === 0) throw usageError(`${path} has no files *.json, *.yaml or *.yml`);
  return files;
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    throw usageError(`cannot read ${path}: ${errorText(error)}`);
  }
}

const KINDS = ['definition', 'schedule', 'set'] as const;

/** @throws CliError for what is neither a definition nor a schedule */
function kindOf(job: Job): (typeof KINDS)[number] {
  const { kind } = job.value;
  const said = KINDS.find((one) => one === kind);
  if (said !== undefined) return said;
  if (kind !== undefined)
    throw usageError(`${placeOf(job, 'kind')}: kind must be one of ${KINDS.join(', ')}`);
  const has = (...fields: readonly string[]): boolean => fields.some((field) => field in job.value);
  const isSchedule = has('run', 'group', 'cron', 'every_s');
  const isDefinition = has('image') && has('version');
  if (isSchedule !== isDefinition) return isSchedule ? 'schedule' : 'definition';
  const reason = isSchedule
    ? 'both a definition and a schedule'
    : 'neither a definition (image and version) nor a schedule (run, group, cron or every_s)';
  throw usageError(`${placeOf(job)}: it is ${reason}; kind says which`);
}

function textOf(job: Job, field: string): string {
  const { [field]: text } = job.value;
  if (typeof text === 'string' && text !== '') return text;
  throw usageError(`${placeOf(job, field)}: ${field} must be a text`);
}

function placeOf(job: Job, field = ''): string {
  return job.placeOf(field);
}
