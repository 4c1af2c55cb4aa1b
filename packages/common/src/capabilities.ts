import { isJsonObject } from './json/json-value.js';

/** The part of constraints, as the API shows them, that not every worker can keep. */
export interface DemandingConstraints {
  readonly cpu: number;
  readonly cpu_millis?: number;
  readonly cpu_limit_millis?: number;
  readonly gpus?: number;
  readonly gpu_selector?: readonly string[];
  readonly shm_mb?: number;
}

/** What a worker must be able to do for the constraints of a run. */
export function capabilitiesOfConstraints(constraints: DemandingConstraints): string[] {
  const { cpu, gpus = 0, gpu_selector: tags = [], shm_mb: shmMb } = constraints;
  const { cpu_millis: request = cpu * 1000, cpu_limit_millis: limit = request } = constraints;
  return [
    ...(request % 1000 !== 0 || limit !== request ? ['cpu_millis'] : []),
    ...(gpus > 0 || tags.length > 0 ? ['gpus'] : []),
    ...(shmMb === undefined ? [] : ['shm']),
  ];
}

/**
 * What workers may allow as the longest grace, in seconds. A run needs the capability of the least one that its grace is
 * within; none for the first, which every worker allows that knows the option.
 */
export const GRACE_LIMITS = [300, 900, 1800, 3600] as const;

/** The capability of runs with a longer grace than the first of {@link GRACE_LIMITS}. */
const GRACE = 'stop_grace:';

/** What a worker announces that allows so long a grace. @param maxSeconds one of {@link GRACE_LIMITS} */
export function graceCapabilities(maxSeconds: number): `${typeof GRACE}${string}`[] {
  return GRACE_LIMITS.slice(1)
    .filter((limit) => limit <= maxSeconds)
    .map((limit) => `${GRACE}${limit}` as const);
}

/** A capability that an item of a list needs that has the member. */
export interface ItemCapability {
  /** One that ends in `:` goes on with the value of the member. */
  readonly name: string;
  readonly member: string;
  /** The member that is true where the worker need not write; without it, the capability ends in `:rw`. */
  readonly readOnly?: string;
}

/**
 * What a worker must be able to do for an option of a run.
 * @param declared of the option: one that ends in `:` goes on with the value; with the limit of a number of seconds
 * @param value of the option, which is set
 */
export function capabilitiesOfOption(
  declared: readonly (string | ItemCapability)[],
  value: unknown,
): string[] {
  return declared.flatMap((capability) => {
    if (typeof capability === 'string') return withValue(capability, value);
    const { name, member, readOnly } = capability;
    return (Array.isArray(value) ? value : []).filter(isJsonObject).flatMap((item) => {
      const decisive = item[member] ?? null;
      if (decisive === null) return [];
      const isWritten = readOnly !== undefined && item[readOnly] !== true;
      return withValue(name, decisive).map((needed) => `${needed}${isWritten ? ':rw' : ''}`);
    });
  });
}

function withValue(name: string, value: unknown): string[] {
  if (!name.endsWith(':')) return [name];
  if (typeof value !== 'number') return [`${name}${typeof value === 'string' ? value : ''}`];
  const limit = GRACE_LIMITS.find((seconds) => value <= seconds);
  return limit === undefined || limit === GRACE_LIMITS[0] ? [] : [`${name}${limit}`];
}
