import { ChangeList } from '../../components/change-list.js';
import { CopyButton } from '../../components/copy-button.js';
import { Dialog } from '../../components/dialog.js';
import { RunLink } from '../../components/run-link.js';
import { Time } from '../../components/time.js';
import { changesOf, type AuditEntry } from './audit-view.js';
import styles from './audit-page.module.css';

interface Props {
  /** Undefined for none. */
  readonly entry: AuditEntry | undefined;
  readonly onClose: () => void;
}

/** One direct change of a run, field by field. */
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
        <div>
          <dt>Time</dt>
          <dd>
            <Time at={entry.t} />
          </dd>
        </div>
        <div>
          <dt>Key</dt>
          <dd>{entry.key_name}</dd>
        </div>
        <div>
          <dt>Run</dt>
          <dd>
            <RunLink id={entry.run_id} />
            <CopyButton what="run id" text={entry.run_id} />
          </dd>
        </div>
      </dl>
      {changes.length === 0 ? (
        <p className="muted">The change had no effect.</p>
      ) : (
        <ChangeList label="What changed" changes={changes} />
      )}
    </>
  );
}
