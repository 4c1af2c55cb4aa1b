import { useState } from 'react';
import { Button } from '../../components/controls/button.js';
import { ConfirmDialog } from '../../components/feedback/confirm-dialog.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { RunLink } from '../../components/values/named-links.js';
import { StateBadge } from '../../components/values/state-badge.js';
import { countRuns, formatCount } from '../../lib/format.js';
import styles from './bulk-dialog.module.css';
import { groupRuns, type BulkAction, type BulkGroup } from './bulk-view.js';
import { useBulkAction, type BulkResult } from './use-bulk-action.js';
import { useFreshRuns } from './use-fresh-runs.js';
import type { Run } from './run-view.js';

const VERBS = { cancel: ['Cancel', 'cancelled'], retry: ['Retry', 'retried'] } as const;

interface Props {
  readonly action: BulkAction;
  /** As they were when they were last seen. */
  readonly runs: readonly Run[];
  readonly onClose: () => void;
  /** Called when the service has answered for every run. */
  readonly onDone: () => void;
}

/** Says what will happen to the runs that were chosen, does it, and says what became of each. */
export function BulkDialog({ action, runs: seen, onClose, onDone }: Props) {
  const [chosen] = useState(seen);
  const [ids] = useState(() => seen.map(({ id }) => id));
  const bulk = useBulkAction(action, ids);
  const { runs, gone } = useFreshRuns(chosen, bulk.data === undefined && !bulk.isPending);
  const groups = groupRuns(action, runs);
  const able = groups
    .filter(({ isRefused }) => !isRefused)
    .reduce((sum, group) => sum + group.runs.length, 0);
  const [verb] = VERBS[action];

  if (bulk.data !== undefined) {
    return <Results action={action} results={bulk.data} onClose={onClose} />;
  }
  return (
    <ConfirmDialog
      isOpen
      onClose={onClose}
      title={`${verb} ${countRuns(ids.length)}?`}
      width="wide"
      confirmLabel={bulk.isError ? 'Try again' : `${verb} ${countRuns(able)}`}
      isDangerous={action === 'cancel'}
      isDisabled={able === 0}
      onConfirm={() => bulk.mutateAsync()}
      onDone={onDone}
    >
      <p>
        {able === ids.length
          ? `${ids.length === 1 ? 'It is' : 'All of them are'} in a state that allows it.`
          : `${formatCount(able)} of ${countRuns(ids.length)} can be ${VERBS[action][1]}. States may change meanwhile: the service decides for each.`}
      </p>
      <ul className={styles.groups}>
        {groups.map((group) => (
          <Group key={group.state} group={group} />
        ))}
        {gone > 0 && (
          <li className={styles.group}>
            <span className={styles.count}>{formatCount(gone)}</span>
            <span>gone</span>
            <p>Refused: no longer there.</p>
          </li>
        )}
      </ul>
    </ConfirmDialog>
  );
}

function Group({ group: { state, runs, effect } }: { readonly group: BulkGroup }) {
  return (
    <li className={styles.group}>
      <span className={styles.count}>{formatCount(runs.length)}</span>
      <span>
        <StateBadge state={state} />
      </span>
      <p>{effect}</p>
      <details className={styles.which}>
        <summary>Which</summary>
        <ul className={styles.ids}>
          {runs.map(({ id }) => (
            <li key={id}>
              <RunLink id={id} />
            </li>
          ))}
        </ul>
      </details>
    </li>
  );
}

interface ResultsProps {
  readonly action: BulkAction;
  readonly results: readonly BulkResult[];
  readonly onClose: () => void;
}

function Results({ action, results, onClose }: ResultsProps) {
  const refused = results.filter(({ refusal }) => refusal !== undefined);
  const done = results.length - refused.length;
  // What was refused first: it is what people look for.
  const sorted = [...refused, ...results.filter(({ refusal }) => refusal === undefined)];
  const [, participle] = VERBS[action];
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title={`${countRuns(done)} ${participle}${refused.length === 0 ? '' : `, ${formatCount(refused.length)} refused`}`}
      width="wide"
      actions={
        <Button kind="primary" onClick={onClose} data-autofocus>
          Done
        </Button>
      }
    >
      <ul className={styles.results} aria-label="Result for each run">
        {sorted.map(({ id, refusal }) => (
          <li key={id}>
            <RunLink id={id} />
            <span className={refusal === undefined ? 'muted' : styles.refused}>
              {refusal === undefined ? participle : `Refused: ${refusal}`}
            </span>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
