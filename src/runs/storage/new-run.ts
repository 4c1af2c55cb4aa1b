import type { JsonObject } from '@longshore/common/json/json-value';
import {
  toStoredOptions,
  type ConstraintsInputDto,
  type EventDeliveryDto,
  type RetryPolicyInputDto,
  type TimeoutsDto,
} from '../http/dto/run-options.dto.js';
import { newId } from './new-id.js';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import type { NewRun } from '../machine/run.js';

/** What a run is created from; what is left out takes the documented default. */
export interface RunRequest {
  readonly image: string;
  readonly priority?: number | undefined;
  readonly inputs?: JsonObject | undefined;
  /** Template of the outputs. */
  readonly outputs?: JsonObject | undefined;
  readonly constraints?: ConstraintsInputDto | undefined;
  readonly retry_policy?: RetryPolicyInputDto | undefined;
  readonly timeouts?: TimeoutsDto | undefined;
  readonly event_delivery?: EventDeliveryDto | null | undefined;
  readonly definition?: { readonly id: string; readonly version: string } | undefined;
}

/** The run that a request asks for, with fresh ids. @param trace where in a trace it belongs */
export function newRun(request: RunRequest, trace: TraceContext | null): NewRun {
  const { event_delivery: delivery } = request;
  return {
    id: newId(),
    attemptId: newId(),
    image: request.image,
    priority: request.priority ?? 0,
    inputs: request.inputs ?? {},
    outputsTemplate: request.outputs ?? {},
    ...toStoredOptions(request),
    eventDelivery: delivery
      ? {
          topic: delivery.topic,
          ...(delivery.attributes === undefined ? {} : { attributes: delivery.attributes }),
        }
      : null,
    definition: request.definition ?? null,
    trace,
  };
}
