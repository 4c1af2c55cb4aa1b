import type { JsonObject } from '@longshore/common/json/json-value';
import type { RequestedConstraints } from './dto/constraints.dto.js';
import { toStoredOptions, type EventDeliveryDto, type TimeoutsDto } from './dto/run-options.dto.js';
import type { RequestedRetryPolicy } from './dto/retry-policy.dto.js';
import {
  readStartTime,
  toStoredExecutionOptions,
  type RequestedExecutionOptions,
} from './dto/execution-options.dto.js';
import { newId } from './machine/new-id.js';
import { bindOptions } from './options/option-values.js';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import type { NewRun } from './machine/run.js';
import { requirementIdOf, requirementsOf } from './requirements.js';

/** A request to create a run; absent fields take the documented defaults. */
export interface RunRequest extends RequestedExecutionOptions {
  /** A new one unless given. */
  readonly id?: string | undefined;
  readonly image: string;
  readonly priority?: number | undefined;
  readonly inputs?: JsonObject | undefined;
  readonly outputs?: JsonObject | undefined;
  readonly constraints?: RequestedConstraints | undefined;
  readonly retry_policy?: RequestedRetryPolicy | undefined;
  readonly timeouts?: TimeoutsDto | undefined;
  readonly start_at?: string | undefined;
  readonly name?: string | undefined;
  readonly event_delivery?: EventDeliveryDto | null | undefined;
  readonly definition?: { readonly id: string; readonly version: string } | undefined;
}

/** The run that a request asks for, with new ids. @param trace the trace that the run belongs to */
export function newRun(request: RunRequest, trace: TraceContext | null): NewRun {
  const { event_delivery: delivery, definition, start_at: startAt } = request;
  const id = request.id ?? newId();
  // The values of inputs, which those of a definition may have, are not looked at again.
  const bound = definition === undefined ? bindOptions(request, id) : request;
  const stored = toStoredOptions(request);
  const options = toStoredExecutionOptions(bound);
  const { cpu, extraConstraints } = stored;
  // The spreads come last: V8 adds members to a copy slowly.
  return {
    id,
    attemptId: newId(),
    image: request.image,
    priority: request.priority ?? 0,
    inputs: request.inputs ?? {},
    outputsTemplate: request.outputs ?? {},
    requirementId: requirementIdOf(requirementsOf({ cpu, extraConstraints, ...options })),
    startAt: startAt === undefined ? null : readStartTime(startAt),
    name: request.name ?? null,
    topic: delivery?.topic ?? null,
    attributes: delivery?.attributes ?? null,
    definitionId: definition?.id ?? null,
    definitionVersion: definition?.version ?? null,
    traceparent: trace?.traceparent ?? null,
    tracestate: trace?.tracestate ?? null,
    ...stored,
    ...options,
  };
}
