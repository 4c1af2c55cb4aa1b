import type { JobSpec } from '../launcher/engine.js';
import { carriedOptions } from '../service-api/service-api.js';
import { PLAIN } from './fake-service.js';

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
    registry: null,
    trace: null,
    ...more,
  };
}
