import type { Schemas } from '@longshore/client';
import { oneLine } from '@longshore/common/shown-text';
import { shellWords } from '@longshore/common/shell-words';
import type { Colour } from '../terminal/style.js';
import { ago, formatFields, type Column } from '../terminal/table.js';

type Group = Schemas['Group'];

const COLOURS: Readonly<Record<Group['state'], Colour>> = {
  open: 'cyan',
  completed: 'green',
  failed: 'red',
  cancelled: 'yellow',
};

/** The states of groups. */
export const GROUP_STATES = Object.keys(COLOURS);

/** Columns of a list of groups. */
export const GROUP_COLUMNS: readonly Column<Group>[] = [
  { title: 'ID', text: ({ id }) => id },
  { title: 'STATE', text: ({ state }) => state, colour: ({ state }) => COLOURS[state] },
  { title: 'DONE', text: ({ progress }) => `${progress} %` },
  { title: 'RUNS', text: ({ size }) => String(size) },
  { title: 'FAILED', text: ({ counts }) => String(counts.failed) },
  { title: 'AGE', text: ({ created_at: t }) => ago(t) },
  { title: 'NAME', text: ({ name }) => name ?? '-', isElastic: true },
];

/** All fields of a group, one per line. */
export function groupDetails(group: Group, colours: boolean): string {
  const { array, schedule, created_by: by } = group;
  return formatFields(
    [
      ['id', group.id],
      ['name', group.name === null ? undefined : oneLine(group.name)],
      ['labels', shellWords(Object.entries(group.labels).map((label) => label.join('='))) || undefined],
      ['state', group.state, COLOURS[group.state]],
      ['reason', group.reason === null ? undefined : oneLine(group.reason)],
      ['progress', `${group.progress} %`],
      [array === null ? 'runs' : 'array of', String(group.size)],
      ['counts', countsText(group)],
      ['failed', failuresText(group)],
      ['waits for', waitText(group.waiting_for)],
      ['max parallel', group.max_parallel?.toString()],
      ['max failed', group.max_failed?.toString()],
      ['on failure', group.on_failure],
      ['schedule', schedule === null ? undefined : `${schedule.id} at ${schedule.time}`],
      ['created', `${group.created_at}${by === null ? '' : ` by ${oneLine(by.key_name)}`}`],
      ['ended', group.ended_at ?? undefined],
    ],
    colours,
  );
}

/** How many runs of a group are in which state, such as `3 running, 17 completed`. */
export function countsText({ counts }: Group): string {
  return Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${count} ${state}`)
    .join(', ');
}

/** The indexes or refs of the first runs that failed; undefined without any. */
export function failuresText({ failed_indexes: indexes, failed_refs: refs }: Group): string | undefined {
  return indexes || refs.join(', ') || undefined;
}

/** What a run or an array waits for, such as `run ID (RUNNING)`, or `schedule ID at TIME (not made yet)`; undefined: nothing. */
export function waitText(conditions: Group['waiting_for'] = []): string | undefined {
  const texts = conditions.map(({ run, group, state, when, schedule, nominal_at: at }) => {
    const end = when === 'completed' ? '' : `, when ${when}`;
    if (run === null) return `schedule ${schedule} at ${at} (not made yet${end})`;
    const what = group === undefined ? `run ${run}` : `group ${group}`;
    return `${what}${schedule === undefined ? '' : ` of schedule ${schedule}`} (${state ?? 'removed'}${end})`;
  });
  return texts.join(', ') || undefined;
}
