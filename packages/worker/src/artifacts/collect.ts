import { posix } from 'node:path';
import { lookup } from 'mime-types';
import { NO_CONTROL_CHARACTERS } from '@longshore/common/json/text';
import { isPattern } from '@longshore/common/path-parts';
import { Semaphore } from '@longshore/common/semaphore';
import { RunFault, type EndedFiles, type OpenedFile } from '../runtime/runtime.js';
import type { RunArtifacts, StoredArtifact, Upload, UploadRequest } from '../service-api/run-artifacts.js';
import { FILES_AT_ONCE } from './fetch-sources.js';
import { inParallel } from './in-parallel.js';
import { parsePattern } from './pattern.js';
import { withProgress, type TransferLog } from './progress.js';
import { send, type SentFile, type UploadParts } from './upload.js';

/** Files that one run gives, at most. */
const MAX_FILES = 1000;
/** Bytes of the path of a file below the folder of its pattern. */
const MAX_RELATIVE = 512;
/** URLs that are asked for at a time, as many as the service gives. */
const NAMES_AT_ONCE = 100;
/** A larger file may go in parts, whose number the store decides by its size: the least size of parts, in bytes. */
const MAY_BE_PARTS = 5 * 2 ** 20;

/** Asks the service for fresh URLs. @throws Error when it refuses */
export type GetUploads = (request: UploadRequest) => Promise<Readonly<Record<string, Upload>>>;

export interface CollectParts extends UploadParts {
  readonly getUploads: GetUploads;
  readonly log: TransferLog;
}

/** What a run has left. */
export interface Collected {
  readonly stored: readonly StoredArtifact[];
  /** What is missing and required, with paths. */
  readonly missing: readonly string[];
}

interface Leaving {
  readonly name: string;
  readonly path: string;
  readonly isRequired: boolean;
}

/**
 * Sends what an ended run gives to the store.
 * @param hasSucceeded otherwise only what is given after each end
 * @throws RunFault when there are too many files, or a name that cannot be stored
 * @throws Error when the store is away for all tries
 */
export async function collect(
  out: RunArtifacts['out'],
  hasSucceeded: boolean,
  files: EndedFiles,
  parts: CollectParts,
  signal: AbortSignal,
): Promise<Collected> {
  const { leaving, missing } = await find(out, hasSucceeded, files);
  const turns = new Semaphore(FILES_AT_ONCE);
  const stored: (StoredArtifact | null)[] = [];
  for (let from = 0; from < leaving.length; from += NAMES_AT_ONCE) {
    const some = leaving.slice(from, from + NAMES_AT_ONCE);
    const uploads = await parts.getUploads({ names: some.map(({ name }) => name) });
    stored.push(
      ...(await inParallel(some, signal, (one, stop) =>
        turns.run(() => store(one, uploads[one.name], files, parts, stop)),
      )),
    );
  }
  for (const [index, { name, path, isRequired }] of leaving.entries())
    if (isRequired && stored[index] === null) missing.push(`'${path}' (${name})`);
  return { stored: stored.filter((one) => one !== null), missing };
}

async function find(
  out: RunArtifacts['out'],
  hasSucceeded: boolean,
  files: EndedFiles,
): Promise<{ readonly leaving: Leaving[]; readonly missing: string[] }> {
  const leaving: Leaving[] = [];
  const missing: string[] = [];
  const add = (one: Leaving): void => {
    leaving.push(one);
    if (leaving.length > MAX_FILES) throw new RunFault(`The run has left more than ${MAX_FILES} files`);
  };
  for (const [name, { path, isRequired, isAlways }] of Object.entries(out)) {
    if (!hasSucceeded && !isAlways) continue;
    if (!isPattern(path)) {
      add({ name, path, isRequired });
      continue;
    }
    const { folder, matches } = parsePattern(path);
    const before = leaving.length;
    for await (const relative of files.list(folder)) {
      if (!matches(relative)) continue;
      checkRelative(name, relative);
      add({ name: `${name}/${relative}`, path: posix.join(folder, relative), isRequired: false });
    }
    if (isRequired && leaving.length === before) missing.push(`'${path}' (${name})`);
  }
  return { leaving, missing };
}

function checkRelative(name: string, relative: string): void {
  if (!NO_CONTROL_CHARACTERS.test(relative) || !relative.isWellFormed() || relative.includes('\uFFFD'))
    throw new RunFault(`A file of the artifact '${name}' has control characters, or no UTF-8, in its path`);
  if (Buffer.byteLength(relative) > MAX_RELATIVE)
    throw new RunFault(
      `A file of the artifact '${name}' has a path of more than ${MAX_RELATIVE} bytes: ${relative.slice(0, 100)}...`,
    );
}

/** @returns null when there is no regular file */
async function store(
  { name, path }: Leaving,
  first: Upload | undefined,
  files: EndedFiles,
  parts: CollectParts,
  signal: AbortSignal,
): Promise<StoredArtifact | null> {
  signal.throwIfAborted();
  const found = await files.open(path);
  if (found === null) return null;
  const unread = [found];
  const open = async (): Promise<OpenedFile | null> => unread.pop() ?? files.open(path);
  try {
    return await storeFile({ name, path, bytes: found.bytes, open }, first, parts, signal);
  } finally {
    found.content.destroy();
  }
}

/** Sends one file. @param first its URL, if there is one already */
export async function storeFile(
  file: Pick<StoredArtifact, 'name' | 'path' | 'bytes'> & Pick<SentFile, 'open'>,
  first: Upload | undefined,
  parts: CollectParts,
  signal: AbortSignal,
): Promise<StoredArtifact> {
  const { name, path, bytes, open } = file;
  const fresh = async (firstPart?: number): Promise<Upload> => {
    const { [name]: upload } = await parts.getUploads({
      names: [name],
      ...(bytes > MAY_BE_PARTS && { bytes }),
      ...(firstPart !== undefined && { first_part: firstPart }),
    });
    if (upload === undefined) throw new Error(`the service has given no URL for '${name}'`);
    return upload;
  };
  const upload = first === undefined || bytes > MAY_BE_PARTS ? await fresh() : first;
  const transfer = { doing: 'storing', done: 'stored', what: `${name} (${path})`, total: bytes };
  const sent = await withProgress(parts.log, transfer, (count) =>
    send({ name, bytes, open, fresh }, upload, parts, signal, count),
  );
  return { name, path, bytes, contentType: lookup(path) || 'application/octet-stream', ...sent };
}
