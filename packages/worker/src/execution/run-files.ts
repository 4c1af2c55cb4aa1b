import { RunFault, type ContainerFile } from '../runtime/runtime.js';
import type { RunContainer, RunSecrets } from '../service-api/service-api.js';

const DEFAULT_MODE = '0444';

/** The files that the container of a run finds, with the values of secrets. @throws RunFault when a value is missing */
export function containerFiles(
  { files }: RunContainer,
  { files: values }: Pick<RunSecrets, 'files'>,
): readonly ContainerFile[] {
  return Object.entries(files).map(([path, { content, mode = DEFAULT_MODE }]) => {
    const isSecret = content === undefined;
    const text = isSecret ? values[path] : content;
    if (text === undefined) throw new RunFault(`The service gave no value for the file '${path}' of the run`);
    return { path, content: text, mode: Number.parseInt(mode, 8), isSecret };
  });
}

/** The variables that tell the paths of files. */
export function pathVariables({ files }: RunContainer): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(files).flatMap(([path, { env }]) => (env === undefined ? [] : [[env, path] as const])),
  );
}
