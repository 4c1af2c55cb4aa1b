import { Injectable } from '@nestjs/common';
import { stringifyJson } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import { DefinitionRepository } from '../../definitions/definition.repository.js';
import { completeInputs } from '../../definitions/input-specs.js';
import { replaceReferencesIn } from '../../runs/options/artifact-references.js';
import {
  isSource,
  readSource,
  supplyInputs,
  textAt,
  type OutputSource,
} from '../../runs/options/output-sources.js';
import {
  DependencyRepository,
  type ParentRun,
  type MemberValue,
  type UnsuppliedRun,
} from './dependency.repository.js';

/** Characters of the values that a run gets from outputs, at most. */
const MAX_LENGTH = 8 * 1024 * 1024;

type Supplied = { readonly inputs: JsonObject } | { readonly problem: string };
type Value = { readonly text: string } | { readonly problem: string };

/** Reads values of inputs from the outputs of runs that have ended. */
@Injectable()
export class InputSupply {
  constructor(
    private readonly dependencies: DependencyRepository,
    private readonly definitions: DefinitionRepository,
  ) {}

  /** The inputs of a run, or why it cannot have them. */
  async read({ inputs, definitionId, definitionVersion }: UnsuppliedRun): Promise<Supplied> {
    const values = await this.#valuesOf(inputs);
    let length = 0;
    const supplied = supplyInputs(inputs, (source) => {
      const value = values.get(keyOf(source)) ?? { problem: 'the value was not read' };
      if ('text' in value) length += value.text.length;
      return length > MAX_LENGTH ? { problem: `the values have more than ${MAX_LENGTH} characters` } : value;
    });
    if ('problem' in supplied || definitionId === null) return supplied;
    const definition = await this.definitions.find(definitionId, definitionVersion ?? undefined);
    if (!definition) return supplied;
    const checked = completeInputs(new Map(Object.entries(definition.inputSpecs)), supplied.inputs);
    return 'problems' in checked ? { problem: checked.problems.join('; ') } : checked;
  }

  async #valuesOf(inputs: JsonObject): Promise<ReadonlyMap<string, Value>> {
    const sources = Object.values(inputs).flatMap((value) => {
      const source = isSource(value) ? readSource(value) : undefined;
      return source && !('problem' in source) ? [source] : [];
    });
    const runIds = sources.filter(({ isGroup }) => !isGroup).map(({ parentId }) => parentId);
    const runs = new Map(
      (runIds.length === 0 ? [] : await this.dependencies.listOutputs(runIds)).map((run) => [run.id, run]),
    );
    const values = new Map<string, Value>();
    for (const source of sources) {
      const { parentId, path } = source;
      const value = source.isGroup
        ? valueOfGroup(source, await this.dependencies.listValues(parentId, path))
        : valueOfRun(source, runs.get(parentId));
      values.set(keyOf(source), value);
    }
    return values;
  }
}

function keyOf(source: OutputSource): string {
  return JSON.stringify(source);
}

function valueOfRun({ parentId, path, fallback }: OutputSource, run: ParentRun | undefined): Value {
  const found = run?.hasEnded === true ? textAt(run.outputs, path) : undefined;
  const text = found === undefined ? fallback : withRun(found, parentId);
  if (text !== undefined) return { text };
  if (!run) return { problem: `run ${parentId} was removed` };
  return {
    problem: run.hasEnded
      ? `run ${parentId} has no output '${pointerOf(path)}'`
      : `run ${parentId} has not ended`,
  };
}

/** Of an array a list by index, of another group an object by name; null stands for a member that has not COMPLETED. */
function valueOfGroup({ parentId, path, fallback }: OutputSource, members: readonly MemberValue[]): Value {
  if (members.length === 0)
    return fallback === undefined ? { problem: `group ${parentId} has no members` } : { text: fallback };
  const texts = members.map(({ id, state, text }) =>
    state === 'COMPLETED' ? (text === null ? fallback : withRun(text, id)) : (fallback ?? 'null'),
  );
  const missing = texts.indexOf(undefined);
  if (missing >= 0) {
    const member = members[missing]?.ref ?? missing;
    return { problem: `member ${member} of group ${parentId} has no output '${pointerOf(path)}'` };
  }
  if (members[0]?.ref === null) return { text: `[${texts.join(',')}]` };
  return { text: `{${texts.map((text, n) => `${stringifyJson(members[n]?.ref ?? '')}:${text}`).join(',')}}` };
}

/** What a run has left is, for another one, an artifact of that run. */
function withRun(text: string, run: string): string {
  return replaceReferencesIn(text, (name) => ({
    $artifact: typeof name === 'string' ? { run, name } : name,
  }));
}

function pointerOf(path: readonly string[]): string {
  return path.map((key) => `/${key}`).join('');
}
