import type { JsonObject, JsonValue } from '@longshore/common/json/json-value';
import { keyPath } from '../../common/http/validation/problems.js';
import {
  inputReferences,
  MAX_TEMPLATE_NAMES,
  mayRefer,
  readReference,
  references,
  templateNames,
  type InputReference,
} from '../options/artifact-references.js';
import { ARTIFACT_NAME, artifactNameProblem } from '../options/artifact-names.js';
import { hasArtifacts, type ArtifactSource, type RunArtifacts } from '../options/run-artifacts.js';
import { isRunId } from '../machine/new-id.js';

/** The part of a request that names files. */
export interface FileRequest {
  readonly artifacts?: RunArtifacts | null | undefined;
  readonly inputs?: JsonObject | undefined;
  readonly outputs?: JsonObject | undefined;
}

/** A file, an artifact or a store that a request names, and where. */
export interface NamedSource {
  readonly place: string;
  readonly source: ArtifactSource;
}

/** Whether a run gets or leaves files. */
export function usesFiles({ artifacts, inputs, outputs }: FileRequest): boolean {
  return hasArtifacts(artifacts) || mayRefer(inputs) || mayRefer(outputs);
}

/** What a request wants to get, and the stores into which it wants to put. */
export function sourcesOf({ artifacts, inputs }: FileRequest): NamedSource[] {
  const own = Object.entries(artifacts?.in ?? {}).map(([path, source]) => ({
    place: keyPath('artifacts.in', path),
    source,
  }));
  return [...own, ...inputReferences(inputs).map((source: InputReference) => ({ place: 'inputs', source }))];
}

/** Ids of the files that are named, each once. */
export function fileIdsOf(named: readonly NamedSource[]): string[] {
  return [...new Set(named.flatMap(({ source }) => source.file ?? []))];
}

/** One line for each part of a request that names files as none can be named. */
export function requestedFilesProblems(request: FileRequest): string[] {
  const { artifacts, inputs, outputs } = request;
  const names = templateNames(outputs);
  const ofInputs = mayRefer(inputs) ? references(inputs).flatMap(inputProblem) : [];
  const ofTemplate = mayRefer(outputs) ? references(outputs).flatMap(templateProblem) : [];
  const tooMany =
    names.length > MAX_TEMPLATE_NAMES ? [`outputs must name at most ${MAX_TEMPLATE_NAMES} artifacts`] : [];
  const taken = Object.keys(artifacts?.out ?? {}).filter((name) => names.includes(name));
  return [
    ...ofInputs,
    ...ofTemplate,
    ...tooMany,
    ...taken.map(
      (name) => `${keyPath('artifacts.out', name)} must not be in the template of outputs as well`,
    ),
    ...sourcesOf(request).flatMap(({ place, source: { file, run } }) => {
      const id = file ?? run;
      return id === undefined || isRunId(id)
        ? []
        : [`${place}: there is no ${file === undefined ? 'run' : 'file'} with such an id`];
    }),
    ...Object.entries(artifacts?.in ?? {}).flatMap(([path, { ref }]) =>
      ref === undefined ? [] : [`${keyPath('artifacts.in', path)}.ref is only for members of groups`],
    ),
  ];
}

function inputProblem(reference: JsonValue): string[] {
  const read = readReference(reference);
  if (read === undefined) return ['inputs: $artifact must be {"file": ID} or {"run": ID, "name": NAME}'];
  const problem = 'name' in read ? artifactNameProblem(read.name, 'inputs: name of $artifact') : undefined;
  return problem === undefined ? [] : [problem];
}

function templateProblem(reference: JsonValue): string[] {
  return typeof reference === 'string' && ARTIFACT_NAME.test(reference)
    ? []
    : ['outputs: $artifact must be the name of an artifact'];
}
