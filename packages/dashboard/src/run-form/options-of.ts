import type { Schemas } from '@longshore/client';
import { RUN_OPTIONS, type RunOption } from '@longshore/client/constants';

type Options = Pick<Schemas['OpRun'], RunOption['name']>;

/** The options of a run or a definition that only the worker reads. */
export function optionsOf(shown: Options): Options {
  return Object(Object.fromEntries(RUN_OPTIONS.map(({ name }) => [name, shown[name]])));
}

/** Those of them that are set; undefined when none is. */
export function containerOf(shown: Readonly<Record<RunOption['name'], unknown>>): object | undefined {
  const set = RUN_OPTIONS.flatMap(({ name, default: unset }) => {
    const value = shown[name];
    const isEmpty = value === null || (typeof value === 'object' && Object.keys(Object(value)).length === 0);
    return isEmpty || value === unset ? [] : [[name, value] as const];
  });
  return set.length === 0 ? undefined : Object.fromEntries(set);
}

/** Constraints as a request has them: without the GPUs that the scheduler chose, and CPU once, in the exact form if there is one. */
export function requestedOf({ gpu_id: _gpu, gpu_ids: _gpus, cpu, ...constraints }: Schemas['Constraints']) {
  return constraints.cpu_millis === undefined ? { ...constraints, cpu } : constraints;
}
