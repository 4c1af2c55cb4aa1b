import { assertNever } from '@longshore/common/json/assert-never';
import type { Ability } from '../../runs/machine/event-types.js';
import type { Run } from '../../runs/machine/run.js';
import {
  meets,
  requirementList,
  suitableGpus,
  type DescribedWorker,
  type Requirements,
} from '../../runs/requirements.js';
import type {
  ExplainedEndDto,
  ExplainedEndingDto,
  ExplainedEngineDto,
  RunExplanationDto,
} from './explain.dto.js';

/** Code points of an error message in the summary. */
const MAX_MESSAGE = 200;

/** Ids of runs in the summary. */
const MAX_IDS = 3;

/** How an attempt failed, and with which worker. */
export type FailedAttempt = Pick<ExplainedEndDto, 'worker_id' | 'cause' | 'exit_code' | 'error_message'>;

/** RAM in MB that a run asked for at first, and that its attempt needs. */
export interface Outgrown {
  readonly from: number;
  readonly to: number;
}

/** An explanation without its summary. */
export type Explanation = Omit<RunExplanationDto, 'summary'>;

/** What the summary says beyond the explanation. */
export interface Background {
  /** The attempt before, of a run in back-off. */
  readonly failed: FailedAttempt | null;
  /** When the worker that the run avoids may get it, too. */
  readonly avoidedUntil: Date | null;
  /** What the run requires of a worker. */
  readonly required: Requirements;
  readonly losses: Pick<Run, 'reclaims' | 'repeatedLosses'>;
  /** Whether the run waits for the end of another run. */
  readonly isHeld: boolean;
  /** How many runs and groups the run depends on, while one of them has not ended. */
  readonly dependencies: number;
  /** The active workers. */
  readonly active: readonly DescribedWorker[];
  /** Of a run that has grown beyond all of them. */
  readonly outgrown: Outgrown | null;
}

/** The explanation in one or two sentences. */
export function summarise(explanation: Explanation, background: Background): string {
  const { schedule, missing_secrets: missing } = explanation;
  const origin = schedule === null ? '' : ` Made by schedule '${schedule.id}' for ${schedule.time}.`;
  return `${situation(explanation, background)}${lackingSecrets(missing)}${origin}`;
}

function lackingSecrets(names: readonly string[]): string {
  if (names.length === 0) return '';
  const [first, ...others] = names;
  return others.length === 0
    ? ` The secret '${first}' that it uses does not exist: an attempt would fail.`
    : ` The secret '${first}' and ${others.length} more that it uses do not exist: an attempt would fail.`;
}

function situation(explanation: Explanation, background: Background): string {
  const { failed } = background;
  const { state, queue, holder, ended, schedule, reason, paused_by: pauses } = explanation;
  switch (state) {
    case 'PENDING':
      if (reason === 'dependency') return awaiting(explanation.waiting_for, background.dependencies);
      if (background.isHeld)
        return `Waits until the run of schedule '${schedule?.id}' before it has ended (overlap: queue_one)${reason === 'paused' ? `; ${paused(pauses)}` : ''}.`;
      if (queue?.start_at) return `Not assigned before its start_at, ${queue.start_at}.`;
      return queue?.not_before
        ? `In back-off until ${queue.not_before}${failed ? attemptFailed(explanation.attempt - 1, failed) : ''}${repeated(background.losses)}.`
        : waiting(explanation, background);
    case 'ASSIGNED':
    case 'RUNNING':
      return holder?.worker_id ? held(explanation, holder.worker_id) : `Put into ${state} by an admin.`;
    case 'COMPLETED':
    case 'FAILED':
    case 'CANCELLED': {
      if (!ended) return `${state}.`;
      const by = ended.event === null ? 'set by an admin' : `by the event ${ended.event}`;
      const where = ended.worker_id === null ? '' : `, last with worker '${ended.worker_id}'`;
      return `${state} ${by} at ${ended.at}${where}${failure(ended)}.`;
    }
    default:
      return assertNever(state);
  }
}

function awaiting(ends: RunExplanationDto['waiting_for'], total: number): string {
  if (ends.length === 0) return 'All that it depends on has ended: its inputs are being read from outputs.';
  const names = ends.slice(0, MAX_IDS).map(({ run, group, state, schedule, nominal_at: at }) => {
    if (run === null) return `what schedule '${schedule}' makes for ${at} (not made yet)`;
    const name = run === undefined ? `group ${group}` : `run ${run}`;
    const source = schedule === undefined ? '' : ` of schedule '${schedule}'`;
    return `${name}${source} (${state ?? 'removed'})`;
  });
  const more = ends.length - names.length;
  const kinds = ends.every(({ run }) => typeof run === 'string') ? 'runs' : 'runs and groups';
  const of = total === 1 ? '' : `${ends.length} of ${total} ${kinds}: `;
  return `Waits for ${of}${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}.`;
}

function attemptFailed(attempt: number, failed: FailedAttempt): string {
  const where = failed.worker_id === null ? '' : ` with worker '${failed.worker_id}'`;
  return `: attempt ${attempt} failed${where}${failure(failed)}`;
}

function waiting(explanation: Explanation, background: Background): string {
  const { queue, counts } = explanation;
  const position = queue?.position ?? null;
  if (position === null || !counts) return 'Waiting.';
  const place = queue?.position_is_exact
    ? `Number ${position} in the queue`
    : `At or after position ${position} in the queue`;
  return `${place}; ${chances(counts, explanation, background)}${reserved(queue?.reserved_for ?? null)}${avoids(queue?.avoided_worker ?? null, background.avoidedUntil)}${repeated(background.losses)}.`;
}

/** Why a run that may be claimed, or is assigned, has not been started: a part of a sentence. It holds for all runs that are alike. */
export function whyNotStarted(explanation: Explanation, background: Background): string {
  if (explanation.state === 'PENDING' && explanation.counts)
    return chances(explanation.counts, explanation, background);
  const summary = situation(explanation, background);
  return summary.charAt(0).toLowerCase() + summary.slice(1, -1);
}

/** @param explanation its most able workers come first */
function chances(
  counts: NonNullable<RunExplanationDto['counts']>,
  { workers: all, strategy, concurrency, reason, paused_by: pauses }: Explanation,
  { active: offers, required, outgrown }: Background,
): string {
  const { active, draining, not_claiming: notClaiming, able_now: now, able_ever: ever } = counts;
  if (reason === 'paused') return paused(pauses);
  if (concurrency && reason === 'concurrency') return keyIsFull(concurrency);
  if (active === 0) return 'no worker is active';
  if (!offers.some((offer) => meets(offer, required)))
    return `${unmetWords(offers, required)}${sayingUnable(all)}`;
  const refusals = `the strategy '${strategy}' ignores resources, and a worker that has too little will refuse it`;
  const isAssignedAnyway = all.some(
    ({ can_take_now: canTakeNow, could_ever: couldEver }) => canTakeNow && !couldEver,
  );
  if (!all.some(({ could_ever: couldEver }) => couldEver)) {
    const those = requirementList(required).length > 0 ? ` with ${requirementWords(required)}` : '';
    if (outgrown !== null) {
      const lack = `no active worker has ${megabytes(outgrown.to)} of RAM: the run grew from ${megabytes(outgrown.from)}`;
      return isAssignedAnyway ? `${lack}; ${refusals}` : lack;
    }
    return isAssignedAnyway
      ? `no active worker${those} could ever execute it: ${refusals}`
      : `no active worker${those} could ever take it${sayingUnable(all)}`;
  }
  if (active === draining) return 'every active worker is draining';
  if (active === draining + notClaiming) return `no active worker claims${saying(all)}`;
  if (now > 0)
    return `${workers(now)} can take it as soon as it is their turn${isAssignedAnyway ? `: ${refusals}` : ''}`;
  if (ever > 0) return `${workers(ever)} could take it, but none of them now${endingOn(all)}`;
  if (notClaiming > 0) return `only workers that do not claim could take it${saying(all)}`;
  return 'only draining workers could take it';
}

/** What ended runs still hold of the workers that could take the run otherwise. */
function endingOn(all: RunExplanationDto['workers']): string {
  const ending = all.flatMap((worker) => (worker.could_ever && worker.ending ? [worker.ending] : []));
  if (ending.length === 0) return '';
  const sum = (amount: (one: ExplainedEndingDto) => number): number =>
    ending.reduce((total, one) => total + amount(one), 0);
  return `; ${endingWords({
    programs: sum(({ programs }) => programs),
    cpu_millis: sum(({ cpu_millis: cpuMillis }) => cpuMillis),
    ram_mb: sum(({ ram_mb: ramMb }) => ramMb),
    gpus: sum(({ gpus }) => gpus),
  })}`;
}

function endingWords({ programs, cpu_millis: cpuMillis, ram_mb: ramMb, gpus }: ExplainedEndingDto): string {
  const amounts = [
    ...(cpuMillis > 0 ? [`${cpuMillis / 1000} CPU`] : []),
    ...(ramMb > 0 ? [`${megabytes(ramMb)} of RAM`] : []),
    ...(gpus > 0 ? [`${gpus} ${gpus === 1 ? 'GPU' : 'GPUs'}`] : []),
  ];
  const who =
    programs === 1
      ? '1 ending program of an ended run holds'
      : `${programs} ending programs of ended runs hold`;
  return `${who} ${amounts.join(', ') || 'a place'}`;
}

/** The reasons of the most able worker that does not claim. */
function saying(all: RunExplanationDto['workers']): string {
  const worker = all.find(({ draining, not_claiming: reasons }) => !draining && reasons.length > 0);
  if (worker === undefined) return '';
  const reasons = worker.not_claiming.map(({ reason, message }) => {
    const line = firstLine(message);
    return `${reason.replaceAll('_', ' ')}${line === '' ? '' : ` (${line})`}`;
  });
  return `: worker '${worker.id}' says ${reasons.join(', ')}`;
}

/** What a machine must be able to do to have the resource. */
const ABILITY_OF: Readonly<Partial<Record<string, Ability>>> = {
  gpus: 'gpus',
  vram_mb: 'gpus',
  gpu_selector: 'gpus',
  ram_mb: 'ram_limit',
};

/** What the most able worker says that its machine is unable to do, if the run needs it. */
function sayingUnable(all: RunExplanationDto['workers']): string {
  for (const { id, unable, obstacles } of all) {
    const said = unable.find(({ ability }) =>
      obstacles.some(({ resource }) => ABILITY_OF[resource] === ability),
    );
    if (said === undefined) continue;
    const line = firstLine(said.message);
    return `: worker '${id}' is unable to provide ${ABILITY_WORDS[said.ability]}${line === '' ? '' : ` (${line})`}`;
  }
  return '';
}

const ABILITY_WORDS: Readonly<Record<Ability, string>> = {
  gpus: 'GPUs',
  ram_limit: 'a limit of memory',
  cpu_limit: 'a limit of CPU',
  pids_limit: 'a limit of processes',
};

function paused([first, ...others]: RunExplanationDto['paused_by']): string {
  if (!first) return 'a pause holds it';
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  const until = first.until === null ? '' : ` until ${first.until}`;
  return `the pause '${first.name}'${more} holds it${until}: ${first.reason.replace(/\.$/, '')}`;
}

function keyIsFull({
  key,
  limit,
  executing,
  holders,
}: NonNullable<RunExplanationDto['concurrency']>): string {
  if (executing < limit)
    return `other runs of its concurrency key '${key}' go first, at most ${limit} at once`;
  const ids = holders.slice(0, MAX_IDS).map(({ run_id: id }) => id);
  const more = executing - ids.length;
  const by = `${ids.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  return `its concurrency key '${key}' is at its limit of ${limit}, held by ${executing === 1 ? 'run' : 'runs'} ${by}`;
}

function reserved(workerId: string | null): string {
  return workerId === null ? '' : `; worker '${workerId}' is reserved for it`;
}

function avoids(workerId: string | null, until: Date | null): string {
  return workerId === null || until === null
    ? ''
    : `; it avoids worker '${workerId}', where the attempt before failed by the infrastructure, until ${until.toISOString()}`;
}

function repeated({ reclaims, repeatedLosses }: Pick<Run, 'reclaims' | 'repeatedLosses'>): string {
  return repeatedLosses === 0
    ? ''
    : `; its ${reclaims} losses in a row count as ${reclaims - repeatedLosses}, because the same worker repeated the others`;
}

/** The cause of a failure and the first line of its message or, without one, the exit code. */
function failure({ cause, exit_code: code, error_message: message }: FailedAttempt): string {
  const line = firstLine(message ?? '');
  const why = line === '' ? (code === null ? '' : `, exit code ${code}`) : `: ${line}`;
  return cause === null && why === '' ? '' : `; cause ${cause ?? 'unknown'}${why}`;
}

/** The beginning of the first line, without a full stop. */
function firstLine(text: string): string {
  const [first = ''] = text.split('\n', 1);
  // Our worker's message goes on with the log, which is in `error_message`.
  return Array.from(first.slice(0, 2 * MAX_MESSAGE))
    .slice(0, MAX_MESSAGE)
    .join('')
    .replace(/\.?(?: Its last log lines:)?$/, '');
}

function held({ state, holder }: Explanation, workerId: string): string {
  const who = `${state === 'ASSIGNED' ? 'Assigned to' : 'Running on'} worker '${workerId}'`;
  const { engine = null, preparing = null, last_heartbeat_at: lastAt = null } = holder ?? {};
  const job = engine === null ? '' : `submitted it to ${engine.name} as ${engine.id}`;
  if (!holder || lastAt === null)
    return `${who}, which has not been heard of${job === '' ? '' : ` since it ${job}`}.`;
  if (holder.away_until !== null)
    return `${who}, which is away until ${holder.away_until}, such as for an upgrade${job === '' ? '' : `, and had ${job}`}: the run goes on.`;
  if (!holder.is_active)
    return `${who}, which is stale${job === '' ? '' : ` and had ${job}`}: its last heartbeat was at ${lastAt}.`;
  if (engine !== null) {
    const waits = state === 'ASSIGNED' ? `; it waits there${reasonOf(engine)}` : '';
    return `${who}, which ${job}${waits}.`;
  }
  if (preparing !== null)
    return `${who}, which has prepared it since ${preparing.since}: ${firstLine(preparing.what)}.`;
  const beside = besideEnding(holder);
  if (!holder.reported_running)
    return `${who}, which is active but has not reported the run as running yet${beside}.`;
  return `${who}, which is active${beside}.`;
}

function besideEnding({ ending }: NonNullable<RunExplanationDto['holder']>): string {
  return ending === null ? '' : `; ${endingWords(ending)} there`;
}

function reasonOf({ reason }: ExplainedEngineDto): string {
  const line = firstLine(reason ?? '');
  return line === '' ? '' : `: ${line}`;
}

function megabytes(mb: number): string {
  return `${mb.toLocaleString('en-US')} MB`;
}

function workers(count: number): string {
  return count === 1 ? '1 worker' : `${count} workers`;
}

const VOLUME = /^volume:([^:]+)(:rw)?$/;

/** Says which tags, also of GPUs, volumes and capabilities none of the workers has or, without such, that none has all of them. */
export function unmetWords(offers: readonly DescribedWorker[], required: Requirements): string {
  const tags = required.tags.filter((tag) => !offers.some((offer) => offer.tags.includes(tag)));
  const gpuTags = required.gpuTags.filter(
    (tag) => !offers.some(({ gpus }) => gpus.some((gpu) => gpu.tags.includes(tag))),
  );
  const { gpus: wanted } = required;
  const lacksGpus = wanted !== null && !offers.some((offer) => suitableGpus(offer, required) >= wanted.count);
  const isOffered = (name: string): boolean => offers.some(({ capabilities }) => capabilities.includes(name));
  const missing = required.capabilities.filter((name) => !isOffered(name));
  const capabilities = missing.filter((name) => !VOLUME.test(name));
  const absent = [
    ...(tags.length > 0 ? [`no active worker has ${named('tag', 'tags', tags)}`] : []),
    ...missing.flatMap((name) => {
      const [, volume] = VOLUME.exec(name) ?? [];
      if (volume === undefined) return [];
      const isReadOnly = isOffered(`volume:${volume}`);
      return `no active worker ${isReadOnly ? 'lets runs write into' : 'offers'} the volume '${volume}'`;
    }),
    ...(capabilities.length > 0
      ? [`no active worker announces ${named('capability', 'capabilities', capabilities)}`]
      : []),
    ...(gpuTags.length > 0 ? [`no GPU of an active worker has ${named('tag', 'tags', gpuTags)}`] : []),
    ...(lacksGpus && gpuTags.length === 0 ? [`no active worker has ${gpuWords(required)}`] : []),
  ];
  return [...new Set(absent)].join(', and ') || `no active worker has all of ${requirementWords(required)}`;
}

/** The tags, volumes and capabilities by name, and the GPUs. */
export function requirementWords(required: Requirements): string {
  const { tags, capabilities, gpus } = required;
  const volumes = capabilities.flatMap((name) => VOLUME.exec(name)?.[1] ?? []);
  const others = capabilities.filter((name) => !VOLUME.test(name));
  return [
    ...(tags.length > 0 ? [named('tag', 'tags', tags)] : []),
    ...(volumes.length > 0 ? [named('volume', 'volumes', [...new Set(volumes)])] : []),
    ...(others.length > 0 ? [named('capability', 'capabilities', others)] : []),
    ...(gpus === null ? [] : [gpuWords(required)]),
  ].join(' and ');
}

/** The GPUs that are required, in words. */
function gpuWords({ gpus, gpuTags }: Requirements): string {
  const { count, vramMb } = gpus ?? { count: 1, vramMb: 0 };
  const memory = vramMb === 0 ? '' : ` of ${megabytes(vramMb)} or more`;
  const tags = gpuTags.length === 0 ? '' : ` with ${named('tag', 'tags', gpuTags)}`;
  return `${count === 1 ? 'a GPU' : `${count} GPUs`}${memory}${tags}`;
}

function named(one: string, several: string, names: readonly string[]): string {
  return `the ${names.length === 1 ? one : several} ${names.join(', ')}`;
}
