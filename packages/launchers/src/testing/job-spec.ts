import type { JobSpec } from '../launcher/engine.js';
import { NO_CONSTRAINTS } from '@longshore/worker/service-api/constraints';
import { carriedOptions } from '@longshore/worker/service-api/service-api';
import { PLAIN } from '@longshore/worker/testing/fake-service';

/** The second attempt of a run without requirements. */
export function jobSpec(more: Partial<JobSpec> = {}): JobSpec {
  return {
    ...carriedOptions(PLAIN),
    runId: 'r1',
    attempt: 2,
    image: 'img:1',
    inputs: {},
    outputTemplate: {},
    constraints: NO_CONSTRAINTS,
    selector: [],
    env: {},
    secrets: {},
    files: [],
    registry: null,
    trace: null,
    memo: { signedQueries: [], notes: [] },
    artifacts: null,
    signedFiles: null,
    ...more,
  };
}
