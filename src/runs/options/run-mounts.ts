import { itemPath } from '../../common/http/validation/problems.js';
import { bindText, unboundProblem } from './bound-text.js';
import { containerPathProblem, overlap, relativePathProblem } from './container-path.js';
import { type ObjectShape, objectListOption, type OptionDeclaration } from './option-kinds.js';

/** A folder that the container finds: of a volume, which workers offer by name, or an empty one. */
export interface RunMount {
  readonly volume?: string;
  readonly scratch_mb?: number;
  /** Where the container has it. */
  readonly path: string;
  readonly read_only?: boolean;
  /** Folder within the volume. */
  readonly sub_path?: string;
}

const SHAPE: ObjectShape = {
  volume: {
    pattern: /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/,
    form: 'a name of 1 to 63 characters of a-z, 0-9 and -, which begins and ends with a letter or a digit',
    about: 'Name of a volume that workers offer. Either this or `scratch_mb`.',
    example: 'results',
  },
  scratch_mb: {
    type: 'integer',
    min: 1,
    max: 2 ** 31 - 1,
    about: 'Size of a folder in MB that is empty when an attempt starts, and removed when it ends.',
    example: 10_000,
  },
  path: {
    about: 'Where the container has the folder: an absolute path as those of `files`.',
    example: '/out',
    isRequired: true,
  },
  read_only: {
    type: 'boolean',
    about: 'Whether the container cannot write into the volume. Default: false.',
    example: false,
  },
  sub_path: {
    about:
      'Folder within the volume, which is created unless `read_only`: a relative path without `.`, `..` and links. `${run.id}` and ' +
      '`${run.name}` in it stand for the id and the name of the run.',
    example: 'team-a/${run.id}',
  },
};

/** Folders of volumes, and empty ones, that the container finds at its start. */
export const MOUNTS: OptionDeclaration<readonly RunMount[]> = objectListOption<RunMount>(
  SHAPE,
  { max: 20 },
  {
    texts: {
      request:
        'Folders that the container finds: at most 20, each of a volume, which workers offer by name, or an empty one (`scratch_mb`). ' +
        'No `path` is equal to or in another one, nor that of a file.',
      answer: 'Folders of volumes, and empty ones, that the container finds.',
      claim: 'Folders of volumes, and empty ones, that the container finds; absent without any.',
    },
    example: [
      { volume: 'datasets', path: '/data', read_only: true },
      { volume: 'results', path: '/out', sub_path: 'team-a' },
      { scratch_mb: 10_000, path: '/scratch' },
    ],
    capabilities: [
      { name: 'volume:', member: 'volume', readOnly: 'read_only' },
      { name: 'scratch', member: 'scratch_mb' },
    ],
    problem: mountsProblem,
    bind: (mounts, run, at) =>
      mounts.map((mount, index) => {
        const { sub_path: subPath } = mount;
        return subPath
          ? {
              ...mount,
              sub_path: bindText(subPath, run, `${itemPath(at, index)}.sub_path`, relativePathProblem),
            }
          : mount;
      }),
  },
);

function mountsProblem(mounts: readonly RunMount[], all: object, at: string): string | undefined {
  const files = Object.keys(Object(Reflect.get(all, 'files')));
  const paths: string[] = [];
  for (const [index, mount] of mounts.entries()) {
    const mountAt = itemPath(at, index);
    const { path } = mount;
    const wrong = mountProblem(mount, mountAt) ?? containerPathProblem(path, `${mountAt}.path`);
    if (wrong !== undefined) return wrong;
    if (paths.some((other) => overlap(path, other)))
      return `${mountAt}.path must not be, be in or contain another path`;
    if (files.some((file) => overlap(path, file)))
      return `${mountAt}.path must not be, be in or contain the path of a file`;
    paths.push(path);
  }
  return undefined;
}

function mountProblem(
  { volume, scratch_mb: scratch, read_only: readOnly, sub_path: subPath }: RunMount,
  at: string,
): string | undefined {
  if ((volume === undefined) === (scratch === undefined))
    return `${at} must have either volume or scratch_mb`;
  if (volume === undefined && (readOnly !== undefined || subPath !== undefined))
    return `${at} must have read_only and sub_path only with volume`;
  return subPath === undefined ? undefined : unboundProblem(subPath, `${at}.sub_path`, relativePathProblem);
}
