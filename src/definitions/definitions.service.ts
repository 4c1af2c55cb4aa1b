import { Injectable } from '@nestjs/common';
import type { DefinitionEntity } from '../database/entities/definition.entity.js';
import { InvalidRequest } from '../common/http/errors/domain-error.js';
import {
  toEventDeliveryDto,
  toRetryPolicyDto,
  toStoredOptions,
  toTimeoutsDto,
} from '../runs/http/dto/run-options.dto.js';
import type { Idempotency } from '../runs/journal/idempotency-ledger.js';
import { RunsService, type AnsweredRun } from '../runs/runs.service.js';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { DefinitionRepository, type DefinitionRow, type VersionName } from './definition.repository.js';
import { DefinitionNotFound, InvalidInputs } from './definitions.errors.js';
import type { CreateDefinitionRunDto } from './dto/create-definition-run.dto.js';
import type { CreateDefinitionDto } from './dto/create-definition.dto.js';
import {
  DEFAULT_LIMIT,
  toDefinitionDto,
  type DefinitionDto,
  type LatestDefinitionDto,
  type ListDefinitionsQueryDto,
  type ListLatestQueryDto,
  type ListVersionsQueryDto,
} from './dto/definition.dto.js';
import { readInputSpecs, specsOf } from './dto/stored-specs.js';
import { checkDefaults, completeInputs } from './input-specs.js';

/** Which definition a run is to be made of, and what its request says beside the body. */
export interface DefinitionRunRequest {
  readonly name: string;
  /** Undefined: the latest. */
  readonly version: string | undefined;
  /** Where in a trace the run belongs. */
  readonly trace: TraceContext | null;
  readonly idempotency: Idempotency | undefined;
}

/** The use cases of definitions. */
@Injectable()
export class DefinitionsService {
  constructor(
    private readonly definitions: DefinitionRepository,
    private readonly runs: RunsService,
  ) {}

  /** Stores a version or replaces it. @throws InvalidRequest when a default does not have its input's type */
  async upsert(
    body: CreateDefinitionDto,
  ): Promise<{ readonly definition: DefinitionDto; readonly created: boolean }> {
    const problems = checkDefaults(readInputSpecs(body.input_specs));
    if (problems.length > 0) throw new InvalidRequest('Request validation failed', problems);
    const { row, created } = await this.definitions.upsert(toRow(body));
    return { definition: toDefinitionDto(row), created };
  }

  /** All versions of all definitions, or a page of them. @throws InvalidRequest for a cursor that is no version */
  async list({ limit, after }: ListDefinitionsQueryDto): Promise<DefinitionDto[]> {
    const place = after === undefined ? undefined : await this.#place(after);
    return (await this.definitions.list({ limit, after: place })).map(toDefinitionDto);
  }

  /** The newest version of every definition, by id, and how many there are. */
  async listLatest({
    limit = DEFAULT_LIMIT,
    after,
    search,
  }: ListLatestQueryDto): Promise<LatestDefinitionDto[]> {
    const found = await this.definitions.listLatest({ limit, after, search });
    return found.map((row) => ({ ...toDefinitionDto(row), versions: row.versions }));
  }

  /** Versions of one definition, the newest first. @throws DefinitionNotFound for the definition or the cursor */
  async listVersions(
    id: string,
    { limit = DEFAULT_LIMIT, after }: ListVersionsQueryDto,
  ): Promise<DefinitionDto[]> {
    await this.#row(id, after);
    const place = after === undefined ? undefined : { id, version: after };
    return (await this.definitions.listVersions(id, { limit, after: place })).map(toDefinitionDto);
  }

  /** One version, or the latest. @throws DefinitionNotFound */
  async get(id: string, version?: string): Promise<DefinitionDto> {
    return toDefinitionDto(await this.#row(id, version));
  }

  /**
   * Creates a run with everything that the definition says.
   * @throws DefinitionNotFound, InvalidInputs
   */
  async createRun(
    { name, version, trace, idempotency }: DefinitionRunRequest,
    body: CreateDefinitionRunDto,
  ): Promise<AnsweredRun> {
    const definition = await this.#row(name, version);
    const outcome = completeInputs(specsOf(definition), body.inputs ?? {});
    if ('problems' in outcome) {
      // The definition may have been replaced since the request was first sent.
      const earlier = idempotency ? await this.runs.findReplay(idempotency) : null;
      if (earlier) return earlier;
      throw new InvalidInputs(outcome.problems);
    }
    return this.runs.create(
      {
        image: definition.image,
        priority: body.priority,
        inputs: outcome.inputs,
        outputs: body.outputs,
        constraints: { ram_mb: definition.ramMb, vram_mb: definition.vramMb, cpu: definition.cpu },
        retry_policy: toRetryPolicyDto(definition),
        timeouts: toTimeoutsDto(definition),
        event_delivery: toEventDeliveryDto(definition),
        definition: { id: definition.id, version: definition.version },
      },
      trace,
      idempotency,
    );
  }

  async #place(cursor: string): Promise<VersionName> {
    const [id = '', version = ''] = cursor.split('/');
    const row = await this.definitions.find(id, version);
    if (!row || cursor !== `${id}/${version}`) {
      throw new InvalidRequest('The cursor is not the id and version of a definition');
    }
    return row;
  }

  async #row(id: string, version: string | undefined): Promise<DefinitionEntity> {
    const row =
      version === undefined
        ? await this.definitions.findLatest(id)
        : await this.definitions.find(id, version);
    if (!row) throw new DefinitionNotFound(id, version);
    return row;
  }
}

function toRow(body: CreateDefinitionDto): DefinitionRow {
  const { event_delivery: delivery } = body;
  return {
    id: body.id,
    version: body.version,
    image: body.image,
    inputSpecs: Object.fromEntries(
      [...readInputSpecs(body.input_specs)].map(([name, spec]) => [name, { ...spec }]),
    ),
    outputSpecs: Object.fromEntries(
      [...(body.output_specs ?? [])].map(([name, { type }]) => [name, { type }]),
    ),
    ...toStoredOptions(body),
    topic: delivery?.topic ?? null,
    attributes: delivery?.attributes ?? null,
  };
}
