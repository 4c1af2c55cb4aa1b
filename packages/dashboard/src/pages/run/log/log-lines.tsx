import { colouredLine } from '@longshore/common/shown-text';
import { useVirtualizer } from '@tanstack/react-virtual';
import Anser from 'anser';
import { memo, useCallback, useLayoutEffect, useRef, useState, type KeyboardEvent } from 'react';
import { Button } from '../../../components/controls/button.js';
import { classNames } from '../../../lib/class-names.js';
import { formatBytes, formatCount, formatExact } from '../../../lib/format.js';
import { stretchesOf } from './log-hits.js';
import styles from './log-lines.module.css';
import type { LogEntry } from './log-page.js';
import logTextStyles from './log-text.module.css';
import type { Log } from './use-log.js';

const ROW_PX = 20;
/** Distance from either end of what is there at which more is asked for. */
const NEAR_PX = 600;
const AT_END_PX = 24;

interface Props {
  readonly log: Log;
  readonly entries: readonly LogEntry[];
  readonly hasTimes: boolean;
  readonly isWrapped: boolean;
  readonly marked: string;
  /** Line that was gone to; -1: none. */
  readonly target: number;
  /** Goes to a line in the whole log; undefined when that is what is shown. */
  readonly onGoTo: ((entry: LogEntry) => void) | undefined;
}

/** The line at the top of the view, and how far it is scrolled out. */
interface Anchor {
  readonly line: number;
  readonly offset: number;
}

/** The lines of a log. Those in sight exist; what is read stays where it is while lines come and go at both ends. */
export function LogLines({ log, entries, hasTimes, isWrapped, marked, target, onGoTo }: Props) {
  const { store, isFollowed, window } = log;
  const box = useRef<HTMLDivElement>(null);
  const anchor = useRef<Anchor>(undefined);
  const lastTop = useRef(0);
  const [isAway, setAway] = useState(!isFollowed.current);
  const virtualizer = useVirtualizer({
    count: entries.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    getItemKey: useCallback((index: number) => entries[index]?.line ?? index, [entries]),
    overscan: 20,
    useFlushSync: false,
  });
  const total = virtualizer.getTotalSize();

  const setFollowed = (followed: boolean): void => {
    isFollowed.current = followed;
    setAway(!followed);
  };
  const readMore = (): void => {
    const element = box.current;
    if (element === null) return;
    if (element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX) void store.newer();
    if (element.scrollTop < NEAR_PX) void store.older();
  };
  const onScroll = (): void => {
    const element = box.current;
    if (element === null) return;
    const { scrollTop, scrollHeight, clientHeight } = element;
    if (scrollHeight - scrollTop - clientHeight <= AT_END_PX && window?.isAtEnd === true) setFollowed(true);
    else if (scrollTop < lastTop.current) setFollowed(false);
    lastTop.current = scrollTop;
    const first = virtualizer.getVirtualItemForOffset(scrollTop);
    const entry = first === undefined ? undefined : entries[first.index];
    if (first !== undefined && entry !== undefined) {
      anchor.current = { line: entry.line, offset: scrollTop - first.start };
    }
    readMore();
  };

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    if (isFollowed.current) element.scrollTop = element.scrollHeight;
    else if (anchor.current !== undefined) {
      const index = entries.findIndex(({ line }) => line === anchor.current?.line);
      const [start] = (index < 0 ? undefined : virtualizer.getOffsetForIndex(index, 'start')) ?? [];
      const place = index < 0 ? undefined : (virtualizer.measurementsCache[index]?.start ?? start);
      if (place !== undefined) element.scrollTop = place + anchor.current.offset;
    }
    lastTop.current = element.scrollTop;
    readMore();
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- what moves the lines, and nothing else
  }, [entries, total, log.isLoading, log.isPausing]);

  useLayoutEffect(() => {
    const index = target < 0 ? -1 : entries.findIndex(({ line }) => line === target);
    if (index >= 0) virtualizer.scrollToIndex(index, { align: 'center' });
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- once, when the line is there
  }, [target, window === undefined]);

  const toEnd = (): void => {
    anchor.current = undefined;
    setFollowed(true);
    if (window?.isAtEnd === true) box.current?.scrollTo({ top: box.current.scrollHeight });
    else void store.toEnd();
  };
  const toStart = (): void => {
    anchor.current = undefined;
    setFollowed(false);
    if (window?.hasOlder === true) void store.toStart();
    box.current?.scrollTo({ top: 0 });
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key !== 'Home' && event.key !== 'End') return;
    event.preventDefault();
    if (event.key === 'Home') toStart();
    else toEnd();
  };
  const digits = String(entries.at(-1)?.line ?? 0).length;
  return (
    <div className={styles.frame}>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- it scrolls by keys */}
      <div
        ref={box}
        role="log"
        aria-label="Log"
        aria-live="off"
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls by keys
        tabIndex={0}
        className={classNames(styles.box, isWrapped && styles.wrapped)}
        data-log
        onScroll={onScroll}
        onKeyDown={press}
      >
        <div className={styles.lines} style={{ height: total, minWidth: '100%' }}>
          {virtualizer.getVirtualItems().map(({ index, key, start }) => {
            const entry = entries[index];
            return entry === undefined ? null : (
              <div
                key={key}
                ref={isWrapped ? virtualizer.measureElement : undefined}
                data-index={index}
                className={classNames(styles.row, entry.line === target && styles.target)}
                style={{ transform: `translateY(${start}px)` }}
              >
                <LogRow entry={entry} digits={digits} hasTimes={hasTimes} marked={marked} onGoTo={onGoTo} />
              </div>
            );
          })}
        </div>
      </div>
      {isAway && (
        <Button size="small" kind="primary" className={styles.jump ?? ''} onClick={toEnd}>
          Jump to end
        </Button>
      )}
    </div>
  );
}

interface LogRowProps {
  readonly entry: LogEntry;
  /** Digits of the greatest line number that is there. */
  readonly digits: number;
  readonly hasTimes: boolean;
  readonly marked: string;
  readonly onGoTo: ((entry: LogEntry) => void) | undefined;
}

/** One line of a log with its number, or a gap with its size. */
const LogRow = memo(function LogRow({ entry, digits, hasTimes, marked, onGoTo }: LogRowProps) {
  if ('gap' in entry) {
    const { lines, bytes } = entry.gap;
    const size = bytes === null ? '' : ` (${formatBytes(bytes)})`;
    return (
      <span className={styles.gap}>
        {formatCount(lines)} {lines === 1 ? 'line' : 'lines'} left out{size}
      </span>
    );
  }
  const { line, t, stream, text } = entry;
  const number = <span style={{ minWidth: `${digits}ch` }}>{line + 1}</span>;
  return (
    <>
      {onGoTo === undefined ? (
        <span className={styles.number}>{number}</span>
      ) : (
        <button
          type="button"
          className={styles.number}
          title="Show this line in the whole log"
          aria-label={`Show line ${line + 1} in the whole log`}
          onClick={() => onGoTo(entry)}
        >
          {number}
        </button>
      )}
      {hasTimes && (
        <time className={styles.time} dateTime={t} title={formatExact(t)}>
          {timeOfDay(t)}
        </time>
      )}
      <span className={classNames(styles.text, stream === 'stderr' && styles.stderr)} data-stream={stream}>
        {stream === 'stderr' && <span className="visually-hidden">stderr: </span>}
        <LogText text={text} marked={marked} />
      </span>
    </>
  );
});

/** `03:04:05.678`, local time. */
function timeOfDay(iso: string): string {
  const date = new Date(iso);
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => padded(part, 2));
  return `${clock.join(':')}.${padded(date.getMilliseconds(), 3)}`;
}

function padded(value: number, length: number): string {
  return String(value).padStart(length, '0');
}

interface LogTextProps {
  readonly text: string;
  /** What is marked, whatever its case; empty: nothing. */
  readonly marked: string;
}

/** The text of a line as a terminal shows it, with the 16 colours of terminals. */
function LogText({ text, marked }: LogTextProps) {
  const painted = Anser.ansiToJson(colouredLine(text), { use_classes: true, remove_empty: true });
  const stretches = stretchesOf(
    painted.map(({ content }) => content),
    marked,
  );
  return painted.map(({ fg, bg, decorations }, index) => (
    <span
      // oxlint-disable-next-line react/no-array-index-key -- the pieces of one line never change places
      key={index}
      className={classNames(
        logTextStyles[`fg-${fg}`],
        logTextStyles[`bg-${bg}`],
        ...decorations.map((name) => logTextStyles[name]),
      )}
    >
      {stretches[index]?.map(({ text: shown, isHit }, at) =>
        // oxlint-disable-next-line react/no-array-index-key -- as above
        isHit ? <mark key={at}>{shown}</mark> : shown,
      )}
    </span>
  ));
}
