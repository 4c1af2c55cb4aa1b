import type { Schemas } from '@longshore/client';
import { isJsonObject, type JsonValue } from '@longshore/common/json/json-value';

/** A file that the service gives: an upload, or what a run has left. */
export type FileRef = { readonly file: string } | { readonly run: string; readonly name: string };

type RunOfFiles = Pick<Schemas['OpRun'], 'artifacts' | 'inputs' | 'outputs' | 'state'>;
type Source = NonNullable<RunOfFiles['artifacts']['in']>[string];

/** What a run gets. */
export interface GivenFile {
  /** The path in its container, or the place in its inputs. */
  readonly place: string;
  readonly source: Source;
}

const FILE_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Whether a text is in the form of a file's id. */
export function isFileId(text: string): boolean {
  return FILE_ID.test(text);
}

/** The member of an object that has only `$artifact`; undefined: it is something else. */
export function artifactIn(value: unknown): JsonValue | undefined {
  return isJsonObject(value) && Object.keys(value).length === 1 ? value['$artifact'] : undefined;
}

/** The file that a value stands for. @param runId the run in whose outputs it is, of which it may name an artifact */
export function readFileRef(value: unknown, runId?: string): FileRef | undefined {
  const named = artifactIn(value);
  if (typeof named === 'string') return runId === undefined ? undefined : { run: runId, name: named };
  const { file, run, name }: Record<string, unknown> = Object(named);
  if (typeof file === 'string') return { file };
  return typeof run === 'string' && typeof name === 'string' ? { run, name } : undefined;
}

/** Whether a run gets or leaves files; undefined: it does not tell, as its own outputs are where a template may have been. */
export function usesFiles({ artifacts, inputs, outputs, state }: RunOfFiles): boolean | undefined {
  const { in: sources, out } = artifacts;
  const isDeclared = [sources, out].some((named) => Object.keys(named ?? {}).length > 0);
  if (isDeclared || JSON.stringify([inputs, outputs]).includes('"$artifact"')) return true;
  return state === 'COMPLETED' ? undefined : false;
}

/** The files that a run gets: those below paths, then those in its inputs. */
export function givenFiles({ artifacts, inputs }: Pick<RunOfFiles, 'artifacts' | 'inputs'>): GivenFile[] {
  const given = Object.entries(artifacts.in ?? {}).map(([place, source]) => ({ place, source }));
  const visit = (value: unknown, place: string): void => {
    const source = readFileRef(value);
    if (source !== undefined) given.push({ place, source });
    else if (typeof value === 'object' && value !== null) {
      for (const [name, member] of Object.entries(value)) visit(member, `${place}.${name}`);
    }
  };
  visit(inputs, 'inputs');
  return given;
}

/** Pictures that a browser shows as they are; one of SVG is a document, which may have scripts. */
export function isPicture(contentType: string | null): boolean {
  return contentType !== null && /^image\/(?:png|jpeg|gif|webp)(?:;|$)/i.test(contentType);
}

const FOLDER_URL = /^https?:\/\/[^?#]*?\/(file-store\/[^?#]+\?[^#]+&signature=[0-9a-f]{64})$/;

/**
 * The address at which the browser reaches what a URL names: a folder is served by the service, which may have another address for
 * containers. @param service without a slash at the end
 */
export function reachableUrl(url: string, service: string): string {
  const [, path] = FOLDER_URL.exec(url) ?? [];
  return path === undefined ? url : `${service}/${path}`;
}
