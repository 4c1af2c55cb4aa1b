import type { Schemas } from '../../api/use-api.js';
import { STATE_TONES, type Tone } from '../../components/values/badge.js';
import { formatCount, formatDuration, formatZoned } from '../../lib/format.js';

/** A schedule, and what became of one of its times, as the API has them. */
export type Schedule = Schemas['Schedule'];
export type Fire = Schemas['ScheduleFire'];

/** When it fires. */
export function timesOf({ cron, every_s: every, offset_s: offset }: Schedule): string {
  if (every === null) return (cron ?? []).join('; ');
  return `every ${formatDuration(every * 1000)}${offset === 0 ? '' : ` + ${formatDuration(offset * 1000)}`}`;
}

/** What became of a time, in a word or two. */
export function outcomeOf({ outcome, run_state: run, group_state: group, count }: Fire): string {
  switch (outcome) {
    case 'created':
      return run?.toLowerCase() ?? group ?? 'removed';
    case 'skipped_overlap':
      return 'skipped';
    case 'skipped_missed':
      return count === 1 ? 'missed' : `${formatCount(count)} missed`;
    case 'failed':
      return 'no run possible';
  }
}

const OUTCOME_TONES: Readonly<Record<Fire['outcome'], Tone>> = {
  created: 'neutral',
  skipped_overlap: 'warn',
  skipped_missed: 'violet',
  failed: 'bad',
};

const GROUP_TONES: Readonly<Record<NonNullable<Fire['group_state']>, Tone>> = {
  open: 'info',
  completed: 'good',
  failed: 'bad',
  cancelled: 'neutral',
};

/** The tone of what became of a time: that of the state of its run or group, if there is one. */
export function toneOf({ outcome, run_state: run, group_state: group }: Fire): Tone {
  if (run !== null) return STATE_TONES[run];
  return group === null ? OUTCOME_TONES[outcome] : GROUP_TONES[group];
}

/** The page of what was made for a time; null: nothing was. */
export function pageOf({ run_id: run, group_id: group }: Fire): string | null {
  if (run !== null) return `/runs/${run}`;
  return group === null ? null : `/groups/${group}`;
}

/** The time, or the range of times, by the clock of the schedule. */
export function momentOf({ from, until, count }: Fire, zone: string): string {
  const first = formatZoned(from, zone);
  return count === 1 ? first : `${first} – ${formatZoned(until, zone)}`;
}

/** A schedule as the body of a request that stores it. */
export function toBody(schedule: Schedule): object {
  const { description, labels, run, group, cron, every_s, offset_s, timezone, starts_at, ends_at } = schedule;
  const { jitter_s, overlap, catch_up, pause_after_failures } = schedule;
  const times = cron === null ? { every_s, offset_s } : { cron, timezone };
  const period = { starts_at, ends_at, jitter_s, overlap, catch_up, pause_after_failures };
  return { description, ...times, ...period, labels, ...(group === null ? { run } : { group }) };
}
