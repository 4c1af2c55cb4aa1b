import { escapeUnsafe } from '@longshore/common/json/text';
import { plainText } from '@longshore/common/shown-text';
import { useCallback, useEffect, useMemo, useState } from 'react';
import { ApiError, Unreachable } from '../../api/answers.js';
import type { StreamState } from '../../api/use-sse.js';
import { Button } from '../../components/controls/button.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import { Icon } from '../../components/controls/icon.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { EmptyState, ErrorState } from '../../components/feedback/empty-state.js';
import { DataTable, type Column } from '../../components/table/data-table.js';
import { FilterBar, SearchInput } from '../../components/table/filter-bar.js';
import { StateBadge } from '../../components/values/badge.js';
import { Fact, Line } from '../../components/values/facts.js';
import { JsonTree } from '../../components/values/json-tree.js';
import { LiveDot, type Liveness } from '../../components/values/live-dot.js';
import { RunLink } from '../../components/values/named-links.js';
import { Time } from '../../components/values/time.js';
import { useMedia } from '../../hooks/use-media.js';
import { formatCount, formatExact } from '../../lib/format.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { matches, MOST_KEPT, type FeedBuffer, type FeedEvent } from './feed-buffer.js';
import styles from './feed-page.module.css';
import { useFeed, type Start } from './use-feed.js';

/** Too narrow for all columns, too wide for cards, which have room for everything. */
const LITTLE_ROOM = '(min-width: 62rem) and (max-width: 80rem)';
const ROW_HEIGHT = { line: 36, card: 190 };
const LIVENESS: Readonly<Record<StreamState, Liveness>> = {
  off: 'waiting',
  connecting: 'waiting',
  live: 'live',
  waiting: 'waiting',
  ended: 'ended',
  refused: 'ended',
};

interface Props {
  readonly topic: string;
  readonly start: Start;
  /** What the events are filtered by. */
  readonly q: string;
  readonly onSearch: (q: string) => void;
}

/** The events of a topic as they come, the newest first. */
export function FeedTail({ topic, start, q, onSearch }: Props) {
  const [isPaused, setPaused] = useState(false);
  const hasLittleRoom = useMedia(LITTLE_ROOM);
  const [opened, setOpened] = useState<FeedEvent>();
  const { buffer, state, error, restart } = useFeed(topic, start, isPaused);
  const { shown: held, missing, show } = useHeld(buffer);
  const rows = useMemo(
    () => (q.trim() === '' ? held.events : held.events.filter((event) => matches(event, q))),
    [held, q],
  );
  useShortcut('p', 'Pause or resume the feed', () => setPaused(!isPaused));

  if (error instanceof ApiError) return <Refused error={error} onRestart={restart} />;
  if (error !== undefined && !(error instanceof Unreachable)) {
    return <ErrorState error={error} onRetry={restart} />;
  }
  const dropped = held.total - held.events.length;
  return (
    <>
      <FilterBar label="Filter events" isActive={q !== ''} onClear={() => onSearch('')}>
        <SearchInput label="Search events" placeholder="Type, run or message" value={q} onChange={onSearch} />
      </FilterBar>
      <div className={styles.status}>
        <Button size="small" onClick={() => setPaused(!isPaused)} aria-keyshortcuts="p">
          <Icon name={isPaused ? 'play' : 'pause'} />
          {isPaused ? 'Resume' : 'Pause'}
        </Button>
        <LiveDot state={isPaused ? 'paused' : LIVENESS[state]} />
        <span>{formatCount(rows.length)} events</span>
        {dropped > 0 && (
          <span>
            the newest {formatCount(MOST_KEPT)} are kept, {formatCount(dropped)} older ones are left out
          </span>
        )}
      </div>
      <DataTable
        label={`Events of ${topic}`}
        columns={hasLittleRoom ? NARROW_COLUMNS : FEED_COLUMNS}
        rows={rows}
        rowKey={keyOf}
        onOpen={setOpened}
        rowHeight={ROW_HEIGHT}
        empty={
          q === '' ? (
            <EmptyState icon="feed" title={start === 'new' ? 'No new events yet' : 'No events yet'}>
              They show up here the moment they happen. Runs write to this feed when they name the topic in
              their event_delivery.
            </EmptyState>
          ) : (
            <EmptyState
              title="No event fits"
              action={<Button onClick={() => onSearch('')}>Show all</Button>}
            />
          )
        }
      />
      {missing > 0 && (
        <Button kind="primary" className={styles.held} onClick={show}>
          {formatCount(missing)} new
        </Button>
      )}
      {opened !== undefined && <EventDialog event={opened} onClose={() => setOpened(undefined)} />}
    </>
  );
}

function Refused({ error, onRestart }: { readonly error: ApiError; readonly onRestart: () => void }) {
  if (error.status !== 503) return <ErrorState error={error} onRetry={onRestart} />;
  return (
    <EmptyState
      icon="feed"
      title="The feed is switched off"
      action={<Button onClick={onRestart}>Try again</Button>}
    >
      The service was started with SERVICE_FEED_ENABLED=false, so events are on the timelines of their runs
      only.
    </EmptyState>
  );
}

function keyOf({ cursor }: FeedEvent): string {
  return cursor;
}

interface EventDialogProps {
  readonly event: FeedEvent;
  readonly onClose: () => void;
}

/** Everything about one event of a feed. */
function EventDialog({ event, onClose }: EventDialogProps) {
  return (
    <Dialog onClose={onClose} title={event.type} width="wide">
      <dl className={styles.facts}>
        <Fact name="Run">
          <RunLink id={event.run_id} />
          <CopyButton what="run id" text={event.run_id} />
        </Fact>
        <Fact name="State after it">
          <StateBadge state={event.state} />
        </Fact>
        <Fact name="Attempt">{event.attempt}</Fact>
        <Fact name="Time">
          <Time at={event.t} />
        </Fact>
        <Fact name="Cursor">
          <code>{event.cursor}</code>
          <CopyButton what="cursor" text={event.cursor} />
        </Fact>
        {event.msg !== '' && (
          <Fact name="Message" className={styles.message}>
            {plainText(String(event.msg))}
          </Fact>
        )}
      </dl>
      <JsonTree label="payload" value={event.payload} />
    </Dialog>
  );
}

/** Scrolled further down than this, in pixels, one reads, and rows must not move away. */
const READING_PX = 160;

/**
 * Keeps what is shown as it is while the user has scrolled down to read it.
 * @returns what to show, how many events have come since, and a function that goes back to the newest ones
 */
function useHeld(buffer: FeedBuffer): {
  readonly shown: FeedBuffer;
  readonly missing: number;
  readonly show: () => void;
} {
  const [isReading, setReading] = useState(false);
  const [held, setHeld] = useState<FeedBuffer>();
  // While rendering, so that no frame shows the one without the other.
  if (isReading && held === undefined) setHeld(buffer);
  if (!isReading && held !== undefined) setHeld(undefined);

  useEffect(() => {
    const note = (): void => setReading(window.scrollY > READING_PX);
    window.addEventListener('scroll', note, { passive: true });
    return () => window.removeEventListener('scroll', note);
  }, []);
  const show = useCallback(() => window.scrollTo({ top: 0 }), []);
  // A feed that was begun anew has nothing to do with what was held.
  const shown = held === undefined || held.total > buffer.total ? buffer : held;
  return { shown, missing: buffer.total - shown.total, show };
}

/** What fits into a row; the rest is shown when the event is opened. */
const LONGEST_TEXT = 200;

/** The columns of a feed, where there is room for all of them. */
const FEED_COLUMNS: readonly Column<FeedEvent>[] = [
  {
    header: 'Event',
    width: 'minmax(6.5rem, 1.2fr)',
    card: 'title',
    cell: ({ type }) => (
      <span className={styles.type} title={type}>
        {type}
      </span>
    ),
  },
  { header: 'Time', width: '6rem', cell: ({ t }) => <Clock at={t} /> },
  { header: 'State', width: '6rem', cell: ({ state }) => <StateBadge state={state} /> },
  { header: 'Run', width: '7.5rem', cell: ({ run_id: id }) => <RunLink id={id} /> },
  { header: 'Attempt', width: '3.75rem', align: 'end', cell: ({ attempt }) => attempt },
  {
    header: 'Message',
    width: 'minmax(5rem, 1.6fr)',
    card: 'full',
    cell: ({ msg }) => <Line text={plainText(String(msg)).slice(0, LONGEST_TEXT)} />,
  },
  {
    header: 'Payload',
    width: 'minmax(5rem, 1.6fr)',
    card: 'full',
    cell: ({ payload }) => <Line text={escapeUnsafe(payloadOf(payload).slice(0, LONGEST_TEXT))} isCode />,
  },
];

/** The same in less room: what is left out is shown when the event is opened. */
const NARROW_COLUMNS = FEED_COLUMNS.filter(({ header }) => header !== 'Attempt' && header !== 'Payload');

function payloadOf(payload: object): string {
  return Object.keys(payload).length === 0 ? '' : JSON.stringify(payload);
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
