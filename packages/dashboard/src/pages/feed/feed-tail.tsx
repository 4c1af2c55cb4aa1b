import { useMemo, useState } from 'react';
import { ApiError, Unreachable } from '../../api/api-error.js';
import type { StreamState } from '../../api/use-sse.js';
import { Button } from '../../components/controls/button.js';
import { DataTable } from '../../components/table/data-table.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { ErrorState } from '../../components/feedback/error-state.js';
import { FilterBar } from '../../components/table/filter-bar.js';
import { Icon } from '../../components/controls/icon.js';
import { LiveDot, type Liveness } from '../../components/values/live-dot.js';
import { SearchInput } from '../../components/table/search-input.js';
import { useMedia } from '../../hooks/use-media.js';
import { formatCount } from '../../lib/format.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { EventDialog } from './event-dialog.js';
import { matches, MOST_KEPT, type FeedEvent } from './feed-buffer.js';
import { FEED_COLUMNS, NARROW_COLUMNS } from './feed-columns.js';
import styles from './feed-page.module.css';
import type { Start } from './feed-start.js';
import { useFeed } from './use-feed.js';
import { useHeld } from './use-held.js';

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
      <EventDialog event={opened} onClose={() => setOpened(undefined)} />
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
