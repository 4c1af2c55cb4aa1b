import { Injectable } from '@nestjs/common';
import type { JsonObject, JsonValue } from '@longshore/common/json/json-value';
import { foldersOf } from '@longshore/common/path-parts';
import { keyPath } from '../../common/http/validation/problems.js';
import type { ArtifactEntity } from '../../database/entities/artifact.entity.js';
import { readReference, replaceReferences } from '../../runs/options/artifact-references.js';
import type { LinkedFields } from '../../runs/files/run-files.js';
import { areParts } from '../../runs/options/artifact-names.js';
import type { ArtifactSource, RunArtifacts } from '../../runs/options/run-artifacts.js';
import { showOptions } from '../../runs/options/stored-options.js';
import { sourcesOf } from '../../runs/files/requested-files.js';
import type { FileStore, GetOptions } from '../stores/file-store.js';
import { inTime } from '../stores/in-time.js';
import { Stores } from '../stores/stores.js';
import { FileRepository, type StoredFile } from '../uploads/file.repository.js';
import {
  ArtifactRepository,
  MAX_FOLDER_FILES,
  type FoundArtifact,
  type RunWithFiles,
} from './artifact.repository.js';
import { SourceGone } from './artifacts.errors.js';
import { findSources } from './found-sources.js';
import { artifactKey, objectOf } from './object-keys.js';

/** Longest life of a URL, in seconds. */
const MAX_VALID_S = 7 * 86_400;
/** What a URL lives longer than its attempt may last, in seconds. */
const SPARE_S = 3600;

/** From where a worker gets a file. */
interface FileLink {
  readonly url: string;
  readonly bytes: number | null;
  readonly sha256: string | null;
  readonly expires_at: string;
}

type FolderLinks = readonly (FileLink & { readonly name: string })[];

interface Target {
  readonly validS: number;
  readonly base: string;
}

/** Makes the URLs from which the worker of a run gets what it wants, and to which it sends what it leaves. */
@Injectable()
export class SourceLinks {
  constructor(
    private readonly stores: Stores,
    private readonly files: FileRepository,
    private readonly artifacts: ArtifactRepository,
  ) {}

  /**
   * The fields of a run as its worker sees them.
   * @param base address of the service for the worker
   * @throws SourceGone, StoreUnavailable
   */
  async link(
    run: Pick<RunWithFiles, 'inputs' | 'options' | 'attemptTimeoutS'>,
    base: string,
  ): Promise<LinkedFields> {
    const given = showOptions(run.options).artifacts ?? {};
    const target = { validS: validSecondsOf(run), base };
    return inTime(this.#link(given, run.inputs, target));
  }

  /** A template of outputs with URLs to which the attempt sends what it names. */
  async linkTemplate(
    {
      id,
      attempt,
      outputsTemplate,
      attemptTimeoutS,
    }: Pick<RunWithFiles, 'id' | 'attempt' | 'outputsTemplate' | 'attemptTimeoutS'>,
    names: readonly string[],
    base: string,
  ): Promise<JsonObject> {
    const store = this.stores.required();
    const options = { validS: validSecondsOf({ attemptTimeoutS }), base };
    const urls = new Map<string, string>();
    for (const name of names)
      urls.set(name, (await store.signPut(artifactKey({ runId: id, attempt, name }), options)).url);
    return replaceReferences(outputsTemplate, (name) =>
      typeof name === 'string' ? (urls.get(name) ?? null) : null,
    );
  }

  async #link(given: RunArtifacts, inputs: JsonObject, target: Target): Promise<LinkedFields> {
    const named = sourcesOf({ artifacts: given, inputs });
    const found = await findSources(named, this.files, this.artifacts);
    const linkOf = async (
      source: ArtifactSource,
      place: string,
    ): Promise<FileLink | FolderLinks | undefined> => {
      if (source.file !== undefined) return this.#linkFile(found.fileOf(source), place, target);
      if (source.store !== undefined) return this.#linkObject(source, place, target);
      if (source.run === undefined) return undefined;
      return this.#linkArtifact(source, found.artifactOf(source), place, target);
    };
    let ofFolders = 0;
    const sources: Record<string, JsonValue> = {};
    for (const [path, source] of Object.entries(given.in ?? {})) {
      const place = keyPath('artifacts.in', path);
      const get = await linkOf(source, place);
      if (Array.isArray(get)) ofFolders += get.length;
      if (ofFolders > MAX_FOLDER_FILES)
        throw new SourceGone(`${place}: there are more than ${MAX_FOLDER_FILES} files`);
      sources[path] = { ...source, ...(get && { get: Object(get) }) };
    }
    const urls = new Map<string, string>();
    for (const { place, source } of named.filter((one) => one.place === 'inputs')) {
      const link = await linkOf(source, place);
      if (link === undefined || Array.isArray(link))
        throw new SourceGone(`${place}: ${source.name} has several files`);
      urls.set(JSON.stringify(source), Object(link).url);
    }
    return {
      inputs:
        urls.size === 0
          ? inputs
          : replaceReferences(
              inputs,
              (reference) => urls.get(JSON.stringify(readReference(reference))) ?? null,
            ),
      ...((given.in || given.out) && {
        artifacts: { ...(given.in && { in: sources }), ...(given.out && { out: Object(given.out) }) },
      }),
    };
  }

  async #linkFile(file: StoredFile | undefined, place: string, target: Target): Promise<FileLink> {
    if (file?.state !== 'stored') throw new SourceGone(`${place}: the file is gone`);
    const { key, bytes, sha256, contentType, name } = file;
    return linkTo(
      this.stores.required(),
      key,
      { bytes, sha256 },
      { ...target, name, ...(contentType !== null && { contentType }) },
    );
  }

  async #linkObject(
    { store: name = '', key = '', sha256 }: ArtifactSource,
    place: string,
    target: Target,
  ): Promise<FileLink | FolderLinks> {
    const named = this.stores.named(name);
    if (!named) throw new SourceGone(`${place}: there is no store '${name}'`);
    const { store } = named;
    if (!key.endsWith('/')) return linkTo(store, key, { bytes: null, sha256: sha256 ?? null }, target);
    const listed = await store.list(key, { limit: 2 * MAX_FOLDER_FILES + 1 });
    const objects = listed.filter((object) => !object.key.endsWith('/'));
    const parts = objects.map((object) => ({
      name: object.key.slice(key.length),
      key: object.key,
      store,
      bytes: object.bytes,
      sha256: null,
    }));
    return linkFolder(parts, place, target);
  }

  async #linkArtifact(
    { run = '', name = '' }: ArtifactSource,
    found: FoundArtifact | undefined,
    place: string,
    target: Target,
  ): Promise<FileLink | FolderLinks> {
    const stored = (found?.artifacts ?? []).filter(({ state }) => state === 'stored');
    const alone = stored.find((artifact) => artifact.name === name);
    if (alone) {
      const { store, key } = this.#objectOf(alone, place);
      return linkTo(store, key, { bytes: Number(alone.bytes), sha256: alone.sha256 }, target);
    }
    if (stored.length === 0) throw new SourceGone(`${place}: run ${run} has no artifact '${name}'`);
    const parts = stored.map((artifact) => ({
      ...this.#objectOf(artifact, place),
      name: artifact.name.slice(name.length + 1),
      bytes: Number(artifact.bytes),
      sha256: artifact.sha256,
    }));
    return linkFolder(parts, place, target);
  }

  /** Where an artifact is. */
  #objectOf(artifact: ArtifactEntity, place: string): { readonly store: FileStore; readonly key: string } {
    const object = objectOf(this.stores, artifact);
    if (!object) throw new SourceGone(`${place}: there is no store '${artifact.store}'`);
    return object;
  }
}

interface FolderPart {
  readonly name: string;
  readonly store: FileStore;
  readonly key: string;
  readonly bytes: number;
  readonly sha256: string | null;
}

/** @throws SourceGone for no files, too many, and names that are no paths */
async function linkFolder(parts: readonly FolderPart[], place: string, target: Target): Promise<FolderLinks> {
  if (parts.length === 0) throw new SourceGone(`${place}: there are no files`);
  if (parts.length > MAX_FOLDER_FILES)
    throw new SourceGone(`${place}: there are more than ${MAX_FOLDER_FILES} files`);
  const names = new Set(parts.map(({ name }) => name));
  for (const { name } of parts) {
    if (!areParts(name.split('/')) || foldersOf(name).some((folder) => names.has(folder)))
      throw new SourceGone(`${place}: '${name}' cannot be the name of a file`);
  }
  const links: (FileLink & { name: string })[] = [];
  for (const { name, store, key, bytes, sha256 } of parts)
    links.push({ name, ...(await linkTo(store, key, { bytes, sha256 }, target)) });
  return links;
}

async function linkTo(
  store: FileStore,
  key: string,
  { bytes, sha256 }: Pick<FileLink, 'bytes' | 'sha256'>,
  options: GetOptions,
): Promise<FileLink> {
  const { url, expiresAt } = await store.signGet(key, options);
  return { url, bytes, sha256, expires_at: expiresAt.toISOString() };
}

/** For how long URLs of an attempt are valid. */
export function validSecondsOf({ attemptTimeoutS }: Pick<RunWithFiles, 'attemptTimeoutS'>): number {
  return attemptTimeoutS === null ? MAX_VALID_S : Math.min(attemptTimeoutS + SPARE_S, MAX_VALID_S);
}
