import type { Capability } from '@longshore/client/constants';
import { uniqueMapOf } from './setting-table.js';

/** A volume that a worker offers to runs. */
export interface OfferedVolume {
  /** A folder of the host (Slurm: of the nodes), a volume of Docker or a claim of Kubernetes. */
  readonly kind: 'folder' | 'docker-volume' | 'pvc';
  /** The folder's path, or the name. */
  readonly source: string;
  readonly isWritable: boolean;
}

/** By the names that runs use. */
export type OfferedVolumes = ReadonlyMap<string, OfferedVolume>;

export const NO_VOLUMES: OfferedVolumes = new Map();

const NAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const FOLDER = /^(?:\/[^/\p{Cc}]+)+$/u;
const DOCKER_VOLUME = /^docker-volume:([A-Za-z0-9][A-Za-z0-9_.-]{0,254})$/;
const CLAIM = /^pvc:([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)$/;

/** Reads `NAME=SOURCE` and `NAME=SOURCE:ro`, separated by commas. @returns undefined when an entry is wrong */
export const parseVolumes = uniqueMapOf(100, parseEntry);

/** Why a runtime cannot offer the volumes, in words; null: it can. */
export function volumesProblem(volumes: OfferedVolumes, runtime: string): string | null {
  const kinds = KINDS[runtime];
  const refused = [...volumes].find(([, { kind }]) => kinds?.includes(kind) === false);
  if (kinds === undefined || refused === undefined) return null;
  const offered = kinds.map((kind) => WORDS[kind]).join(' or ');
  return kinds.length === 0
    ? `the runtime ${runtime} offers no volumes`
    : `with the runtime ${runtime}, the volume '${refused[0]}' must be ${offered}`;
}

/** A volume that a run mounts. @throws Fault when the worker does not offer it, or not for writing */
export function offeredVolume(
  volumes: OfferedVolumes,
  name: string,
  isReadOnly: boolean,
  Fault: new (message: string) => Error = Error,
): OfferedVolume {
  const volume = volumes.get(name);
  if (volume !== undefined && (isReadOnly || volume.isWritable)) return volume;
  throw new Fault(`This worker does not offer the volume '${name}'${volume ? ' for writing' : ''}`);
}

/** What a worker with the volumes announces. */
export function volumeCapabilities(volumes: OfferedVolumes): Capability[] {
  return [...volumes].flatMap(([name, { isWritable }]) =>
    isWritable ? ([`volume:${name}`, `volume:${name}:rw`] as const) : ([`volume:${name}`] as const),
  );
}

const WORDS = {
  folder: 'an absolute path',
  'docker-volume': 'docker-volume:NAME',
  pvc: 'pvc:NAME',
} as const;

const KINDS: Readonly<Record<string, readonly OfferedVolume['kind'][]>> = {
  docker: ['folder', 'docker-volume'],
  process: [],
  kubernetes: ['pvc'],
  slurm: ['folder'],
};

function parseEntry(entry: string): readonly [string, OfferedVolume] | undefined {
  const at = entry.indexOf('=');
  const [name, text] = [entry.slice(0, Math.max(at, 0)), entry.slice(at + 1)];
  const isWritable = !text.endsWith(':ro');
  const source = parseSource(isWritable ? text : text.slice(0, -':ro'.length));
  return NAME.test(name) && source !== undefined ? [name, { ...source, isWritable }] : undefined;
}

function parseSource(text: string): Omit<OfferedVolume, 'isWritable'> | undefined {
  const [, volume] = DOCKER_VOLUME.exec(text) ?? [];
  if (volume !== undefined) return { kind: 'docker-volume', source: volume };
  const [, claim] = CLAIM.exec(text) ?? [];
  if (claim !== undefined) return { kind: 'pvc', source: claim };
  const isFolder = FOLDER.test(text) && !text.includes(':') && !/\/\.{1,2}(?:\/|$)/.test(text);
  return isFolder ? { kind: 'folder', source: text } : undefined;
}
