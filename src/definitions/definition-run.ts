import { lazyObject, stringifyJson } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import { InvalidRequest } from '../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import type { DefinitionEntity } from '../database/entities/definition.entity.js';
import type { RunRequestCopy } from '../database/entities/run.entity.js';
import { mergeConstraints, withoutAbsent } from '../runs/dto/constraints.dto.js';
import { mergeExecutionOptions } from '../runs/dto/execution-options.dto.js';
import { growthProblem, toRetryPolicyDto } from '../runs/dto/retry-policy.dto.js';
import {
  toEventDeliveryDto,
  toTimeoutsDto,
  type EventDeliveryDto,
} from '../runs/dto/timeouts-and-delivery.dto.js';
import { newId } from '../runs/machine/new-id.js';
import { isSource } from '../runs/options/output-sources.js';
import { bindOptions } from '../runs/options/stored-options.js';
import type { RunRequest } from '../runs/runs.service.js';
import { InvalidInputs } from './definitions.errors.js';
import type { CreateDefinitionRunDto } from './dto/create-definition.dto.js';
import { completeInputs } from './input-specs.js';
import { expandOptions } from './templates/expand-options.js';
import type { Facts } from './templates/template-text.js';

/**
 * The run of a definition that a body asks for.
 * @param facts what texts of the definition refer to; with `run.id`, the references of the body were replaced for this run
 * @throws InvalidInputs, InvalidRequest
 */
export function toRunRequest(
  definition: DefinitionEntity,
  body: CreateDefinitionRunDto,
  facts: Facts = {},
): RunRequest {
  const isLater = (body.depends_on ?? []).length > 0 ? isSource : undefined;
  const outcome = completeInputs(new Map(Object.entries(definition.inputSpecs)), body.inputs ?? {}, isLater);
  if ('problems' in outcome)
    throw new InvalidInputs([...outcome.problems, ...mergeSettings(definition, body).problems]);
  const { inputs, filled } = outcome;
  const id = facts['run.id'] ?? newId();
  // What the body replaces is not looked at.
  const replaced = new Set(
    ['command', 'args', 'mounts'].filter((name) => Array.isArray(Reflect.get(body, name))),
  );
  const kept = Object.entries(definition.options ?? {}).filter(([name]) => !replaced.has(name));
  const later = isLater ? laterProblems(Object.fromEntries(kept), inputs) : [];
  if (later.length > 0) throw new InvalidRequest(VALIDATION_FAILED, later);
  const options = expandOptions(Object.fromEntries(kept), {
    facts: { ...(body.name !== undefined && { 'run.name': body.name }), ...facts, 'run.id': id },
    inputs,
  });
  const copy = toRequestCopy(body, filled, definition.updatedAt.getTime());
  const bound = facts['run.id'] === undefined ? bindOptions(body, { id, name: body.name }) : body;
  return { ...mergeRequest({ ...definition, options }, { ...bound, inputs }, id), copy };
}

/** One line for each input that a text refers to and whose value is known only when the run is ready. */
export function laterProblems(texts: JsonObject, inputs: JsonObject): string[] {
  const names = Object.keys(inputs).filter((name) => isSource(inputs[name]));
  if (names.length === 0) return [];
  const text = stringifyJson(texts);
  return names.flatMap((name) =>
    text.includes(`\${inputs.${name}}`) || text.includes(`"input":${JSON.stringify(name)}`)
      ? [
          `command, args, env and mounts must not refer to \${inputs.${name}}: it is read from outputs, and then stands in the input file`,
        ]
      : [],
  );
}

/** What the row of a run of a definition does not tell of its request. @param filled names of the inputs that have their defaults */
export function toRequestCopy(
  {
    inputs: _inputs,
    outputs: _outputs,
    start_at: _start,
    depends_on: _dependsOn,
    name: _name,
    ...body
  }: CreateDefinitionRunDto,
  filled: readonly string[],
  updatedAt: number,
): RunRequestCopy {
  const given = lazyObject(stringifyJson(withoutAbsent(body)));
  return {
    ...(Object.keys(given).length > 0 && { body: given }),
    ...(filled.length > 0 && { filled: [...filled] }),
    definition_updated_at: updatedAt,
  };
}

/** What a version of a definition says of its runs, without references. */
type Template = Omit<
  DefinitionEntity,
  | 'description'
  | 'inputSpecs'
  | 'outputSpecs'
  | 'applied'
  | 'createdAt'
  | 'createdBy'
  | 'createdByName'
  | 'updatedAt'
  | 'updatedBy'
  | 'updatedByName'
  | 'creationOrder'
>;

/** The run that a body asks for over a template. @param body without references. @param id of the run. @throws InvalidRequest */
export function mergeRequest(template: Template, body: CreateDefinitionRunDto, id: string): RunRequest {
  const { constraints, policy, delivery, problems } = mergeSettings(template, body);
  const merged = mergeExecutionOptions(template, body);
  const all = [...('problems' in merged ? merged.problems : []), ...problems];
  if ('problems' in merged || 'problems' in constraints || 'problem' in delivery || all.length > 0)
    throw new InvalidRequest(VALIDATION_FAILED, all);
  return {
    id,
    image: template.image,
    priority: body.priority,
    inputs: body.inputs,
    outputs: body.outputs,
    constraints: constraints.merged,
    retry_policy: policy,
    timeouts: { ...toTimeoutsDto(template), ...withoutAbsent(body.timeouts ?? {}) },
    event_delivery: delivery.merged,
    ...merged,
    start_at: body.start_at,
    depends_on: body.depends_on,
    name: body.name,
    definition: { id: template.id, version: template.version },
  };
}

/** What does not depend on the inputs, and all that is wrong with it. */
function mergeSettings(template: Template, body: CreateDefinitionRunDto) {
  const constraints = mergeConstraints(template, body.constraints);
  const policy = { ...toRetryPolicyDto(template), ...withoutAbsent(body.retry_policy ?? {}) };
  const growth = 'problems' in constraints ? undefined : growthProblem(policy, constraints.merged);
  const delivery = mergeEventDelivery(template, body.event_delivery?.attributes);
  const problems = [
    ...('problems' in constraints ? constraints.problems : []),
    ...(growth === undefined ? [] : [growth]),
    ...('problem' in delivery ? [delivery.problem] : []),
  ];
  return { constraints, policy, delivery, problems };
}

/** The event delivery of a definition, with more attributes, which need a topic. */
function mergeEventDelivery(
  definition: Pick<Template, 'topic' | 'attributes'>,
  attributes: Record<string, string> | undefined,
): { readonly merged: EventDeliveryDto | null } | { readonly problem: string } {
  const delivery = toEventDeliveryDto(definition);
  if (attributes === undefined) return { merged: delivery };
  if (delivery !== null)
    return { merged: { ...delivery, attributes: { ...delivery.attributes, ...attributes } } };
  return { problem: 'event_delivery.attributes must be absent for a definition without a topic' };
}
