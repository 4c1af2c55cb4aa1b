import { applyDecorators } from '@nestjs/common';
import { ApiProperty, type ApiPropertyOptions } from '@nestjs/swagger';
import { isPattern } from '@longshore/common/path-parts';
import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';
import { PassByReference } from '../../common/http/validation/free-form-json.js';
import { fieldPath, keyPath } from '../../common/http/validation/problems.js';
import {
  ARTIFACT_NAME,
  artifactNameProblem,
  keyProblem,
  LARGE_OUTPUTS,
  NAME_RULE,
} from './artifact-names.js';
import { bindText, unboundProblem } from './bound-text.js';
import { containerPathProblem, isWithin, overlap } from './container-path.js';
import type { OptionDeclaration } from './option-kinds.js';
import type { RunMount } from './run-mounts.js';

/** Where a run gets a file from: of these members, one kind. */
export interface ArtifactSource {
  readonly file?: string;
  readonly run?: string;
  /** Another member of a new group, by its name there; a run stands in its place. */
  readonly ref?: string;
  /** Of the artifact of the run; of several files `NAME/RELATIVE`. */
  readonly name?: string;
  readonly url?: string;
  readonly store?: string;
  readonly key?: string;
  readonly sha256?: string;
  /** Whether it is an archive whose content is wanted. */
  readonly unpack?: boolean;
}

/** What a run leaves. */
export interface ArtifactTarget {
  /** In the container: of a file, or a pattern. */
  readonly path: string;
  readonly required?: boolean;
  readonly when?: 'success' | 'always';
  readonly to?: StorePlace;
}

/** A place in a store that the operator names. */
export interface StorePlace {
  readonly store: string;
  readonly key: string;
}

/** Files that a run gets and leaves. */
export interface RunArtifacts {
  /** By their path in the container. */
  readonly in?: Readonly<Record<string, ArtifactSource>>;
  /** By the name under which they are kept. */
  readonly out?: Readonly<Record<string, ArtifactTarget>>;
}

/** Files in, and names out, of a run. */
const MAX_ENTRIES = 100;

const SHA256 = /^[0-9a-f]{64}$/;
const STORE_NAME = ARTIFACT_NAME;
const MAX_URL = 2048;
const SOURCE_KINDS = ['file', 'run', 'ref', 'url', 'store'] as const;
const OTHER_MEMBERS: Readonly<Record<(typeof SOURCE_KINDS)[number], readonly string[]>> = {
  file: [],
  run: ['name'],
  ref: ['name'],
  url: ['sha256'],
  store: ['key', 'sha256'],
};

type Properties = Extract<ApiPropertyOptions, { readonly properties: object }>['properties'];

const PLACE = {
  store: {
    type: 'string',
    description: 'Name of a store, as `GET /files/stores` lists it.',
    example: 'results',
  },
  key: {
    type: 'string',
    description:
      'Key in the store. `${run.id}` and `${run.name}` in it stand for the id and the name of the run.',
    example: 'models/${run.id}.bin',
  },
} as const;

const PROPERTIES: Properties = {
  in: {
    type: 'object',
    description:
      'By the path in the container: a file (`file`), an artifact of a run (`run`, in a group `ref`, and `name`), what an address has (`url`, ' +
      '`sha256`), or an object of a store (`store`, `key`; a key that ends in `/`: all below it).',
    additionalProperties: {
      type: 'object',
      properties: {
        file: { type: 'string', description: 'Id of a file.', example: 'f_4k2qz6mxv3b7' },
        run: { type: 'string', description: 'Id of a run.' },
        ref: { type: 'string', description: 'In a group: the member that leaves it.', example: 'train' },
        name: {
          type: 'string',
          description: 'Name of its artifact; of a pattern, all its files, or one as `NAME/RELATIVE`.',
          example: 'model',
        },
        url: { type: 'string', description: 'An address that begins with https://.' },
        sha256: {
          type: 'string',
          description: 'SHA-256 that it must have, in hexadecimal digits; required with `url`.',
        },
        ...PLACE,
        unpack: {
          type: 'boolean',
          description:
            'Whether it is a tar archive, also with gzip or zstd, whose entries go below the path.',
        },
      },
    },
  },
  out: {
    type: 'object',
    description: 'By name: what the run leaves.',
    additionalProperties: {
      type: 'object',
      required: ['path'],
      properties: {
        path: {
          type: 'string',
          description: 'Path in the container; `*`, `?` and `**` in it make it a pattern.',
          example: '/out/model.bin',
        },
        required: {
          type: 'boolean',
          description: 'Whether the run fails without it. Default: true for a path without a pattern.',
        },
        when: {
          type: 'string',
          enum: ['success', 'always'],
          description: 'After which end it is kept. Default: success.',
        },
        to: {
          type: 'object',
          required: ['store', 'key'],
          properties: { ...PLACE },
          description: 'Where it goes instead of the store of files.',
        },
      },
    },
  },
};

/** Files that a run gets before its start, and those that it leaves. */
export const ARTIFACTS: OptionDeclaration<RunArtifacts> = {
  field: applyDecorators(
    PassByReference(),
    ApiProperty({ type: 'object', properties: PROPERTIES, additionalProperties: false }),
  ),
  schema: { type: 'object', properties: PROPERTIES },
  unset: {},
  texts: {
    request:
      'Files that the container finds at its start (`in`), and those that are kept when it ends (`out`): at most 100 each. Paths are as those of ' +
      '`files`; none of `in` is, is in or contains another one, that of a file or the mount of a volume.',
    answer: 'Files that the container finds, and those that are kept.',
    claim:
      'Files that the container finds, with addresses to get them from (`get`), and those that are kept; absent without any.',
  },
  example: { out: { model: { path: '/out/model.bin' }, plots: { path: '/out/plots/*.png' } } },
  capabilities: ['artifacts'],
  store: ({ in: sources, out }) => ({
    ...(sources && Object.keys(sources).length > 0 && { in: withoutNulls(sources) }),
    ...(out && Object.keys(out).length > 0 && { out: withoutNulls(out) }),
  }),
  merge: (definition, run) => ({
    in: { ...definition.in, ...run.in },
    out: { ...definition.out, ...run.out },
  }),
  problem: artifactsProblem,
  bind: (artifacts, run, at) => ({
    ...artifacts,
    ...(artifacts.in && {
      in: mapEntries(artifacts.in, (source, path) =>
        source.key === undefined || source.key === null
          ? source
          : { ...source, key: bindText(source.key, run, `${keyPath(`${at}.in`, path)}.key`, keyProblem) },
      ),
    }),
    ...(artifacts.out && {
      out: mapEntries(artifacts.out, (target, name) => {
        const { to } = target;
        if (!to) return target;
        return {
          ...target,
          to: { ...to, key: bindText(to.key, run, `${keyPath(`${at}.out`, name)}.to.key`, keyProblem) },
        };
      }),
    }),
  }),
};

/** Whether an option that is stored or requested has files. */
export function hasArtifacts(artifacts: RunArtifacts | null | undefined): boolean {
  return Object.keys(artifacts?.in ?? {}).length > 0 || Object.keys(artifacts?.out ?? {}).length > 0;
}

/** The entries, each changed. */
export function mapEntries<T>(
  entries: Readonly<Record<string, T>>,
  change: (entry: T, name: string) => T,
): Record<string, T> {
  return Object.fromEntries(Object.entries(entries).map(([name, entry]) => [name, change(entry, name)]));
}

/** The entries without their members that are null. */
function withoutNulls<T extends object>(entries: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return mapEntries(entries, (entry) =>
    Object(Object.fromEntries(Object.entries(entry).filter(([, member]) => member !== null))),
  );
}

function artifactsProblem(value: unknown, all: object, at: string): string | undefined {
  if (!isJsonObject(value)) return `${at} must be an object`;
  const { in: sources = null, out = null, ...others } = value;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) return `${keyPath(at, unknown)} is not a known field`;
  for (const [name, entries] of [
    ['in', sources],
    ['out', out],
  ] as const)
    if (entries !== null && (!isJsonObject(entries) || Object.keys(entries).length > MAX_ENTRIES))
      return `${at}.${name} must be an object of at most ${MAX_ENTRIES} entries`;
  return (
    sourcesProblem(Object(sources ?? {}), all, `${at}.in`) ?? targetsProblem(Object(out ?? {}), `${at}.out`)
  );
}

function sourcesProblem(sources: JsonObject, all: object, at: string): string | undefined {
  const paths = Object.keys(sources);
  const files = Object.keys(Object(Reflect.get(all, 'files')));
  const mounts: unknown = Reflect.get(all, 'mounts');
  const volumes = (Array.isArray(mounts) ? mounts : []).flatMap(({ volume, path }: RunMount) =>
    volume === undefined ? [] : path,
  );
  for (const [path, source] of Object.entries(sources)) {
    const place = keyPath(at, path);
    const wrong = containerPathProblem(path, place) ?? sourceProblem(source, place);
    if (wrong !== undefined) return wrong;
    if (paths.some((other) => other !== path && isWithin(path, other)))
      return `${place} must not be in another path`;
    if ([...files, ...volumes].some((other) => overlap(path, other)))
      return `${place} must not be, be in or contain the path of a file or the mount of a volume`;
  }
  return undefined;
}

function sourceProblem(source: JsonValue | undefined, at: string): string | undefined {
  if (!isJsonObject(source)) return `${at} must be an object`;
  const given = Object.keys(source).filter((name) => (source[name] ?? null) !== null);
  const [kind, ...more] = SOURCE_KINDS.filter((one) => given.includes(one));
  if (kind === undefined || more.length > 0) return `${at} must have one of file, run, ref, url and store`;
  const allowed = [kind, 'unpack', ...OTHER_MEMBERS[kind]];
  const unknown = given.find((name) => !allowed.includes(name));
  if (unknown !== undefined) return `${keyPath(at, unknown)} is not a known field beside ${kind}`;
  const { sha256, unpack, key, name, url } = source;
  if (typeof source[kind] !== 'string' || source[kind] === '') return `${fieldPath(at, kind)} must be a text`;
  if (sha256 !== undefined && sha256 !== null && !(typeof sha256 === 'string' && SHA256.test(sha256)))
    return `${at}.sha256 must be 64 hexadecimal digits in lower case`;
  if (unpack !== undefined && unpack !== null && typeof unpack !== 'boolean')
    return `${at}.unpack must be true or false`;
  if (kind === 'url') return urlProblem(url, sha256, at);
  if (kind === 'run' || kind === 'ref') return artifactNameProblem(name, `${at}.name`);
  if (kind !== 'store') return undefined;
  const wrong = placeProblem(source, at);
  if (wrong !== undefined) return wrong;
  return typeof key === 'string' &&
    key.endsWith('/') &&
    (given.includes('sha256') || given.includes('unpack'))
    ? `${at} must have no sha256 and unpack with a key that ends in /`
    : undefined;
}

function urlProblem(
  url: JsonValue | undefined,
  sha256: JsonValue | undefined,
  at: string,
): string | undefined {
  if (
    typeof url !== 'string' ||
    url.length > MAX_URL ||
    !URL.canParse(url) ||
    new URL(url).protocol !== 'https:'
  )
    return `${at}.url must be an address of at most ${MAX_URL} characters that begins with https://`;
  return typeof sha256 === 'string' ? undefined : `${at}.sha256 is required with url`;
}

function targetsProblem(targets: JsonObject, at: string): string | undefined {
  for (const [name, target] of Object.entries(targets)) {
    const place = keyPath(at, name);
    if (!ARTIFACT_NAME.test(name) || name === LARGE_OUTPUTS)
      return `${place} must have as name ${NAME_RULE}, and not ${LARGE_OUTPUTS}`;
    const wrong = targetProblem(target, place);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

function targetProblem(target: JsonValue | undefined, at: string): string | undefined {
  if (!isJsonObject(target)) return `${at} must be an object`;
  const { path, required = null, when = null, to = null, ...others } = target;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) return `${keyPath(at, unknown)} is not a known field`;
  if (typeof path !== 'string') return `${at}.path is required`;
  const wrong = containerPathProblem(path, `${at}.path`);
  if (wrong !== undefined) return wrong;
  if (required !== null && typeof required !== 'boolean') return `${at}.required must be true or false`;
  if (when !== null && when !== 'success' && when !== 'always') return `${at}.when must be success or always`;
  if (to === null) return undefined;
  if (!isJsonObject(to)) return `${at}.to must be an object`;
  const { store: _store, key, ...rest } = to;
  const [other] = Object.keys(rest);
  if (other !== undefined) return `${keyPath(`${at}.to`, other)} is not a known field`;
  const badPlace = placeProblem(to, `${at}.to`);
  if (badPlace !== undefined) return badPlace;
  return (typeof key === 'string' && key.endsWith('/')) === isPattern(path)
    ? undefined
    : `${at}.to.key must end in / for a path with a pattern, and only then`;
}

function placeProblem({ store, key }: JsonObject, at: string): string | undefined {
  if (typeof store !== 'string' || !STORE_NAME.test(store)) return `${at}.store must be the name of a store`;
  if (typeof key !== 'string') return `${at}.key is required`;
  return unboundProblem(key, `${at}.key`, keyProblem);
}
