import type { EventType } from '@longshore/client/constants';
import { plainText } from '@longshore/common/shown-text';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, useCallback, useMemo, useRef, useState } from 'react';
import { Icon } from '../../components/controls/icon.js';
import { Checkbox } from '../../components/controls/inputs.js';
import { EmptyState, ErrorState } from '../../components/feedback/empty-state.js';
import { SearchInput } from '../../components/table/filter-bar.js';
import { Badge, type Tone } from '../../components/values/badge.js';
import { JsonTree } from '../../components/values/json-tree.js';
import { classNames } from '../../lib/class-names.js';
import { formatCount, formatDuration, formatExact } from '../../lib/format.js';
import { attemptOf, type AttemptEnds, type RunEvent } from './run-view.js';
import styles from './timeline-panel.module.css';

const ROW_PX = 33;
const PAYLOAD_PX = 240;

interface Props {
  /** Undefined until they are there. */
  readonly events: readonly RunEvent[] | undefined;
  readonly error: unknown;
  readonly ends: AttemptEnds;
  readonly current: number;
  /** Only the events of this attempt; undefined: of all. */
  readonly attempt: number | undefined;
  /** Only events whose type or message has this text. */
  readonly type: string;
  readonly isNewestFirst: boolean;
  readonly onChange: (change: { readonly type?: string; readonly order?: string }) => void;
}

/** What happened to a run, with the time between one event and the next. */
export function TimelinePanel(props: Props) {
  const { events, error, ends, current, attempt, type, isNewestFirst, onChange } = props;
  const items = useMemo(
    () => toItems(events ?? [], { ends, current, attempt, type, isNewestFirst }),
    [events, ends, current, attempt, type, isNewestFirst],
  );
  if (events === undefined) {
    return error === null ? <div className={styles.box} aria-busy="true" /> : <ErrorState error={error} />;
  }
  return (
    <section aria-label="Timeline">
      <div className={styles.tools}>
        <SearchInput
          label="Filter events"
          placeholder="Type or message"
          value={type}
          onChange={(text) => onChange({ type: text })}
        />
        <Checkbox
          isChecked={isNewestFirst}
          onChange={(isChecked) => onChange({ order: isChecked ? 'desc' : '' })}
        >
          Newest first
        </Checkbox>
        <span className="muted">
          {items.length === events.length
            ? `${formatCount(items.length)} events`
            : `${formatCount(items.length)} of ${formatCount(events.length)} events`}
        </span>
      </div>
      {items.length === 0 ? (
        <EmptyState icon="runs" title={events.length === 0 ? 'Nothing has happened yet' : 'No event fits'}>
          {events.length === 0 ? 'The first event comes when a worker starts the run.' : undefined}
        </EmptyState>
      ) : (
        <Items items={items} />
      )}
    </section>
  );
}

function Items({ items }: { readonly items: readonly TimelineItem[] }) {
  const box = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const isOpen = (index: number): boolean => open.has(items[index]?.event.id ?? -1);
  const virtualizer = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: (index) => (isOpen(index) ? ROW_PX + PAYLOAD_PX : ROW_PX),
    getItemKey: useCallback((index: number) => items[index]?.event.id ?? index, [items]),
    overscan: 12,
    useFlushSync: false,
  });
  const turn = (id: number): void => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    setOpen(next);
  };
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls by keys
    <div ref={box} className={styles.box} tabIndex={0} role="group" aria-label="Scroll through the events">
      <ul aria-label="Events" className={styles.items} style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map(({ index, key, start }) => {
          const item = items[index];
          return item === undefined ? null : (
            <li
              key={key}
              ref={virtualizer.measureElement}
              data-index={index}
              aria-posinset={index + 1}
              aria-setsize={items.length}
              className={styles.item}
              style={{ transform: `translateY(${start}px)` }}
            >
              <TimelineRow item={item} isOpen={isOpen(index)} onTurn={turn} />
            </li>
          );
        })}
      </ul>
    </div>
  );
}

type Choice = Pick<Props, 'ends' | 'current' | 'attempt' | 'type' | 'isNewestFirst'>;

function toItems(
  events: readonly RunEvent[],
  { ends, current, attempt, type, isNewestFirst }: Choice,
): readonly TimelineItem[] {
  const wanted = type.trim().toLowerCase();
  const items: TimelineItem[] = [];
  let before: number | undefined;
  for (const event of events) {
    const own = attemptOf(ends, current, event);
    if (attempt !== undefined && own !== attempt) continue;
    if (wanted !== '' && !`${event.type}\n${event.msg}`.toLowerCase().includes(wanted)) continue;
    const at = Date.parse(event.t);
    items.push({ event, attempt: own, afterMs: before === undefined ? undefined : at - before });
    before = at;
  }
  return isNewestFirst ? items.toReversed() : items;
}

/** An event as it is shown. */
interface TimelineItem {
  readonly event: RunEvent;
  readonly attempt: number;
  /** Milliseconds since the event that is shown before it; undefined for the first. */
  readonly afterMs: number | undefined;
}

const TONES: Readonly<Record<string, Tone>> = {
  SUBMITTED: 'neutral',
  STARTED: 'info',
  COMPLETED: 'good',
  FAILED: 'bad',
  CANCELLED: 'neutral',
  RETRIED: 'warn',
} satisfies Partial<Record<EventType | 'SUBMITTED', Tone>>;

interface TimelineRowProps {
  readonly item: TimelineItem;
  readonly isOpen: boolean;
  readonly onTurn: (id: number) => void;
}

/** One event; its payload unfolds. */
const TimelineRow = memo(function TimelineRow({ item, isOpen, onTurn }: TimelineRowProps) {
  const { event, attempt, afterMs } = item;
  const { id, t, type, payload } = event;
  const msg = plainText(String(event.msg));
  const size = Object.keys(payload).length;
  const hint = msg === '' || type === 'SUBMITTED' ? plainText(hintOf(payload)) : '';
  return (
    <>
      <div className={styles.row}>
        <time dateTime={t} title={formatExact(t)} className={styles.time}>
          {new Date(t).toLocaleTimeString('en-GB')}
        </time>
        <span
          className={styles.after}
          title={afterMs === undefined ? undefined : `${formatCount(afterMs)} ms after the event before`}
        >
          {afterMs === undefined ? '' : `+${formatDuration(afterMs)}`}
        </span>
        <span className={styles.attempt} title={`Attempt ${attempt}`}>
          #{attempt}
        </span>
        <span className={styles.type} title={type}>
          <Badge tone={TONES[type] ?? 'violet'}>{type}</Badge>
        </span>
        <span className={styles.msg} title={`${msg} ${hint}`.trim()}>
          {type === 'PROGRESS' && typeof event.msg === 'number' ? `${msg} %` : msg}
          {hint !== '' && <span className="muted"> {hint}</span>}
        </span>
        {size > 0 && (
          <button
            type="button"
            className={styles.fold}
            aria-expanded={isOpen}
            aria-label={`Payload of event ${id}`}
            title="Payload"
            onClick={() => onTurn(id)}
          >
            <span className={classNames(styles.mark, isOpen && styles.open)}>
              <Icon name="chevron-right" />
            </span>
          </button>
        )}
      </div>
      {isOpen && (
        <div className={styles.payload}>
          <JsonTree label={`payload of event ${id}`} value={payload} maxHeight={220} />
        </div>
      )}
    </>
  );
});

/** What the payloads of the events of workers say, for events without a message, and why a job waits. */
function hintOf({ error_message: error, reason, worker_id: worker }: RunEvent['payload']): string {
  if (typeof error === 'string') return error;
  if (typeof reason === 'string') return reason;
  return typeof worker === 'string' ? `on ${worker}` : '';
}
