import { Injectable } from '@nestjs/common';
import { composeJson, jsonText, stringifyJson } from '@longshore/common/json/json-text';
import { nearestName } from '@longshore/common/nearest-name';
import type { Caller } from '../auth/access.js';
import type { Author } from '../auth/audit-log.js';
import type { DefinitionEntity } from '../database/entities/definition.entity.js';
import { DomainError, InvalidRequest, OverLimit } from '../common/errors/domain-error.js';
import { Problems } from '../common/http/validation/problems.js';
import { Settings } from '../config/settings.js';
import { readPage, type Page } from '../database/sql/read-page.js';
import { toStoredExecutionOptions } from '../runs/dto/execution-options.dto.js';
import { referenceWarnings } from '../runs/options/plain-references.js';
import { toStoredPolicies } from '../runs/dto/timeouts-and-delivery.dto.js';
import type { RunPreviewDto } from '../runs/dto/op-run.dto.js';
import { createRun } from '../runs/machine/run.js';
import {
  newRun,
  type RunOrigin,
  type RunRequest,
  RunsService,
  type AnsweredRun,
  type RunCreation,
} from '../runs/runs.service.js';
import { DefinitionRepository, type DefinitionRow, type LatestDefinition } from './definition.repository.js';
import { DefinitionNotFound } from './definitions.errors.js';
import type { CreateDefinitionDto, CreateDefinitionRunDto } from './dto/create-definition.dto.js';
import {
  DEFAULT_LIMIT,
  toDefinitionDto,
  type DefinitionDto,
  type DefinitionPreviewDto,
  type LatestDefinitionDto,
  type DeleteDefinitionQueryDto,
  type ListDefinitionsQueryDto,
  type ListLatestQueryDto,
  type ListVersionsQueryDto,
} from './dto/definition.dto.js';
import type { InputSpecInputDto } from './dto/specs.dto.js';
import { toRunRequest } from './definition-run.js';
import { checkSpecs, storedText, typeWarnings } from './input-specs.js';
import { checkTemplates } from './templates/check-templates.js';

/** After a definition was too large: only a change of the settings, or of the stored definitions, helps. */
const RETRY_AFTER_S = 3600;

@Injectable()
export class DefinitionsService {
  constructor(
    private readonly definitions: DefinitionRepository,
    private readonly runs: RunsService,
    private readonly settings: Settings,
  ) {}

  /**
   * Stores a version or replaces it. `warnings` are texts about what may be a mistake.
   * @throws InvalidRequest if an input contradicts itself or a reference cannot be replaced, OverLimit
   */
  async upsert(
    body: CreateDefinitionDto,
    by: Caller,
  ): Promise<{
    readonly definition: DefinitionDto;
    readonly created: boolean;
    readonly warnings: readonly string[];
  }> {
    const { toStore, warnings } = this.#checked(body, by);
    const { maxDefinitionVersions } = this.settings;
    const stored = await this.definitions.upsert(toStore, maxDefinitionVersions, by);
    if (!stored) {
      const detail = `OpDefinition '${body.id}' has ${maxDefinitionVersions} versions already`;
      throw new OverLimit(detail, 'SERVICE_MAX_DEFINITION_VERSIONS', RETRY_AFTER_S);
    }
    return { definition: toDefinitionDto(stored.row), created: stored.created, warnings };
  }

  /** What {@link upsert} would store, with its errors but that of too many versions. */
  async preview(
    body: CreateDefinitionDto,
    by: Caller,
  ): Promise<{
    readonly definition: DefinitionPreviewDto;
    readonly warnings: readonly string[];
  }> {
    const { toStore, warnings } = this.#checked(body, by);
    const now = new Date();
    const before = await this.definitions.find(body.id, body.version);
    const { createdAt, createdBy, createdByName } = before ?? { ...toStore, createdAt: now };
    const applied = toStore.applied ?? before?.applied ?? null;
    const row = {
      ...toStore,
      applied,
      createdAt,
      createdBy,
      createdByName,
      updatedAt: now,
      creationOrder: '0',
    };
    const run = createRun(newRun({ image: body.image }, {}), now);
    const able = await this.runs.countAbleWorkers({
      ...run,
      ...toStoredPolicies(body),
      ...toStoredExecutionOptions(body),
    });
    return { definition: { ...toDefinitionDto(row), able_workers: able }, warnings };
  }

  #checked(
    body: CreateDefinitionDto,
    by: Caller,
  ): {
    readonly toStore: DefinitionRow;
    readonly warnings: readonly string[];
  } {
    const toStore = toRow(body, by);
    const specs = new Map(Object.entries(toStore.inputSpecs));
    const problems = new Problems();
    for (const line of [...checkSpecs(specs), ...checkTemplates(toStore.options, specs)]) problems.add(line);
    problems.throwIfAny();
    const { maxDefinitionBytes } = this.settings;
    if (bytesOf(toStore) > maxDefinitionBytes) {
      const detail = `The definition is larger than ${maxDefinitionBytes} bytes`;
      throw new OverLimit(detail, 'SERVICE_MAX_DEFINITION_BYTES', RETRY_AFTER_S);
    }
    return { toStore, warnings: [...typeWarnings(specs), ...referenceWarnings(body, true)] };
  }

  /** Deletes a version, or all of them; runs keep their copies. @throws DefinitionNotFound */
  async delete(id: string, { version, all = false }: DeleteDefinitionQueryDto, by: Author): Promise<void> {
    if (all === (version !== undefined)) {
      throw new InvalidRequest(
        all
          ? 'Only one of version and all may be given'
          : 'version is required, or all=true for all versions',
      );
    }
    if ((await this.definitions.remove(id, version, by)) === 0) throw await this.#notFound(id, version);
  }

  /** Versions of all definitions. @throws InvalidRequest if the cursor is not an existing version */
  async list({ limit, after: cursor }: ListDefinitionsQueryDto): Promise<Page<DefinitionDto>> {
    const [id = '', version = ''] = cursor?.split('/') ?? [];
    const after = cursor === undefined ? undefined : await this.definitions.find(id, version);
    if (after === null || (after && cursor !== `${id}/${version}`)) {
      throw new InvalidRequest('The cursor is not the id and version of a definition');
    }
    const page = await this.#page<DefinitionEntity>(limit ?? Infinity, (count, last) =>
      this.definitions.list(count, last ?? after),
    );
    return { ...page, items: page.items.map(toDefinitionDto) };
  }

  async listLatest({ limit, after, search }: ListLatestQueryDto): Promise<Page<LatestDefinitionDto>> {
    const page = await this.#page<LatestDefinition>(limit ?? DEFAULT_LIMIT, (count, last) =>
      this.definitions.listLatest(count, last?.id ?? after ?? '', search ?? ''),
    );
    return { ...page, items: page.items.map((row) => ({ ...toDefinitionDto(row), versions: row.versions })) };
  }

  /** Versions of one definition, newest first. @throws DefinitionNotFound for the definition or the cursor */
  async listVersions(id: string, { limit, after }: ListVersionsQueryDto): Promise<Page<DefinitionDto>> {
    const row = await this.#row(id, after);
    const cursor = after === undefined ? undefined : row;
    const page = await this.#page<DefinitionEntity>(limit ?? DEFAULT_LIMIT, (count, last) =>
      this.definitions.listVersions(id, count, last ?? cursor),
    );
    return { ...page, items: page.items.map(toDefinitionDto) };
  }

  async get(id: string, version?: string): Promise<DefinitionDto> {
    return toDefinitionDto(await this.#row(id, version));
  }

  /** Creates a run of one version, or of the latest. @throws DefinitionNotFound, InvalidInputs, InvalidRequest */
  async createRun(
    id: string,
    version: string | undefined,
    body: CreateDefinitionRunDto,
    options: RunCreation,
  ): Promise<AnsweredRun> {
    const definition = await this.#row(id, version);
    let request: RunRequest;
    try {
      request = toRunRequest(definition, body);
    } catch (error) {
      // The definition may have been replaced since the request was first sent.
      const { idempotency } = options;
      const earlier =
        error instanceof DomainError && idempotency && (await this.runs.findReplay(idempotency));
      if (!earlier) throw error;
      return earlier;
    }
    return this.runs.create(request, options);
  }

  /** The run that {@link createRun} would create, with its errors. */
  async previewRun(
    id: string,
    version: string | undefined,
    body: CreateDefinitionRunDto,
    origin: RunOrigin,
  ): Promise<RunPreviewDto> {
    return this.runs.preview(toRunRequest(await this.#row(id, version), body), origin);
  }

  #page<T extends DefinitionRow>(
    limit: number,
    read: (count: number, last: T | undefined) => Promise<readonly T[]>,
  ): Promise<Page<T>> {
    return readPage({ limit, maxBytes: this.settings.maxAnswerBytes }, read, bytesOf);
  }

  async #row(id: string, version: string | undefined): Promise<DefinitionEntity> {
    const row = await this.definitions.find(id, version);
    if (!row) throw await this.#notFound(id, version);
    return row;
  }

  async #notFound(id: string, version: string | undefined): Promise<DefinitionNotFound> {
    const names = await this.definitions.listNamesLike(id);
    return new DefinitionNotFound(id, version, names.includes(id) ? undefined : nearestName(id, names));
  }
}

/** What counts for the size of a definition. */
const COUNTED = [
  'image',
  'inputSpecs',
  'outputSpecs',
  'topic',
  'attributes',
  'labels',
  'description',
  'options',
  'selector',
] as const satisfies readonly (keyof DefinitionRow)[];

/** Bytes of what a definition declares, as JSON. */
function bytesOf(row: DefinitionRow): number {
  const declared = Object.fromEntries(COUNTED.map((field) => [field, row[field]]));
  return Buffer.byteLength(stringifyJson(declared));
}

function toRow(body: CreateDefinitionDto, { keyId, name }: Caller): DefinitionRow {
  const { event_delivery: delivery } = body;
  return {
    id: body.id,
    version: body.version,
    image: body.image,
    description: body.description ?? null,
    inputSpecs: toSpecs(body.input_specs, printInputSpec),
    outputSpecs: toSpecs(body.output_specs, ({ type }) => JSON.stringify({ type })),
    ...toStoredPolicies(body),
    ...toStoredExecutionOptions(body),
    topic: delivery?.topic ?? null,
    attributes: delivery?.attributes ?? null,
    applied: body.applied ?? null,
    createdBy: keyId,
    createdByName: name,
    updatedBy: keyId,
    updatedByName: name,
  };
}

/** The JSON text of an input's declaration, with what is given of the optional members. */
function printInputSpec(spec: InputSpecInputDto): string {
  const { type, required = false, default: text = 'null', description, max_length: maxLength } = spec;
  const members = Object.entries({
    type: JSON.stringify(type),
    required: String(required),
    default: storedText(spec.type, text),
    description: description === undefined ? undefined : JSON.stringify(description),
    enum: spec.enum,
    minimum: spec.minimum,
    maximum: spec.maximum,
    max_length: maxLength?.toString(),
  });
  return jsonText(
    composeJson(members.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))),
  );
}

/** The stored form of specs. @param print the JSON text of a spec */
function toSpecs<S, T>(
  given: ReadonlyMap<string, S> = new Map(),
  print: (spec: S) => string,
): Record<string, T> {
  return Object(composeJson([...given].map(([name, spec]) => [name, print(spec)])));
}
