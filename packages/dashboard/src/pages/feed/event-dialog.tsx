import { CopyButton } from '../../components/controls/copy-button.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { JsonTree } from '../../components/values/json-tree.js';
import { RunLink } from '../../components/values/run-link.js';
import { StateBadge } from '../../components/values/state-badge.js';
import { Time } from '../../components/values/time.js';
import type { FeedEvent } from './feed-buffer.js';
import styles from './feed-page.module.css';

interface Props {
  /** Undefined for none. */
  readonly event: FeedEvent | undefined;
  readonly onClose: () => void;
}

/** Everything about one event of a feed. */
export function EventDialog({ event, onClose }: Props) {
  return (
    <Dialog isOpen={event !== undefined} onClose={onClose} title={event?.type ?? ''} width="wide">
      {event !== undefined && <Details event={event} />}
    </Dialog>
  );
}

function Details({ event }: { readonly event: FeedEvent }) {
  return (
    <>
      <dl className={styles.facts}>
        <div>
          <dt>Run</dt>
          <dd>
            <RunLink id={event.run_id} />
            <CopyButton what="run id" text={event.run_id} />
          </dd>
        </div>
        <div>
          <dt>State after it</dt>
          <dd>
            <StateBadge state={event.state} />
          </dd>
        </div>
        <div>
          <dt>Attempt</dt>
          <dd>{event.attempt}</dd>
        </div>
        <div>
          <dt>Time</dt>
          <dd>
            <Time at={event.t} />
          </dd>
        </div>
        <div>
          <dt>Cursor</dt>
          <dd>
            <code>{event.cursor}</code>
            <CopyButton what="cursor" text={event.cursor} />
          </dd>
        </div>
        {event.msg !== '' && (
          <div className={styles.message}>
            <dt>Message</dt>
            <dd>{event.msg}</dd>
          </div>
        )}
      </dl>
      <JsonTree label="payload" value={event.payload} />
    </>
  );
}
