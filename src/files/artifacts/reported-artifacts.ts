import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';
import { isPattern } from '@longshore/common/path-parts';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { itemPath, VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import { artifactNameProblem, LARGE_OUTPUTS } from '../../runs/options/artifact-names.js';
import type { ArtifactTarget } from '../../runs/options/run-artifacts.js';
import { MAX_PARTS } from '../uploads/parts.js';
import { MAX_FOLDER_FILES } from './artifact.repository.js';

/** What a worker says of a file that it has sent to the store. */
export interface ReportedArtifact {
  readonly name: string;
  readonly path: string | null;
  readonly sha256: string | null;
  readonly contentType: string | null;
  /** Of its parts, in their order; undefined: it was sent as a whole. */
  readonly etags?: readonly string[];
}

/** Files of patterns, and names of their own. */
const MAX_REPORTED = MAX_FOLDER_FILES + 100 + 1;
const SHA256 = /^[0-9a-f]{64}$/;
const MAX_TEXT = 1024;

/**
 * The files that the end of an attempt reports.
 * @param isKnown whether the run leaves something of this name
 * @throws InvalidRequest with a line for each problem
 */
export function readReport(
  value: JsonValue | undefined,
  isKnown: (name: string) => boolean,
): ReportedArtifact[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || value.length > MAX_REPORTED)
    throw new InvalidRequest(VALIDATION_FAILED, [
      `payload.artifacts must be a list of at most ${MAX_REPORTED} items`,
    ]);
  const problems: string[] = [];
  const names = new Set<string>();
  const read = value.flatMap((item, at) => {
    const problem = problemOf(item, itemPath('payload.artifacts', at), isKnown);
    if (problem !== undefined) problems.push(problem);
    else if (isJsonObject(item) && typeof item['name'] === 'string') {
      if (names.has(item['name'])) problems.push(`${itemPath('payload.artifacts', at)}.name is there twice`);
      names.add(item['name']);
      return [toReported(item, item['name'])];
    }
    return [];
  });
  if (problems.length > 0) throw new InvalidRequest(VALIDATION_FAILED, problems);
  return read;
}

/** What is left under a name: itself, or as one of the files of a pattern. */
export function targetOf(
  name: string,
  out: Readonly<Record<string, ArtifactTarget>>,
): ArtifactTarget | undefined {
  const at = name.indexOf('/');
  const own = out[at < 0 ? name : name.slice(0, at)];
  return own && isPattern(own.path) === at > 0 ? own : undefined;
}

/** Whether a run leaves something of this name. */
export function leaves(
  name: string,
  out: Readonly<Record<string, ArtifactTarget>>,
  template: readonly string[],
): boolean {
  return name === LARGE_OUTPUTS || template.includes(name) || targetOf(name, out) !== undefined;
}

function problemOf(item: JsonValue, at: string, isKnown: (name: string) => boolean): string | undefined {
  if (!isJsonObject(item)) return `${at} must be an object`;
  const { name, path = null, sha256 = null, content_type: contentType = null, etags = null } = item;
  const wrong = artifactNameProblem(name, `${at}.name`);
  if (wrong !== undefined) return wrong;
  if (typeof name !== 'string' || !isKnown(name)) return `${at}.name: the run leaves nothing of this name`;
  if (path !== null && !isShort(path)) return `${at}.path must be a text of at most ${MAX_TEXT} characters`;
  if (contentType !== null && !isShort(contentType))
    return `${at}.content_type must be a text of at most ${MAX_TEXT} characters`;
  if (sha256 !== null && !(typeof sha256 === 'string' && SHA256.test(sha256)))
    return `${at}.sha256 must be 64 hexadecimal digits in lower case`;
  if (etags !== null && !(Array.isArray(etags) && etags.length <= MAX_PARTS && etags.every(isShort)))
    return `${at}.etags must be a list of texts`;
  return undefined;
}

function isShort(value: JsonValue): value is string {
  return typeof value === 'string' && value.length <= MAX_TEXT;
}

function toReported(item: JsonObject, name: string): ReportedArtifact {
  const { path, sha256, content_type: contentType, etags } = item;
  return {
    name,
    path: typeof path === 'string' ? path : null,
    sha256: typeof sha256 === 'string' ? sha256 : null,
    contentType: typeof contentType === 'string' ? contentType : null,
    ...(Array.isArray(etags) && { etags: etags.filter((etag) => typeof etag === 'string') }),
  };
}
