import { setTimeout as sleep } from 'node:timers/promises';
import { PLAIN } from './fake-service.js';
import { NO_CONSTRAINTS } from '../service-api/constraints.js';
import { carriedOptions } from '../service-api/service-api.js';
import type { JsonObject } from '@longshore/common/json/json-value';
import { CONTAINER_TIMING, type ContainerTiming } from '../runtime/docker/container/docker.container.js';
import { DockerRuntime, type DockerRuntimeOptions } from '../runtime/docker/docker.runtime.js';
import { ImagePolicy } from '../runtime/docker/images/image-policy.js';
import type {
  ContainerExit,
  ContainerLimits,
  ContainerSpec,
  LogLine,
  RunningContainer,
  RuntimeLog,
} from '../runtime/runtime.js';

/** Also images of the registry of the tests, which is at a loopback address. */
export const ANY_IMAGE = new ImagePolicy({ allowedImages: null, localRegistries: true });

export const QUICK_TIMING: ContainerTiming = {
  ...CONTAINER_TIMING,
  callMs: 5_000,
  waitMs: 5_000,
  outageMs: 3_000,
  retryMs: 5,
};

/** A runtime of the worker `w-1` on a fake engine. */
export function runtimeOn(
  { host }: { readonly host: string },
  options: Partial<DockerRuntimeOptions> = {},
): DockerRuntime {
  return new DockerRuntime({
    env: { DOCKER_HOST: host },
    workerId: 'w-1',
    instance: '1f3a90cc',
    log: new MemoryLog(),
    policy: ANY_IMAGE,
    timing: QUICK_TIMING,
    ...options,
  });
}

export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(2);
}

let count = 0;

/** The container of the next run, `run-N`. */
export function containerSpec(
  image: string,
  inputs: JsonObject = {},
  limits: Partial<ContainerLimits> = {},
): ContainerSpec {
  count += 1;
  return {
    ...carriedOptions(PLAIN),
    runId: `run-${count}`,
    attempt: 1,
    image,
    inputs,
    outputTemplate: {},
    limits: { ...NO_CONSTRAINTS, ...limits },
    env: {},
    secretNames: [],
    signedQueries: [],
    artifacts: null,
    files: [],
    trace: null,
  };
}

export async function readToEnd(
  container: RunningContainer,
): Promise<{ lines: LogLine[]; exit: ContainerExit }> {
  const lines: LogLine[] = [];
  for await (const { bytes: _, ...line } of container.lines) lines.push(line);
  return { lines, exit: await container.exit };
}

export function textsOf(lines: readonly LogLine[], stream: LogLine['stream']): string[] {
  return lines.filter((line) => line.stream === stream).map(({ text }) => text);
}

export class MemoryLog implements RuntimeLog {
  readonly warnings: { fields: object; message: string }[] = [];
  readonly infos: { fields: object; message: string }[] = [];

  info(fields: object, message: string): void {
    this.infos.push({ fields, message });
  }

  warn(fields: object, message: string): void {
    this.warnings.push({ fields, message });
  }
}
