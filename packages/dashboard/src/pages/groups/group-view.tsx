import type { Schemas } from '../../api/use-api.js';
import { Badge, STATE_TONES, type Tone } from '../../components/values/badge.js';
import { classNames } from '../../lib/class-names.js';
import { formatCount } from '../../lib/format.js';
import styles from './group-view.module.css';

/** A group as the API has it. */
export type Group = Schemas['Group'];

/** The states of groups, with their tones. */
export const GROUP_TONES: Readonly<Record<Group['state'], Tone>> = {
  open: 'info',
  completed: 'good',
  failed: 'bad',
  cancelled: 'neutral',
};

/** The state of a group. */
export function GroupBadge({ state }: Pick<Group, 'state'>) {
  return <Badge tone={GROUP_TONES[state]}>{state}</Badge>;
}

/** The states of members, from those that have ended to those that wait. */
const PARTS = [
  { name: 'completed', tone: STATE_TONES.COMPLETED },
  { name: 'failed', tone: STATE_TONES.FAILED },
  { name: 'cancelled', tone: STATE_TONES.CANCELLED },
  { name: 'running', tone: STATE_TONES.RUNNING },
  { name: 'assigned', tone: STATE_TONES.ASSIGNED },
  { name: 'pending', tone: STATE_TONES.PENDING },
] as const;

/** How far the members of a group are: a bar with a part for each state, and what has ended in per cent. */
export function MemberBar({ group: { counts, size, progress } }: { readonly group: Group }) {
  const parts = PARTS.filter(({ name }) => counts[name] > 0);
  const text = [
    ...parts.map(({ name }) => `${formatCount(counts[name])} ${name}`),
    ...uncreated(counts),
  ].join(', ');
  return (
    <div className={styles.progress} title={text}>
      <div
        className={styles.track}
        role="progressbar"
        aria-label="Members that have ended"
        aria-valuenow={progress}
        aria-valuetext={`${progress} %: ${text}`}
      >
        {parts.map(({ name, tone }) => (
          <span
            key={name}
            className={classNames(styles.part, styles[tone])}
            style={{ flexGrow: counts[name] / size }}
          />
        ))}
      </div>
      <span className={styles.figure}>{progress} %</span>
    </div>
  );
}

/** How many members are in each state. */
export function MemberCounts({ counts }: Pick<Group, 'counts'>) {
  return (
    <span className={styles.counts}>
      {PARTS.filter(({ name }) => counts[name] > 0).map(({ name, tone }) => (
        <Badge key={name} tone={tone}>
          {formatCount(counts[name])} {name}
        </Badge>
      ))}
      {uncreated(counts).map((text) => (
        <span key={text} className="muted">
          {text}
        </span>
      ))}
    </span>
  );
}

function uncreated({ uncreated: count }: Group['counts']): string[] {
  return count === 0 ? [] : [`${formatCount(count)} not created yet`];
}
