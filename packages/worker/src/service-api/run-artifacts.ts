import { isPattern } from '@longshore/common/path-parts';
import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';

/** A file behind a signed URL. Never log the URL: it needs no key. */
export interface SignedFile {
  readonly url: string;
  /** Null: not known. */
  readonly bytes: number | null;
  /** In hexadecimal digits; null: not known. */
  readonly sha256: string | null;
}

/** A file of a folder. */
export interface NamedFile extends SignedFile {
  /** Its path below the folder. */
  readonly name: string;
}

/** Where a file, or the files of a folder, of a run come from. */
export interface ArtifactSource {
  /** What the service has signed; null: nothing, the source is a URL of the user. */
  readonly get: SignedFile | readonly NamedFile[] | null;
  /** That URL; null: the source is another one. */
  readonly url: string | null;
  /** Of the file, as the run says it; null: it says none. */
  readonly sha256: string | null;
  /** Whether the file is an archive whose entries go below the path. */
  readonly isUnpacked: boolean;
}

/** What a run gives when it has ended. */
export interface ArtifactTarget {
  /** Of a file, or a pattern of paths. */
  readonly path: string;
  /** Whether the run fails when it is missing. */
  readonly isRequired: boolean;
  /** Whether it is given after a failure as well. */
  readonly isAlways: boolean;
}

/** The files that a run gets and gives: its option `artifacts`. */
export interface RunArtifacts {
  /** By absolute path. */
  readonly in: Readonly<Record<string, ArtifactSource>>;
  /** By name. */
  readonly out: Readonly<Record<string, ArtifactTarget>>;
}

/** A file that was stored for a run, as its final event reports it. */
export interface StoredArtifact {
  readonly name: string;
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly contentType: string;
  /** Of its parts, in their order; absent: it went in one piece. */
  readonly etags?: readonly string[];
}

/** A request that a store takes without a key. Never log its URL. */
export interface SignedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Names of files that are to be sent. */
export interface UploadRequest {
  readonly names: readonly string[];
  /** Of the one name, which may then go in parts; absent: each goes in one piece. */
  readonly bytes?: number;
  /** Of the upload in parts that was begun last, which goes on from there; absent: another one begins. */
  readonly first_part?: number;
}

/** How a file is sent to its store: in one piece, or in parts of so many bytes, in their order. */
export type Upload =
  | { readonly kind: 'whole'; readonly request: SignedRequest }
  | { readonly kind: 'parts'; readonly parts: readonly (SignedRequest & { readonly bytes: number })[] };

/** What a final event says of stored files. */
export function artifactsPayload(artifacts: readonly StoredArtifact[]): JsonObject {
  return {
    artifacts: artifacts.map(({ contentType, etags, ...artifact }) => ({
      ...artifact,
      content_type: contentType,
      ...(etags && { etags: [...etags] }),
    })),
  };
}

/** Absent: none; undefined: not of the documented shape, so that the run must not be executed. */
export function readArtifacts(value: JsonValue | undefined): Pick<Partial<Carrier>, 'artifacts'> | undefined {
  if (value === undefined || value === null) return {};
  if (!isJsonObject(value)) return undefined;
  const sources = readAll(value['in'], readSource);
  const targets = readAll(value['out'], readTarget);
  if (sources === undefined || targets === undefined) return undefined;
  return { artifacts: { in: sources, out: targets } };
}

interface Carrier {
  readonly artifacts: RunArtifacts;
}

/** By names; null: not of the documented shape. */
export function readUploads(answer: unknown): Readonly<Record<string, Upload>> | null {
  return (isJsonObject(answer) ? readAll(answer['urls'] ?? null, readUpload) : undefined) ?? null;
}

/** @returns undefined when a value is of another shape */
function readAll<T>(
  value: JsonValue | undefined,
  read: (one: JsonObject) => T | undefined,
): Record<string, T> | undefined {
  if (value === undefined) return {};
  if (!isJsonObject(value)) return undefined;
  const pairs = Object.entries(value).flatMap(([name, one]) => {
    const item = isJsonObject(one) ? read(one) : undefined;
    return item === undefined ? [] : [[name, item] as const];
  });
  return pairs.length === Object.keys(value).length ? Object.fromEntries(pairs) : undefined;
}

function readSource(source: JsonObject): ArtifactSource | undefined {
  const { get: given, url, sha256, unpack } = source;
  const get = given === undefined || given === null ? null : readGet(given);
  if (get === undefined) return undefined;
  return {
    get,
    url: typeof url === 'string' ? url : null,
    sha256: typeof sha256 === 'string' ? sha256.toLowerCase() : null,
    isUnpacked: unpack === true,
  };
}

function readGet(given: JsonValue): ArtifactSource['get'] | undefined {
  if (!Array.isArray(given)) return isJsonObject(given) ? readFile(given) : undefined;
  const files = given.filter(isJsonObject).flatMap((one): NamedFile[] => {
    const { name } = one;
    const file = readFile(one);
    return file === undefined || typeof name !== 'string' ? [] : [{ ...file, name }];
  });
  return files.length === given.length ? files : undefined;
}

function readFile({ url, bytes, sha256 }: JsonObject): SignedFile | undefined {
  if (typeof url !== 'string') return undefined;
  return {
    url,
    bytes: typeof bytes === 'number' ? bytes : null,
    sha256: typeof sha256 === 'string' ? sha256.toLowerCase() : null,
  };
}

function readTarget({ path, required, when }: JsonObject): ArtifactTarget | undefined {
  if (typeof path !== 'string') return undefined;
  const isRequired = typeof required === 'boolean' ? required : !isPattern(path);
  return { path, isRequired, isAlways: when === 'always' };
}

function readUpload(upload: JsonObject): Upload | undefined {
  const { parts } = upload;
  if (!Array.isArray(parts)) {
    const request = readRequest(upload);
    return request && { kind: 'whole', request };
  }
  const read = parts.filter(isJsonObject).flatMap((part) => {
    const request = readRequest(part);
    const { bytes } = part;
    return request === undefined || typeof bytes !== 'number' ? [] : [{ ...request, bytes }];
  });
  return read.length === parts.length && read.length > 0 ? { kind: 'parts', parts: read } : undefined;
}

function readRequest({ method, url, headers = {} }: JsonObject): SignedRequest | undefined {
  if (typeof url !== 'string' || !isJsonObject(headers)) return undefined;
  const texts = Object.entries(headers).flatMap(([name, value]) =>
    typeof value === 'string' ? [[name, value] as const] : [],
  );
  return { method: typeof method === 'string' ? method : 'PUT', url, headers: Object.fromEntries(texts) };
}
