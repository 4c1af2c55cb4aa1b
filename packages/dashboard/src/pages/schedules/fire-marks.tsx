import { Link } from 'wouter';
import { shortId } from '../../lib/format.js';
import { classNames } from '../../lib/class-names.js';
import styles from './fire-marks.module.css';
import { momentOf, outcomeOf, pageOf, toneOf, type Fire, type Schedule } from './schedule-view.js';

/** What became of the last times, a mark each, the newest at the end; a mark leads to the run or group. */
export function FireMarks({ schedule: { last, timezone } }: { readonly schedule: Schedule }) {
  if (last.length === 0) return <span className="muted">none yet</span>;
  return (
    <ol className={styles.marks} aria-label="Last times">
      {last.toReversed().map((fire) => (
        <li key={fire.id}>
          <Mark fire={fire} text={describe(fire, timezone)} />
        </li>
      ))}
    </ol>
  );
}

function Mark({ fire, text }: { readonly fire: Fire; readonly text: string }) {
  const shared = {
    className: classNames(styles.mark, styles[toneOf(fire)], styles[fire.outcome]),
    title: text,
  };
  const page = pageOf(fire);
  if (page === null) return <span {...shared} role="img" aria-label={text} />;
  return <Link {...shared} href={page} aria-label={text} />;
}

function describe(fire: Fire, zone: string): string {
  const reason = fire.reason === null ? '' : `: ${fire.reason}`;
  return `${momentOf(fire, zone)}: ${outcomeOf(fire)}${reason}`;
}

/** What was made for a time by its short id, leading to its page. */
export function FireLink({ fire }: { readonly fire: Fire }) {
  const page = pageOf(fire);
  const id = fire.run_id ?? fire.group_id ?? '';
  if (page === null) return <span className="muted">–</span>;
  return (
    <Link href={page} title={id}>
      <code>{shortId(id)}</code>
    </Link>
  );
}
