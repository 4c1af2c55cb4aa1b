import { stat } from 'node:fs/promises';
import { errorCode, errorText } from '@longshore/common/errors';
import { BrokenTar, tarEntries } from '../../runtime/tar-entries.js';
import type { FetchedEntry } from '../../runtime/runtime.js';
import { openTar } from './open-tar.js';
import { TarTree } from './tar-tree.js';

/** Bytes of the contents of an archive. */
const MOST = { all: 100e9, least: 1e9, timesArchive: 10 };
/** Bytes of headers and padding beside them. */
const OVERHEAD = 1e9;

/** What becomes of an archive that was read to its end. */
export interface UnpackPlan {
  readonly folders: readonly string[];
  /** By the index of the entry with the content. */
  readonly files: ReadonlyMap<number, { readonly names: readonly string[]; readonly mode: number }>;
  readonly links: readonly { readonly path: string; readonly target: string }[];
  /** After decompression. */
  readonly maxBytes: number;
}

/**
 * Reads a whole tar (ustar, pax, long names of GNU; plain, in gzip or zstd), before anything of it is put anywhere.
 * @throws BrokenTar when it is none, breaks off, or has what must not be unpacked
 */
export async function planUnpack(path: string, signal: AbortSignal): Promise<UnpackPlan> {
  const { size } = await stat(path);
  const limit = Math.min(MOST.all, Math.max(MOST.least, MOST.timesArchive * size));
  const maxBytes = limit + OVERHEAD;
  const tree = new TarTree();
  let bytes = 0;
  let index = 0;
  try {
    for await (const { header } of tarEntries(await openTar(path, maxBytes))) {
      signal.throwIfAborted();
      bytes += header.size ?? 0;
      if (bytes > limit) throw new BrokenTar(`its contents have more than ${limit} bytes`);
      tree.add(header, index);
      index += 1;
    }
  } catch (error) {
    throw errorCode(error).startsWith('Z_')
      ? new BrokenTar(`it is no valid gzip: ${errorText(error)}`)
      : error;
  }
  tree.finish();
  return { ...sorted(tree), maxBytes };
}

/** The entries of an archive, as its plan says: folders, then files, then links, so that nothing is put through a link. */
export async function* unpackedEntries(
  path: string,
  plan: UnpackPlan,
  signal?: AbortSignal,
): AsyncGenerator<FetchedEntry> {
  for (const folder of plan.folders) yield { kind: 'folder', path: folder };
  let index = 0;
  for await (const { header, content } of tarEntries(await openTar(path, plan.maxBytes, signal))) {
    const { names: [first, ...others] = [], mode = 0 } = plan.files.get(index) ?? {};
    index += 1;
    if (first === undefined) continue;
    yield { kind: 'file', path: first, mode, bytes: header.size ?? 0, content };
    for (const other of others) yield { kind: 'same', path: other, as: first, mode };
  }
  for (const link of plan.links) yield { kind: 'link', ...link };
}

function sorted({ nodes }: TarTree): Omit<UnpackPlan, 'maxBytes'> {
  const folders: string[] = [];
  const files = new Map<number, { readonly names: string[]; readonly mode: number }>();
  const links: { path: string; target: string }[] = [];
  for (const [path, node] of nodes) {
    if (node.kind === 'folder') folders.push(path);
    else if (node.kind === 'link') links.push({ path, target: node.target });
    else {
      const known = files.get(node.index);
      if (known === undefined) files.set(node.index, { names: [path], mode: node.mode });
      else known.names.push(path);
    }
  }
  return { folders, files, links };
}
