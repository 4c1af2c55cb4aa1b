import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';
import { DomainError, InvalidRequest } from '../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { readItem } from '../common/http/validation/bulk-items.js';
import type { RunRequestCopy } from '../database/entities/run.entity.js';
import { toOpRunDto } from '../runs/dto/op-run.dto.js';
import { CreateRunDto } from '../runs/dto/run-requests.dto.js';
import { isTerminal } from '../runs/machine/run-state.js';
import type { RunRecord } from '../runs/machine/run.js';
import { RunsService, type AnsweredRun, type RunCreation, type RunRequest } from '../runs/runs.service.js';
import { RunRepository } from '../runs/storage/run.repository.js';
import { DefinitionRepository } from './definition.repository.js';
import { DefinitionNotFound, RunNotRepeatable } from './definitions.errors.js';
import { toRunRequest } from './definitions.service.js';
import { CreateDefinitionRunDto } from './dto/create-definition.dto.js';
import type { RerunDto } from './dto/rerun.dto.js';

/** Creates runs like earlier ones, from what was asked for then. */
@Injectable()
export class RerunsService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly rows: RunRepository,
    private readonly definitions: DefinitionRepository,
    private readonly runs: RunsService,
  ) {}

  /** @throws RunNotFound, RunNotRepeatable, DefinitionNotFound, InvalidRequest */
  async rerun(id: string, body: RerunDto, options: RunCreation): Promise<AnsweredRun> {
    let request: RunRequest;
    try {
      request = await this.#request(id, body);
    } catch (error) {
      // The run or its definition may have changed since the request was first sent.
      const { idempotency } = options;
      const earlier =
        error instanceof DomainError && idempotency && (await this.runs.findReplay(idempotency));
      if (!earlier) throw error;
      return earlier;
    }
    return this.runs.create(request, options);
  }

  async #request(
    id: string,
    { definition_version: version = 'same', changes }: RerunDto,
  ): Promise<RunRequest> {
    const { manager } = this.dataSource;
    const run = await this.rows.get(manager, id);
    if (!isTerminal(run.state))
      throw new RunNotRepeatable(`Run is ${run.state}: only a run that has ended is repeated`);
    const copy = await this.rows.findRequest(manager, run.id);
    const body = changed(copy?.body ?? requestOf(run), changes);
    if (run.definitionId !== null) {
      return { ...(await this.#ofDefinition(run, copy, version, body)), rerunOf: run.id };
    }
    if (version !== 'same') {
      throw new InvalidRequest(VALIDATION_FAILED, [
        'definition_version must be absent for a run without a definition',
      ]);
    }
    return { ...readItem(CreateRunDto, body), rerunOf: run.id };
  }

  async #ofDefinition(
    { definitionId, definitionVersion }: RunRecord,
    copy: RunRequestCopy | null,
    version: string,
    body: JsonObject,
  ): Promise<RunRequest> {
    const name = definitionId ?? '';
    const wanted =
      version === 'same' ? (definitionVersion ?? undefined) : version === 'latest' ? undefined : version;
    const definition = await this.definitions.find(name, wanted);
    if (version === 'same' && definition?.updatedAt.toISOString() !== copy?.definition_updated_at) {
      throw new RunNotRepeatable(
        `OpDefinition '${name}' version '${wanted}' was ${definition ? 'replaced' : 'deleted'} after the run was created: ` +
          'name a definition_version, or latest',
      );
    }
    if (!definition) throw new DefinitionNotFound(name, wanted);
    return toRunRequest(definition, readItem(CreateDefinitionRunDto, body));
  }
}

/** The body that asks for the run, by its stored fields. */
function requestOf(run: RunRecord): JsonObject {
  const shown = toOpRunDto(run, []);
  const { gpu_id: _gpu, gpu_ids: _gpus, cpu, ...constraints } = shown.constraints;
  const ramMb = run.extraConstraints?.grown?.ram_mb ?? run.ramMb;
  const asked = Object.entries({
    ...Object(run.options),
    image: run.image,
    priority: run.priority,
    inputs: run.inputs,
    outputs: run.outputsTemplate,
    constraints: { ...constraints, ...(constraints.cpu_millis === undefined && { cpu }), ram_mb: ramMb },
    retry_policy: shown.retry_policy,
    timeouts: shown.timeouts,
    event_delivery: shown.event_delivery,
    selector: run.selector,
    concurrency: shown.concurrency,
    labels: run.labels,
  });
  return Object(Object.fromEntries(asked.filter(([, value]) => (value ?? null) !== null)));
}

/** The request with the changes; a start, a name and what is null are left out. */
function changed(asked: JsonObject, changes: JsonObject = {}): JsonObject {
  const { start_at: _start, name: _name, ...kept } = asked;
  const labels = { ...objectOf(kept['labels']), ...objectOf(changes['labels']) };
  const isMerged = isJsonObject(changes['labels']);
  return { ...kept, ...changes, ...(isMerged && { labels }) };
}

function objectOf(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}
