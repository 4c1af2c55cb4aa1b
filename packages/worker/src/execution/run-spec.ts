import { ARRAY_INDEX, ARRAY_SIZE, SCHEDULED_FOR } from '@longshore/common/variable-names';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { RunFault, type ContainerFile, type RunSpec } from '../runtime/runtime.js';
import {
  carriedOptions,
  type ClaimedRun,
  type RunContainer,
  type RunSecrets,
  type RunView,
} from '../service-api/service-api.js';

/** Of files that say nothing else. */
export const DEFAULT_MODE = '0444';

/** What the container of a claimed run gets, without the variables that have values of secrets. @throws RunFault when the value of a file is missing */
export function runSpec(
  { id: runId, image, inputs, container, scheduledFor, array }: ClaimedRun,
  { currentAttempt: attempt, outputs: outputTemplate }: RunView,
  secrets: RunSecrets,
  trace: TraceContext | null,
): RunSpec {
  return {
    ...carriedOptions(container),
    runId,
    attempt,
    image,
    inputs,
    outputTemplate,
    env: {
      ...container.env,
      ...pathVariables(container),
      ...(scheduledFor !== undefined && { [SCHEDULED_FOR]: scheduledFor }),
      ...(array && { [ARRAY_INDEX]: String(array.index), [ARRAY_SIZE]: String(array.size) }),
    },
    files: containerFiles(container, secrets),
    trace,
  };
}

/** What a file of a run has; undefined: the value of a secret. */
export function contentOf({
  content,
  content_base64: base64,
}: RunContainer['files'][string]): string | Buffer | undefined {
  return base64 === undefined ? content : Buffer.from(base64, 'base64');
}

function containerFiles({ files }: RunContainer, { files: values }: RunSecrets): readonly ContainerFile[] {
  return Object.entries(files).map(([path, file]) => {
    const given = contentOf(file);
    const content = given ?? values[path];
    if (content === undefined)
      throw new RunFault(`The service gave no value for the file '${path}' of the run`);
    const { mode = DEFAULT_MODE } = file;
    return { path, content, mode: Number.parseInt(mode, 8), isSecret: given === undefined };
  });
}

/** The variables that tell the paths of files. */
function pathVariables({ files }: RunContainer): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(files).flatMap(([path, { env }]) => (env === undefined ? [] : [[env, path] as const])),
  );
}
