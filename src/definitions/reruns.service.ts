import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { composeJson, lazyObject, memberTexts, stringifyJson } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';
import { DomainError, InvalidRequest } from '../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { readItem } from '../common/http/validation/bulk-items.js';
import type { RunRequestCopy } from '../database/entities/run.entity.js';
import { toOpRunDto, type RunPreviewDto } from '../runs/dto/op-run.dto.js';
import { CreateRunDto } from '../runs/dto/run-requests.dto.js';
import { newId } from '../runs/machine/new-id.js';
import { isTerminal } from '../runs/machine/run-state.js';
import type { RunRecord } from '../runs/machine/run.js';
import {
  RunsService,
  type AnsweredRun,
  type RunCreation,
  type RunOrigin,
  type RunRequest,
} from '../runs/runs.service.js';
import { RunRepository } from '../runs/storage/run.repository.js';
import { bindOptions } from '../runs/options/stored-options.js';
import { mergeRequest, toRequestCopy, toRunRequest } from './definition-run.js';
import { DefinitionRepository } from './definition.repository.js';
import { DefinitionNotFound, RunNotRepeatable } from './definitions.errors.js';
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

  /** The run that {@link rerun} would create, with its errors. */
  async preview(id: string, body: RerunDto, origin: RunOrigin): Promise<RunPreviewDto> {
    return this.runs.preview(await this.#request(id, body), origin);
  }

  async #request(
    id: string,
    { definition_version: version = 'same', changes = {} }: RerunDto,
  ): Promise<RunRequest> {
    const { manager } = this.dataSource;
    const run = await this.rows.get(manager, id);
    if (!isTerminal(run.state))
      throw new RunNotRepeatable(`Run is ${run.state}: only a run that has ended is repeated`);
    const copy = (await this.rows.findRequest(manager, run.id)) ?? {};
    if (run.definitionId !== null) {
      return { ...(await this.#ofDefinition(run, copy, version, changes)), rerunOf: run.id };
    }
    if (version !== 'same') {
      throw new InvalidRequest(VALIDATION_FAILED, [
        'definition_version must be absent for a run without a definition',
      ]);
    }
    const body = changed({ ...requestOf(run), ...copy.body }, changes);
    return { ...readItem(CreateRunDto, body), rerunOf: run.id };
  }

  async #ofDefinition(
    run: RunRecord,
    copy: RunRequestCopy,
    version: string,
    changes: JsonObject,
  ): Promise<RunRequest> {
    const name = run.definitionId ?? '';
    const isSame = version === 'same';
    const wanted = isSame ? (run.definitionVersion ?? '') : version === 'latest' ? undefined : version;
    const definition = await this.definitions.find(name, wanted);
    const body = readItem(CreateDefinitionRunDto, changed(definitionRequestOf(run, copy), changes));
    if (isSame && definition?.updatedAt.getTime() !== copy.definition_updated_at) {
      return fromStored(run, copy, body, changes);
    }
    if (!definition) throw new DefinitionNotFound(name, wanted);
    return toRunRequest(definition, body);
  }
}

/**
 * The run of a version that was replaced or deleted since: what the run has, with changes over it.
 * @param body what the changed request says beside the definition
 * @throws RunNotRepeatable for a change that only the version could tell the effect of
 */
function fromStored(
  run: RunRecord,
  copy: RunRequestCopy,
  body: CreateDefinitionRunDto,
  changes: JsonObject,
): RunRequest {
  const unknown = Object.keys(changes).filter((name) => name === 'inputs' || changes[name] === null);
  if (unknown.length > 0) {
    throw new RunNotRepeatable(
      `OpDefinition '${run.definitionId}' version '${run.definitionVersion}' was replaced or deleted after the run was created: ` +
        `to change ${unknown.join(', ')}, name a definition_version, or latest`,
    );
  }
  const id = newId();
  const { grown, ...extra } = run.extraConstraints ?? {};
  const template = {
    ...run,
    id: run.definitionId ?? '',
    version: run.definitionVersion ?? '',
    ramMb: grown?.ram_mb ?? run.ramMb,
    extraConstraints: extra,
    // References to the id of the run have been replaced.
    options: run.options && lazyObject(stringifyJson(run.options).replaceAll(run.id, id)),
  };
  const over = readItem(CreateDefinitionRunDto, {
    ...changes,
    inputs: run.inputs,
    outputs: body.outputs,
    priority: body.priority,
  });
  const { filled = [], definition_updated_at: updatedAt = 0 } = copy;
  return {
    ...mergeRequest(template, bindOptions(over, { id, name: over.name }), id),
    copy: toRequestCopy(body, filled, updatedAt),
  };
}

/** The body that asks for the run of a definition, beside what the definition says. */
function definitionRequestOf(run: RunRecord, { body, filled = [] }: RunRequestCopy): JsonObject {
  const given = [...memberTexts(run.inputs)].filter(([name]) => !filled.includes(name));
  return { inputs: composeJson(given), outputs: run.outputsTemplate, ...body };
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
function changed(asked: JsonObject, changes: JsonObject): JsonObject {
  const { start_at: _start, name: _name, ...kept } = asked;
  const labels = { ...objectOf(kept['labels']), ...objectOf(changes['labels']) };
  const isMerged = isJsonObject(changes['labels']);
  return { ...kept, ...changes, ...(isMerged && { labels }) };
}

function objectOf(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}
