import type { JsonObject } from '@longshore/common/json/json-value';
import type { Constraints } from '../service-api/constraints.js';
import type { RunArtifacts } from '../service-api/run-artifacts.js';
import type { RunContainer, RunEvent } from '../service-api/service-api.js';

/** A run of a fake service. */
export interface FakeRun {
  readonly id: string;
  image: string;
  inputs: JsonObject;
  outputs: JsonObject;
  constraints: Constraints;
  container: RunContainer;
  artifacts?: RunArtifacts;
  state: string;
  attempt: number;
  maxAttempts: number;
  failures: number;
  workerId: string | null;
  selector: readonly string[];
  mustStartInTime: boolean;
  readonly timeline: (RunEvent & { readonly attempt: number })[];
}
