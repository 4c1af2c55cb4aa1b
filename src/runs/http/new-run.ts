import type { JsonObject } from '@longshore/common/json/json-value';
import {
  toStoredOptions,
  type ConstraintsInputDto,
  type EventDeliveryDto,
  type RetryPolicyInputDto,
  type TimeoutsDto,
} from './dto/run-options.dto.js';
import { newId } from '../storage/new-id.js';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { NO_OPTIONS, type NewRun } from '../machine/run.js';

/** A request to create a run; absent fields take the documented defaults. */
export interface RunRequest {
  readonly image: string;
  readonly priority?: number | undefined;
  readonly inputs?: JsonObject | undefined;
  readonly outputs?: JsonObject | undefined;
  readonly constraints?: ConstraintsInputDto | undefined;
  readonly retry_policy?: RetryPolicyInputDto | undefined;
  readonly timeouts?: TimeoutsDto | undefined;
  readonly event_delivery?: EventDeliveryDto | null | undefined;
  readonly definition?: { readonly id: string; readonly version: string } | undefined;
}

/** The run that a request asks for, with new ids. @param trace the trace that the run belongs to */
export function newRun(request: RunRequest, trace: TraceContext | null): NewRun {
  const { event_delivery: delivery, definition } = request;
  return {
    id: newId(),
    attemptId: newId(),
    image: request.image,
    priority: request.priority ?? 0,
    inputs: request.inputs ?? {},
    outputsTemplate: request.outputs ?? {},
    ...toStoredOptions(request),
    topic: delivery?.topic ?? null,
    attributes: delivery?.attributes ?? null,
    definitionId: definition?.id ?? null,
    definitionVersion: definition?.version ?? null,
    ...NO_OPTIONS,
    traceparent: trace?.traceparent ?? null,
    tracestate: trace?.tracestate ?? null,
  };
}
