import { Injectable } from '@nestjs/common';
import { composeJson, memberTexts, stringifyJson } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { InvalidRequest } from '../common/errors/domain-error.js';
import { readItem } from '../common/http/validation/bulk-items.js';
import { keyPath, VALIDATION_FAILED } from '../common/http/validation/problems.js';
import type { DefinitionEntity, InputSpec } from '../database/entities/definition.entity.js';
import { BatchedReads } from '../database/sql/batched-reads.js';
import { CreateRunDto } from '../runs/dto/run-requests.dto.js';
import type { LabelChanges } from '../runs/machine/run.js';
import type { RunRequest } from '../runs/runs.service.js';
import { laterProblems, toRunRequest } from './definition-run.js';
import { DefinitionRepository } from './definition.repository.js';
import { DefinitionNotFound } from './definitions.errors.js';
import { CreateDefinitionRunDto } from './dto/create-definition.dto.js';
import { completeInputs } from './input-specs.js';
import { checkTemplates } from './templates/check-templates.js';
import { expandOptions, expandText } from './templates/expand-options.js';
import type { Facts } from './templates/template-text.js';

/** The fields of a body in which references are replaced, beside its inputs. */
const REFERRING = ['command', 'args', 'env', 'mounts'] as const;

/** An input of a body that has no definition: any value, which is given. */
const GIVEN_INPUT: InputSpec = { type: 'any', required: true, default: null };

/** What the runs of a body have. */
export interface BodyContext {
  /** With the id of the run. The name is that of the body. */
  readonly facts: Facts & Required<Pick<Facts, 'run.id'>>;
  /** Labels over those of the definition and under those of the body. */
  readonly labels: LabelChanges | null;
  /** Inputs under those of the body: of a definition, those that it declares. */
  readonly shared?: JsonObject | undefined;
}

/**
 * Bodies of runs that are kept and used later, again and again: the body of POST /runs, or of a run of a definition with `definition` and
 * `version`. References are replaced for each run, and the result is read as the body of a request.
 */
@Injectable()
export class RunBodies {
  readonly #definitions = new BatchedReads((names: readonly string[]) => this.definitions.findNamed(names));

  constructor(private readonly definitions: DefinitionRepository) {}

  /**
   * The request for one run.
   * @throws InvalidRequest, InvalidInputs, DefinitionNotFound
   */
  async request(body: JsonObject, { facts, labels, shared }: BodyContext): Promise<RunRequest> {
    const definition = await this.#definitionOf(body);
    const { definition: _id, version: _version, name, inputs = {}, labels: own = {}, ...rest } = body;
    const known = typeof name === 'string' ? { ...facts, 'run.name': name } : facts;
    const all = shared && isJsonObject(inputs) ? withShared(inputs, shared, definition) : inputs;
    const given = isJsonObject(all) ? expandInputs(all, known) : all;
    const asked = {
      ...rest,
      ...expandReferring(rest, known, isJsonObject(given) ? given : {}, definition),
      ...(name !== undefined && { name }),
      ...(Object.keys(Object(given)).length > 0 && { inputs: given }),
      labels: isJsonObject(own) ? { ...labels, ...own } : own,
    };
    if (definition) return toRunRequest(definition, readItem(CreateDefinitionRunDto, asked), known);
    return { ...readItem(CreateRunDto, asked), id: facts['run.id'], isBound: true };
  }

  /**
   * Refuses a body whose runs can never be made as it is meant.
   * @param known what references of its runs may name beside inputs
   * @throws InvalidRequest with a line for each problem, DefinitionNotFound
   */
  async check(body: JsonObject, known: ReadonlySet<string>, shared: JsonObject = {}): Promise<void> {
    const definition = await this.#definitionOf(body);
    const { inputs = {}, start_at: startAt } = body;
    const all = isJsonObject(inputs) ? withShared(inputs, shared, definition) : {};
    const names = Object.keys(all);
    const specs = definition ? specsOf(definition) : new Map(names.map((name) => [name, GIVEN_INPUT]));
    const problems = [
      ...((startAt ?? null) === null ? [] : ['start_at must be absent']),
      ...checkTemplates(referringOf(body), specs, known),
      ...laterProblems(referringOf(body), all),
    ];
    if (problems.length > 0) throw new InvalidRequest(VALIDATION_FAILED, problems);
  }

  /** Those of the names that are inputs of its runs: without a definition all are. @throws DefinitionNotFound, InvalidRequest */
  async inputsOf(body: JsonObject, names: readonly string[]): Promise<readonly string[]> {
    const definition = await this.#definitionOf(body);
    return definition ? names.filter((name) => takes(definition, name)) : names;
  }

  async #definitionOf({ definition: id, version }: JsonObject): Promise<DefinitionEntity | null> {
    if ((id ?? null) === null && (version ?? null) === null) return null;
    if (typeof id !== 'string' || (version !== undefined && typeof version !== 'string'))
      throw new InvalidRequest(VALIDATION_FAILED, ['definition and version must be strings']);
    const found = await this.#definitions.load(version === undefined ? id : `${id}/${version}`);
    if (!found) throw new DefinitionNotFound(id, version);
    return found;
  }
}

/** The fields of a body in which references are replaced, beside its inputs. */
function referringOf(body: JsonObject): JsonObject {
  return Object.fromEntries(
    REFERRING.flatMap((name) => {
      const value = body[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** These fields with their references replaced. The inputs are completed for them only if there are any. */
function expandReferring(
  body: JsonObject,
  facts: Facts,
  given: JsonObject,
  definition: DefinitionEntity | null,
): JsonObject | null {
  const referring = referringOf(body);
  if (Object.keys(referring).length === 0) return null;
  const complete = completeInputs(specsOf(definition), given);
  return expandOptions(referring, { facts, inputs: 'inputs' in complete ? complete.inputs : {} });
}

/** The inputs of a body over shared ones, name by name. */
function withShared(inputs: JsonObject, shared: JsonObject, definition: DefinitionEntity | null): JsonObject {
  const own = memberTexts(inputs);
  const taken = [...memberTexts(shared)].filter(
    ([name]) => !own.has(name) && (definition === null || takes(definition, name)),
  );
  return taken.length === 0 ? inputs : composeJson([...taken, ...own]);
}

/** Whether runs of the definition have an input: one that declares none takes all. */
function takes({ inputSpecs }: DefinitionEntity, name: string): boolean {
  return Object.keys(inputSpecs).length === 0 || Object.hasOwn(inputSpecs, name);
}

function specsOf(definition: DefinitionEntity | null): ReadonlyMap<string, InputSpec> {
  return new Map(Object.entries(definition?.inputSpecs ?? {}));
}

/** The inputs with references in their texts replaced. @throws InvalidInputs */
function expandInputs(inputs: JsonObject, facts: Facts): JsonObject {
  return composeJson(
    [...memberTexts(inputs)].map(([name, text]) => {
      if (!text.startsWith('"') || !text.includes('${')) return [name, text];
      const value = expandText(keyPath('inputs', name), String(JSON.parse(text)), facts);
      return [name, stringifyJson(value)];
    }),
  );
}
