import type { Schemas } from '@longshore/client';
import { jsonText } from '@longshore/common/json/json-text';
import { oneLine } from '@longshore/common/shown-text';
import { shellWords } from '@longshore/common/shell-words';
import type { Command } from 'commander';
import { STATE_COLOURS } from '../terminal/style.js';
import { formatFields, formatTable, type Column, type TableStyle } from '../terminal/table.js';

type Schedule = Schemas['Schedule'];
type Fire = Schemas['ScheduleFire'];

/** Adds a command for one schedule. */
export function takesSchedule(parent: Command, name: string, description: string): Command {
  return parent.command(name).description(description).argument('<schedule>', 'id of the schedule');
}

/** What became of a time: the state of its run or group, or why it has none. */
const SYMBOLS = {
  COMPLETED: '+',
  FAILED: 'x',
  CANCELLED: 'c',
  failed: 'x',
  RUNNING: 'r',
  ASSIGNED: 'r',
  PENDING: 'p',
  completed: '+',
  cancelled: 'c',
  open: 'o',
  removed: '?',
  skipped_overlap: 's',
  skipped_missed: 'm',
  impossible: '!',
} as const;

/** The symbols in words. */
export const SYMBOLS_TEXT =
  '+ COMPLETED, x FAILED, c CANCELLED, r RUNNING or ASSIGNED, p PENDING, o open (a group), ? run removed, s skipped for an overlap, m missed, ! no run could be made';

/** A symbol for each of the last times, the newest last. */
export function outcomesText({ last }: Schedule): string {
  return last.map(symbolOf).toReversed().join('') || '-';
}

function symbolOf({ outcome, run_state: state, group_state: groupState }: Fire): string {
  if (outcome === 'created') return SYMBOLS[state ?? groupState ?? 'removed'];
  return SYMBOLS[outcome === 'failed' ? 'impossible' : outcome];
}

/** When it fires. */
export function timesText({ cron, every_s: everyS, offset_s: offsetS }: Schedule): string {
  if (cron !== null) return cron.join(' | ');
  return `every ${everyS} s${offsetS === 0 ? '' : `, ${offsetS} s later`}`;
}

/** Columns of a list of fires. */
export const FIRE_COLUMNS: readonly Column<Fire>[] = [
  { title: 'TIME', text: ({ from, until, count }) => (count === 1 ? from : `${from} to ${until}`) },
  { title: 'KIND', text: ({ kind }) => kind },
  { title: 'OUTCOME', text: ({ outcome, count }) => `${outcome}${count === 1 ? '' : ` (${count})`}` },
  { title: 'RUN OR GROUP', text: ({ run_id: run, group_id: group }) => run ?? group ?? '-' },
  {
    title: 'STATE',
    text: ({ outcome, run_state: run, group_state: group }) =>
      run ?? group ?? (outcome === 'created' ? 'removed' : '-'),
    colour: ({ run_state: state }) => (state === null ? undefined : STATE_COLOURS[state]),
  },
  { title: 'REASON', text: ({ reason }) => reason ?? '-', isElastic: true },
];

/** All fields of a schedule, one per line, then its last fires. */
export function scheduleDetails(schedule: Schedule, style: TableStyle): string {
  const { next, last, counts, catch_up: catchUp, applied, labels } = schedule;
  const by = (author: Schedule['created_by']): string => (author === null ? '' : ` by ${author.key_name}`);
  const pause = [
    schedule.paused_at ?? '',
    schedule.paused_by === null ? '' : `by ${schedule.paused_by}`,
    schedule.paused_note ?? '',
  ];
  const fields = formatFields(
    [
      ['id', schedule.id],
      ['description', schedule.description ?? undefined],
      [
        'labels',
        shellWords(
          Object.entries(labels).map(([name, value]) => (value === null ? `${name}-` : `${name}=${value}`)),
        ) || undefined,
      ],
      ['times', timesText(schedule)],
      ['timezone', schedule.timezone],
      ['starts at', schedule.starts_at ?? undefined],
      ['ends at', schedule.ends_at ?? undefined],
      ['jitter', schedule.jitter_s === 0 ? undefined : `up to ${schedule.jitter_s} s`],
      ['overlap', schedule.overlap],
      ['catch up', `${catchUp.policy}, within ${catchUp.window_s} s`],
      [
        'pauses after',
        schedule.pause_after_failures === null ? undefined : `${schedule.pause_after_failures} failures`,
      ],
      ['run', schedule.run === null ? undefined : jsonText(schedule.run)],
      ['group', schedule.group === null ? undefined : jsonText(schedule.group)],
      ['paused', schedule.paused ? oneLine(pause.filter((text) => text !== '').join(' ')) : undefined],
      ['next', next.join(', ') || undefined],
      [
        'counts',
        Object.entries(counts)
          .map(([outcome, count]) => `${outcome} ${count}`)
          .join(', '),
      ],
      ['applied by', applied === null ? undefined : `the set ${applied.set}`],
      ['created', `${schedule.createdAt}${by(schedule.created_by)}`],
      ['updated', `${schedule.updatedAt}${by(schedule.updated_by)}`],
    ],
    style.colours,
  );
  return last.length === 0 ? fields : `${fields}\n${formatTable(FIRE_COLUMNS, last, style)}`;
}
