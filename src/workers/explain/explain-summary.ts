import { assertNever } from '@longshore/common/json/assert-never';
import type { ExplainedEndDto, RunExplanationDto } from './explain.dto.js';

/** Code points of an error message in the summary. */
const MAX_MESSAGE = 200;

/** How an attempt failed, and with which worker. */
export type FailedAttempt = Pick<ExplainedEndDto, 'worker_id' | 'cause' | 'exit_code' | 'error_message'>;

/**
 * The explanation in one or two sentences.
 * @param failed the attempt before, of a run in back-off
 */
export function summarise(
  explanation: Omit<RunExplanationDto, 'summary'>,
  failed: FailedAttempt | null,
): string {
  const { state, queue, holder, ended } = explanation;
  switch (state) {
    case 'PENDING':
      return queue?.not_before
        ? `In back-off until ${queue.not_before}${failed ? attemptFailed(explanation.attempt - 1, failed) : ''}.`
        : waiting(explanation);
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

function attemptFailed(attempt: number, failed: FailedAttempt): string {
  const where = failed.worker_id === null ? '' : ` with worker '${failed.worker_id}'`;
  return `: attempt ${attempt} failed${where}${failure(failed)}`;
}

function waiting(explanation: Omit<RunExplanationDto, 'summary'>): string {
  const { queue, counts } = explanation;
  const position = queue?.position ?? null;
  if (position === null || !counts) return 'Waiting.';
  const place = queue?.position_is_exact
    ? `Number ${position} in the queue`
    : `At or behind number ${position} in the queue`;
  const avoided = queue?.avoided_worker ?? null;
  return `${place}; ${chances(counts, explanation)}${reserved(queue?.reserved_for ?? null)}${avoids(avoided)}.`;
}

/** @param explanation its most able workers come first */
function chances(
  { active, draining, able_now: now, able_ever: ever }: NonNullable<RunExplanationDto['counts']>,
  { workers: all, strategy }: Pick<RunExplanationDto, 'workers' | 'strategy'>,
): string {
  if (active === 0) return 'no worker is active';
  const refusals = `the strategy '${strategy}' ignores resources, and a worker that has too little will refuse it`;
  const isAssignedAnyway = all.some(
    ({ can_take_now: canTakeNow, could_ever: couldEver }) => canTakeNow && !couldEver,
  );
  if (!all.some(({ could_ever: couldEver }) => couldEver))
    return isAssignedAnyway
      ? `no active worker could ever execute it: ${refusals}`
      : 'no active worker could ever take it';
  if (active === draining) return 'every active worker is draining';
  if (now > 0)
    return `${workers(now)} can take it as soon as it is their turn${isAssignedAnyway ? `: ${refusals}` : ''}`;
  if (ever > 0) return `${workers(ever)} could take it, but none of them now`;
  return 'only draining workers could take it';
}

function reserved(workerId: string | null): string {
  return workerId === null ? '' : `; worker '${workerId}' is reserved for it`;
}

function avoids(workerId: string | null): string {
  return workerId === null
    ? ''
    : `; it avoids worker '${workerId}', where the attempt before failed by the infrastructure`;
}

/** The cause of a failure and the first line of its message or, without one, the exit code. */
function failure({ cause, exit_code: code, error_message: message }: FailedAttempt): string {
  const [first = ''] = message?.split('\n', 1) ?? [];
  // Our worker's message goes on with the log, which is in `error_message`.
  const line = Array.from(first.slice(0, 2 * MAX_MESSAGE))
    .slice(0, MAX_MESSAGE)
    .join('')
    .replace(/\.?(?: Its last log lines:)?$/, '');
  const why = line === '' ? (code === null ? '' : `, exit code ${code}`) : `: ${line}`;
  return cause === null && why === '' ? '' : `; cause ${cause ?? 'unknown'}${why}`;
}

function held({ state, holder }: Omit<RunExplanationDto, 'summary'>, workerId: string): string {
  const who = `${state === 'ASSIGNED' ? 'Assigned to' : 'Running on'} worker '${workerId}'`;
  if (!holder?.last_heartbeat_at) return `${who}, which has not been heard of.`;
  if (!holder.is_active)
    return `${who}, which is stale: its last heartbeat was at ${holder.last_heartbeat_at}.`;
  if (!holder.reported_running) return `${who}, which is active but has not reported the run as running yet.`;
  return `${who}, which is active.`;
}

function workers(count: number): string {
  return count === 1 ? '1 worker' : `${count} workers`;
}
