import type { Column } from '../../components/table/data-table.js';
import { RunLink } from '../../components/values/named-links.js';
import { StateBadge } from '../../components/values/state-badge.js';
import { formatExact } from '../../lib/format.js';
import type { FeedEvent } from './feed-buffer.js';
import styles from './feed-page.module.css';

/** What fits into a row; the rest is shown when the event is opened. */
const LONGEST_TEXT = 200;

/** The columns of a feed, where there is room for all of them. */
export const FEED_COLUMNS: readonly Column<FeedEvent>[] = [
  {
    id: 'type',
    header: 'Event',
    width: 'minmax(6.5rem, 1.2fr)',
    card: 'title',
    cell: ({ type }) => (
      <span className={styles.type} title={type}>
        {type}
      </span>
    ),
  },
  { id: 'time', header: 'Time', width: '6rem', cell: ({ t }) => <Clock at={t} /> },
  { id: 'state', header: 'State', width: '6rem', cell: ({ state }) => <StateBadge state={state} /> },
  { id: 'run', header: 'Run', width: '7.5rem', cell: ({ run_id: id }) => <RunLink id={id} /> },
  { id: 'attempt', header: 'Attempt', width: '3.75rem', align: 'end', cell: ({ attempt }) => attempt },
  {
    id: 'msg',
    header: 'Message',
    width: 'minmax(5rem, 1.6fr)',
    card: 'full',
    cell: ({ msg }) => <Line text={String(msg)} />,
  },
  {
    id: 'payload',
    header: 'Payload',
    width: 'minmax(5rem, 1.6fr)',
    card: 'full',
    cell: ({ payload }) => <Line text={payloadOf(payload)} isCode />,
  },
];

/** The same in less room: what is left out is shown when the event is opened. */
export const NARROW_COLUMNS = FEED_COLUMNS.filter(({ id }) => id !== 'attempt' && id !== 'payload');

function payloadOf(payload: object): string {
  return Object.keys(payload).length === 0 ? '' : JSON.stringify(payload);
}

function Line({ text, isCode = false }: { readonly text: string; readonly isCode?: boolean }) {
  const short = text.slice(0, LONGEST_TEXT);
  return (
    <div className="truncate" title={short}>
      {isCode ? <code>{short}</code> : short}
    </div>
  );
}

/** The time of day: events of a feed are seconds apart, and their order is what counts. */
function Clock({ at }: { readonly at: string }) {
  const date = new Date(at);
  const ms = String(date.getMilliseconds()).padStart(3, '0');
  return (
    <time className={styles.clock} dateTime={at} title={formatExact(at)}>
      {date.toLocaleTimeString('en-GB')}.{ms}
    </time>
  );
}
