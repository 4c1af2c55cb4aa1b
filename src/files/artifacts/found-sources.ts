import { fileIdsOf, type NamedSource } from '../../runs/files/requested-files.js';
import type { ArtifactSource } from '../../runs/options/run-artifacts.js';
import type { FileRepository, StoredFile } from '../uploads/file.repository.js';
import type { ArtifactRepository, FoundArtifact } from './artifact.repository.js';

/** The files and artifacts that sources name, as they are now. */
export interface FoundSources {
  /** Undefined: there is no such file. */
  fileOf(source: ArtifactSource): StoredFile | undefined;
  artifactOf(source: ArtifactSource): FoundArtifact | undefined;
}

/** Finds what sources name. @throws StoreUnavailable */
export async function findSources(
  named: readonly NamedSource[],
  files: FileRepository,
  artifacts: ArtifactRepository,
): Promise<FoundSources> {
  const found = await files.find(fileIdsOf(named));
  const asked = named.flatMap(({ source: { run, name } }) =>
    run !== undefined && name !== undefined ? [{ run, name }] : [],
  );
  const answers = await artifacts.find(asked);
  const byName = new Map(asked.map(({ run, name }, at) => [`${run}/${name}`, answers[at]]));
  return {
    fileOf: ({ file }) => (file === undefined ? undefined : found.get(file)),
    artifactOf: ({ run, name }) => byName.get(`${run}/${name}`),
  };
}
