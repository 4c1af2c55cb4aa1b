import { Fact } from '../../components/values/fact.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { JsonTree } from '../../components/values/json-tree.js';
import { RunLink } from '../../components/values/named-links.js';
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
            {event.msg}
          </Fact>
        )}
      </dl>
      <JsonTree label="payload" value={event.payload} />
    </>
  );
}
