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

/**
 * The limits of a program that runs may set, and the powers of two that workers may allow of each; `unlimited`: more than any
 * number as well.
 */
export const ULIMITS = {
  nofile: { least: 2 ** 10, most: 2 ** 30, unlimited: false },
  memlock: { least: 2 ** 16, most: 2 ** 40, unlimited: true },
  stack: { least: 2 ** 16, most: 2 ** 40, unlimited: true },
  core: { least: 2 ** 16, most: 2 ** 40, unlimited: true },
} as const;

/** Limits of a program by name; -1: none. */
export type Ulimits = { readonly [N in keyof typeof ULIMITS]?: number };

/** The capability of runs that set limits. */
const ULIMIT = 'ulimit:';

/** The name of a limit that runs may set; undefined: it is none. */
export function ulimitName(name: string): keyof typeof ULIMITS | undefined {
  return ULIMIT_NAMES.find((one) => one === name);
}

const ULIMIT_NAMES = ['nofile', 'memlock', 'stack', 'core'] as const satisfies (keyof typeof ULIMITS)[];

/** The powers of two that may be allowed of a limit. */
function stepsOf({ least, most }: { readonly least: number; readonly most: number }): number[] {
  return Array.from({ length: Math.log2(most / least) + 1 }, (_, index) => least * 2 ** index);
}

/** What a worker announces that allows so much. @param most each a power of two, or -1 */
export function ulimitCapabilities(most: Ulimits): `${typeof ULIMIT}${string}`[] {
  return ULIMIT_NAMES.flatMap((name) => {
    const { [name]: allowed } = most;
    if (allowed === undefined) return [];
    const steps = stepsOf(ULIMITS[name]).filter((step) => allowed === -1 || step <= allowed);
    return [...steps, ...(allowed === -1 ? ['unlimited'] : [])].map(
      (step) => `${ULIMIT}${name}:${step}` as const,
    );
  });
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
 * @param declared of the option: one that ends in `:` goes on with the value; with the limit of a number of seconds; with name and
 * least sufficient power of two of each limit of a program
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
  if (isJsonObject(value))
    return Object.entries(value).flatMap(([limit, most]) => ulimitStep(name, limit, most));
  if (typeof value !== 'number') return [`${name}${typeof value === 'string' ? value : ''}`];
  const limit = GRACE_LIMITS.find((seconds) => value <= seconds);
  return limit === undefined || limit === GRACE_LIMITS[0] ? [] : [`${name}${limit}`];
}

function ulimitStep(capability: string, limit: string, value: unknown): string[] {
  const name = ulimitName(limit);
  if (name === undefined || typeof value !== 'number') return [];
  const step = value === -1 ? 'unlimited' : stepsOf(ULIMITS[name]).find((one) => value <= one);
  return [`${capability}${name}:${step ?? 'unlimited'}`];
}
