import { Injectable } from '@nestjs/common';
import type { DefinitionEntity } from '../database/entities/definition.entity.js';
import { InvalidRequest } from '../common/http/errors/domain-error.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import {
  toEventDeliveryDto,
  toRetryPolicyDto,
  toStoredOptions,
  toTimeoutsDto,
} from '../runs/http/dto/run-options.dto.js';
import type { Idempotency } from '../runs/journal/idempotency-ledger.js';
import { RunsService, type AnsweredRun } from '../runs/runs.service.js';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { DefinitionRepository, type DefinitionRow } from './definition.repository.js';
import { DefinitionNotFound, InvalidInputs } from './definitions.errors.js';
import type { CreateDefinitionDto, CreateDefinitionRunDto } from './dto/create-definition.dto.js';
import {
  DEFAULT_LIMIT,
  toDefinitionDto,
  type DefinitionDto,
  type LatestDefinitionDto,
  type ListDefinitionsQueryDto,
  type ListLatestQueryDto,
  type ListVersionsQueryDto,
} from './dto/definition.dto.js';
import { checkDefaults, completeInputs } from './input-specs.js';

@Injectable()
export class DefinitionsService {
  constructor(
    private readonly definitions: DefinitionRepository,
    private readonly runs: RunsService,
  ) {}

  /** Stores a version or replaces it. @throws InvalidRequest if a default does not have its input's type */
  async upsert(
    body: CreateDefinitionDto,
  ): Promise<{ readonly definition: DefinitionDto; readonly created: boolean }> {
    const toStore = toRow(body);
    const problems = checkDefaults(new Map(Object.entries(toStore.inputSpecs)));
    if (problems.length > 0) throw new InvalidRequest(VALIDATION_FAILED, problems);
    const { row, created } = await this.definitions.upsert(toStore);
    return { definition: toDefinitionDto(row), created };
  }

  /** Versions of all definitions. @throws InvalidRequest if the cursor is not an existing version */
  async list({ limit, after: cursor }: ListDefinitionsQueryDto): Promise<DefinitionDto[]> {
    const [id = '', version = ''] = cursor?.split('/') ?? [];
    const after = cursor === undefined ? undefined : await this.definitions.find(id, version);
    if (after === null || (after && cursor !== `${id}/${version}`)) {
      throw new InvalidRequest('The cursor is not the id and version of a definition');
    }
    return (await this.definitions.list(limit, after)).map(toDefinitionDto);
  }

  async listLatest({ limit, after, search }: ListLatestQueryDto): Promise<LatestDefinitionDto[]> {
    const found = await this.definitions.listLatest(limit ?? DEFAULT_LIMIT, after ?? '', search ?? '');
    return found.map((row) => ({ ...toDefinitionDto(row), versions: row.versions }));
  }

  /** Versions of one definition, newest first. @throws DefinitionNotFound for the definition or the cursor */
  async listVersions(id: string, { limit, after }: ListVersionsQueryDto): Promise<DefinitionDto[]> {
    await this.#row(id, after);
    return (await this.definitions.listVersions(id, limit ?? DEFAULT_LIMIT, after)).map(toDefinitionDto);
  }

  async get(id: string, version?: string): Promise<DefinitionDto> {
    return toDefinitionDto(await this.#row(id, version));
  }

  /** Creates a run of one version, or of the latest. @throws DefinitionNotFound, InvalidInputs */
  async createRun(
    id: string,
    version: string | undefined,
    body: CreateDefinitionRunDto,
    trace: TraceContext | null,
    idempotency: Idempotency | undefined,
  ): Promise<AnsweredRun> {
    const definition = await this.#row(id, version);
    const outcome = completeInputs(new Map(Object.entries(definition.inputSpecs)), body.inputs ?? {});
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

  async #row(id: string, version: string | undefined): Promise<DefinitionEntity> {
    const row = await this.definitions.find(id, version);
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
    inputSpecs: mapSpecs(body.input_specs, (spec) => ({
      type: spec.type,
      required: spec.required ?? false,
      default: spec.default ?? null,
    })),
    outputSpecs: mapSpecs(body.output_specs, ({ type }) => ({ type })),
    ...toStoredOptions(body),
    topic: delivery?.topic ?? null,
    attributes: delivery?.attributes ?? null,
  };
}

function mapSpecs<S, T>(given: ReadonlyMap<string, S> | undefined, map: (spec: S) => T): Record<string, T> {
  return Object.fromEntries([...(given ?? [])].map(([name, spec]) => [name, map(spec)]));
}
