import { engineMessage, engineStatus } from './docker-engine.js';
import { wantsOtherDriver } from './gpu-words.js';
import { EngineFault, RunFault, usesGpus, type ContainerLimits } from '../../runtime.js';

/**
 * Whose fault an error of the engine is. `run`: it would fail on every worker; `image`: the same, because the image cannot be
 * had; `machine`: another machine may execute the run; `engine`: this machine can execute nothing now; `unproven`: `run` if
 * the engine starts a container that no client controls, else `engine`.
 */
export type Blame = 'run' | 'image' | 'machine' | 'engine' | 'unproven';

type PullBlame = Exclude<Blame, 'run' | 'unproven'>;

export interface Verdict<B extends Blame = Blame> {
  readonly blame: B;
  /** Fit for a run's error_message: the engine's own words may hold paths of the machine and what a registry answered. */
  readonly reason: string;
}

type Rule<B extends Blame> = readonly [pattern: RegExp, blame: B, reason: string];

/** The reason of a pull that found no such image. */
export const NOT_FOUND = 'it was not found';

/** The errors of the system stand at the end, so that a name in the middle cannot imitate them. */
const DISK_FULL: Rule<'engine'> = [
  /no space left on device(?:: unknown)?$/i,
  'engine',
  "the engine's disk is full",
];
const NO_PERMISSION: Rule<'machine'> = [
  /(?:: permission denied|operation not permitted)(?:: unknown)?$/i,
  'machine',
  'the container engine lacks a permission',
];

const NO_PROGRESS = /^no progress for/;

/** What a registry or the network to it says, in the engine's words. The first rule that matches counts. */
const PULL_RULES: readonly Rule<PullBlame>[] = [
  DISK_FULL,
  NO_PERMISSION,
  [/toomanyrequests|too many requests/i, 'machine', 'the registry limits requests'],
  [
    /dial tcp|no such host|server misbehaving|connection (?:refused|reset)|timeout|deadline exceeded|context canceled|\bEOF\b|status:? 5\d\d/i,
    'machine',
    'its registry cannot be reached',
  ],
  [NO_PROGRESS, 'machine', 'its registry sent nothing more'],
  [
    /no matching manifest|does not match the specified platform/i,
    'machine',
    'it is not made for this kind of machine',
  ],
  [/content digest \S+ not found|unexpected status.* 404/i, 'image', 'its registry has not all of it'],
  [/not found|manifest unknown|does not exist|access denied/i, 'image', NOT_FOUND],
  [
    /unauthorized|denied|forbidden|authentication|no basic auth credentials/i,
    'image',
    'the registry refused access',
  ],
];

/**
 * Only with the status 400 the engine says that the run is wrong. Older engines, and all of them about images that they cannot
 * set up, answer with others, in words that can also be about their own files.
 */
const START_RULES: readonly Rule<Blame>[] = [
  DISK_FULL,
  [/^no such image/i, 'machine', 'the worker does not have the image'],
  [
    /executable file not found|exec format error|attempted to invoke a command that was not|exec: /i,
    'unproven',
    'its command cannot be executed',
  ],
  [/argument list too long/i, 'unproven', 'its environment and arguments are too large'],
  [/no command specified/i, 'unproven', 'the image has no command'],
  [/unable to find (?:user|group)/i, 'unproven', "the image's user does not exist"],
  [
    /cannot mount volume|error mounting|error processing tar file/i,
    'unproven',
    'a volume of the image is where the container needs something else',
  ],
  [/cannot mkdir|not a directory/i, 'unproven', "the image's working directory is no folder"],
];

/** What a machine lacks for the limits of a run. Only a run with such a limit may meet it: an image could have the same words. */
const LACKS_CPU: Rule<'machine'> = [
  /^(?:conflicting options: )?(?:range of cpus is|nano ?cpus)/i,
  'machine',
  'the machine does not have so many CPUs',
];
/** An error that a pull reported after it had begun. */
export class PullError extends Error {}

/** An answer of the engine to the files of a run. */
export class FilesError extends Error {
  readonly statusCode: number | null;

  constructor(answer: unknown) {
    super(engineMessage(answer), { cause: answer });
    this.statusCode = engineStatus(answer);
  }
}

/** The login of the worker at a registry cannot be read. The message is for the operator. */
export class LoginError extends Error {}

/** Whose fault a failed pull is, whatever words the name of the image has. The faults of an image may pass: a registry that is being restarted answers the same. */
export function pullVerdict(error: unknown, image = ''): Verdict<PullBlame> {
  if (error instanceof LoginError)
    return { blame: 'machine', reason: "the worker's login at its registry cannot be read" };
  const status = engineStatus(error);
  if (status === null && !(error instanceof PullError)) return noAnswer();
  const missing: Verdict<PullBlame> = { blame: 'image', reason: NOT_FOUND };
  const other: Verdict<PullBlame> = { blame: 'machine', reason: 'its registry did not provide it' };
  return (
    firstOf(PULL_RULES, engineMessage(error).replaceAll(namesOf(image), 'IMAGE')) ??
    (status === 404 ? missing : other)
  );
}

/** Whether the engine says that its disk is full. */
export function isDiskFull(error: unknown): boolean {
  return DISK_FULL[0].test(engineMessage(error));
}

/** Whose fault it is that a container was not created, filled or started, if not that of a machine whose GPUs fail. */
export function startVerdict(error: unknown, limits: ContainerLimits): Verdict {
  const status = engineStatus(error);
  if (status === null) return noAnswer();
  if (usesGpus(limits) && wantsOtherDriver(error))
    return { blame: 'machine', reason: 'the image wants another GPU driver than the machine has' };
  const rules = [...(limits.cpuLimitMillis > 0 ? [LACKS_CPU] : []), ...START_RULES];
  const known = firstOf(rules, engineMessage(error));
  if (known !== null && known.blame !== 'unproven') return known;
  const other = known?.reason ?? `the container engine answered ${status}`;
  const isConflict = error instanceof FilesError && (status === 400 || known !== null);
  const reason = isConflict
    ? 'the image has something else at the path of one of its files or mounts'
    : other;
  switch (status) {
    case 400:
      return { blame: 'run', reason };
    case 404:
      return { blame: 'machine', reason: 'it is gone' };
    case 503:
      return { blame: 'engine', reason };
    default:
      return { blame: 'unproven', reason };
  }
}

/** The error to throw. @param message fit for a run's error_message */
export function faultOf(blame: Exclude<Blame, 'unproven'>, message: string, cause: unknown): Error {
  switch (blame) {
    case 'image':
      return new RunFault(message, { cause, reported: 'image' });
    case 'run':
      return new RunFault(message, { cause });
    case 'machine':
      return new Error(message, { cause });
    case 'engine':
      return new EngineFault(message, { cause });
  }
}

function noAnswer(): Verdict<'engine'> {
  return { blame: 'engine', reason: 'the container engine did not answer' };
}

/** Finds the forms in which engines name an image: with and without its tag, its registry and the `library/` of Docker Hub. */
function namesOf(image: string): RegExp {
  const untagged = image.replace(/@.*$/, '').replace(/:[^/]*$/, '');
  const forms = [image, untagged, untagged.replace(/^[^/]*[.:][^/]*\//, '')].filter((form) => form !== '');
  const escaped = forms.map((form) => form.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`));
  return new RegExp(
    `(?<![a-z0-9-])(?:docker\\.io/)?(?:library/)?(?:${escaped.join('|') || '$^'})(?![a-z0-9-])`,
    'g',
  );
}

function firstOf<B extends Blame>(rules: readonly Rule<B>[], words: string): Verdict<B> | null {
  const found = rules.find(([pattern]) => pattern.test(words));
  return found === undefined ? null : { blame: found[1], reason: found[2] };
}
