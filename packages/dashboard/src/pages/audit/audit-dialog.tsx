import { Fact } from '../../components/values/fact.js';
import { ChangeList } from '../../components/values/change-list.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { Time } from '../../components/values/time.js';
import { Subject } from './audit-subject.js';
import { changesOf, summaryOf, type AuditEntry } from './audit-view.js';
import styles from './audit-page.module.css';

interface Props {
  /** Undefined for none. */
  readonly entry: AuditEntry | undefined;
  readonly onClose: () => void;
}

/** One change, field by field. */
export function AuditDialog({ entry, onClose }: Props) {
  return (
    <Dialog
      isOpen={entry !== undefined}
      onClose={onClose}
      title={entry === undefined ? '' : `Change ${entry.id}`}
      width="wide"
    >
      {entry !== undefined && <Details entry={entry} />}
    </Dialog>
  );
}

function Details({ entry }: { readonly entry: AuditEntry }) {
  const changes = changesOf(entry);
  return (
    <>
      <dl className={styles.facts}>
        <Fact name="Time">
          <Time at={entry.t} />
        </Fact>
        <Fact name="Key">{entry.key_name}</Fact>
        <Fact name={entry.run_id === null ? summaryOf(entry) : 'Run'}>
          <Subject entry={entry} />
          <CopyButton what={entry.run_id === null ? 'id' : 'run id'} text={entry.subject} />
        </Fact>
      </dl>
      {changes.length === 0 ? (
        <p className="muted">The change had no effect.</p>
      ) : (
        <ChangeList label="What changed" changes={changes} />
      )}
    </>
  );
}
