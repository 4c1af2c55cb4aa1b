import type { EventType } from '@longshore/client/constants';
import { memo } from 'react';
import { Badge, type Tone } from '../../../components/values/badge.js';
import { Icon } from '../../../components/controls/icon.js';
import { JsonTree } from '../../../components/values/json-tree.js';
import { classNames } from '../../../lib/class-names.js';
import { formatCount, formatDuration, formatExact } from '../../../lib/format.js';
import type { RunEvent } from '../run-view.js';
import styles from './timeline.module.css';

/** An event as it is shown. */
export interface TimelineItem {
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

interface Props {
  readonly item: TimelineItem;
  readonly isOpen: boolean;
  readonly onTurn: (id: number) => void;
}

/** One event; its payload unfolds. */
export const TimelineRow = memo(function TimelineRow({ item, isOpen, onTurn }: Props) {
  const { event, attempt, afterMs } = item;
  const { id, t, type, msg, payload } = event;
  const size = Object.keys(payload).length;
  const hint = msg === '' || type === 'SUBMITTED' ? hintOf(payload) : '';
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
          {type === 'PROGRESS' && typeof msg === 'number' ? `${msg} %` : msg}
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
