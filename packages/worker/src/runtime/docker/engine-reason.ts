import { engineMessage, engineStatus } from './docker-engine.js';

/** The reason of a pull without permission. */
export const ACCESS_REFUSED = 'the registry refused access';

/**
 * Short reasons for what an engine says about a pull. Its own words hold what a registry answered, so only the worker's log gets
 * them.
 */
const PULL_REASONS: readonly (readonly [RegExp, string])[] = [
  [/toomanyrequests|too many requests/i, 'the registry limits requests'],
  [/unauthorized|denied|forbidden|authentication|no basic auth credentials/i, ACCESS_REFUSED],
  [/no space left/i, "the engine's disk is full"],
  [/no matching manifest|does not match the specified platform/i, 'it is not made for this kind of machine'],
];

/** Short reasons for what an engine says about the start of a container. Its own words may hold paths of the machine. */
const START_REASONS: readonly (readonly [RegExp, string])[] = [
  [/no such image/i, 'the worker does not have the image'],
  [
    /executable file not found|exec format error|attempted to invoke a command that was not|exec: /i,
    'its command cannot be executed',
  ],
  [/argument list too long/i, 'its environment and arguments are too large'],
  [/no command specified/i, 'the image has no command'],
  [/range of cpus|nano ?cpus/i, 'the machine does not have so many CPUs'],
  [/gpu|device driver|nvidia/i, 'the machine cannot provide the GPU'],
  [/no space left/i, "the engine's disk is full"],
  [/memory limit/i, 'its memory limit cannot be set'],
];

/** Whether the engine's disk is full. */
export function isDiskFull(error: unknown): boolean {
  return /no space left/i.test(engineMessage(error));
}

/** What the engine says when the image's command cannot be executed; engines answer with different statuses. */
const BAD_COMMAND =
  /executable file not found|exec format error|attempted to invoke a command that was not|argument list too long/i;

/** Whether everything but the image's command was in order. */
export function isBadCommand(error: unknown): boolean {
  return BAD_COMMAND.test(engineMessage(error));
}

/** What one machine lacks for a run, and another one may have. */
const LACKS = /range of cpus|nano ?cpus|gpu|device driver|nvidia|no such image/i;

export function lacksResource(error: unknown): boolean {
  return LACKS.test(engineMessage(error));
}

export function pullReason(message: string): string {
  return reasonIn(PULL_REASONS, message) ?? 'its registry did not provide it';
}

export function startReason(error: unknown): string {
  const found = reasonIn(START_REASONS, engineMessage(error));
  if (found !== null) return found;
  const status = engineStatus(error);
  return status === null ? 'the container engine did not answer' : `the container engine answered ${status}`;
}

function reasonIn(reasons: readonly (readonly [RegExp, string])[], message: string): string | null {
  return reasons.find(([pattern]) => pattern.test(message))?.[1] ?? null;
}
