import type { JobSpec } from '../launcher/engine.js';
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
    constraints: { cpu: 0, ramMb: 0, vramMb: 0, gpuId: null },
    selector: [],
    env: {},
    secrets: {},
    files: [],
    registry: null,
    trace: null,
    ...more,
  };
}
