import { assertNever } from '@longshore/common/json/assert-never';
import type { RunExplanationDto } from './explain.dto.js';

/** The explanation in one or two sentences. */
export function summarise(explanation: Omit<RunExplanationDto, 'summary'>): string {
  const { state, queue, holder, ended } = explanation;
  switch (state) {
    case 'PENDING':
      return queue?.not_before ? `In back-off until ${queue.not_before}.` : waiting(explanation);
    case 'ASSIGNED':
    case 'RUNNING':
      return holder?.worker_id ? held(explanation, holder.worker_id) : `Put into ${state} by an admin.`;
    case 'COMPLETED':
    case 'FAILED':
    case 'CANCELLED': {
      if (!ended) return `${state}.`;
      const by = ended.event === null ? 'set by an admin' : `by the event ${ended.event}`;
      const where = ended.worker_id === null ? '' : `, last with worker '${ended.worker_id}'`;
      return `${state} ${by} at ${ended.at}${where}.`;
    }
    default:
      return assertNever(state);
  }
}

function waiting({ queue, counts }: Omit<RunExplanationDto, 'summary'>): string {
  const position = queue?.position ?? null;
  if (position === null || !counts) return 'Waiting.';
  const place = queue?.position_is_exact
    ? `Number ${position} in the queue`
    : `At or behind number ${position} in the queue`;
  return `${place}; ${chances(counts)}${reserved(queue?.reserved_for ?? null)}.`;
}

function chances({
  active,
  draining,
  able_now: now,
  able_ever: ever,
}: NonNullable<RunExplanationDto['counts']>): string {
  if (active === 0) return 'no worker is active';
  if (active === draining) return 'every active worker is draining';
  if (now > 0) return `${workers(now)} can take it as soon as it is their turn`;
  if (ever > 0) return `${workers(ever)} could take it, but none of them now`;
  return 'no active worker could ever take it';
}

function reserved(workerId: string | null): string {
  return workerId === null ? '' : `; worker '${workerId}' is reserved for it`;
}

function held({ state, holder }: Omit<RunExplanationDto, 'summary'>, workerId: string): string {
  const who = `${state === 'ASSIGNED' ? 'Assigned to' : 'Running on'} worker '${workerId}'`;
  if (!holder?.last_heartbeat_at) return `${who}, which has not been heard of.`;
  if (!holder.is_active)
    return `${who}, which is silent since ${holder.last_heartbeat_at}: it counts as lost.`;
  if (!holder.reported_running) return `${who}, which is active but has not reported the run as running yet.`;
  return `${who}, which is active.`;
}

function workers(count: number): string {
  return count === 1 ? '1 worker' : `${count} workers`;
}
