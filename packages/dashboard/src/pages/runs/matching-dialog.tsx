import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { describeError, unwrap } from '../../api/answers.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Field, TextInput } from '../../components/controls/inputs.js';
import { ReasonField } from '../../components/controls/reason-field.js';
import { ConfirmDialog, Dialog } from '../../components/feedback/dialog.js';
import { RunLink } from '../../components/values/named-links.js';
import { ProgressBar } from '../../components/values/progress-bar.js';
import { countRuns, formatCount } from '../../lib/format.js';
import { newKey } from '../../lib/new-key.js';
import { PairRows } from '../../run-form/form-rows.js';
import type { Pair } from '../../run-form/form-values.js';
import { LABELS_FIELD } from '../../run-form/run-fields.js';
import styles from './bulk-dialog.module.css';
import { isFiltered, toQuery, type RunFilters } from './run-filters.js';

const TEXTS: Readonly<Record<MatchingAction, { verb: string; done: string; effect: string }>> = {
  cancel: {
    verb: 'Cancel',
    done: 'cancelled',
    effect: 'Those that have ended are refused; containers of running ones are stopped.',
  },
  retry: {
    verb: 'Retry',
    done: 'retried',
    effect:
      'Each gets another attempt if it is still in its state then. Without a state in the filter, only failed and cancelled runs.',
  },
  labels: { verb: 'Label', done: 'labelled', effect: 'Other labels of the runs stay as they are.' },
};

interface Props {
  readonly action: MatchingAction;
  readonly filters: RunFilters;
  readonly onClose: () => void;
  /** Called when the operation has ended. */
  readonly onDone: () => void;
}

/** Asks before all runs that match the filters are changed, and shows how far it is. */
export function MatchingDialog({ action, filters: seen, onClose, onDone }: Props) {
  const [filters] = useState(seen);
  const { data: found, error: uncounted } = useMatching(
    filters,
    true,
    action === 'retry' ? action : 'cancel',
  );
  const matched = found?.matched;
  const { start, operation, stop } = useBulkOperation(action, filters, matched);
  const [pairs, setPairs] = useState<readonly Pair[]>([{ name: '', value: '' }]);
  const [removed, setRemoved] = useState('');
  const [reason, setReason] = useState('');
  const { verb, effect } = TEXTS[action];
  const isEnded = operation.data !== undefined && operation.data.state !== 'running';
  useEffect(() => {
    if (isEnded) onDone();
  }, [isEnded, onDone]);

  if (start.data !== undefined) {
    return (
      <Progress
        action={action}
        operation={operation.data}
        error={operation.error ?? stop.error}
        isStopping={stop.isPending}
        onStop={() => stop.mutate()}
        onClose={onClose}
      />
    );
  }
  const labels = changesOf(pairs, removed);
  const runs = matched === undefined ? 'runs' : countRuns(matched);
  return (
    <ConfirmDialog
      isOpen
      onClose={onClose}
      title={`${verb} ${runs}?`}
      width="wide"
      confirmLabel={`${verb} ${runs}`}
      isDangerous={action === 'cancel'}
      isDisabled={
        matched === undefined || matched === 0 || (action === 'labels' && Object.keys(labels).length === 0)
      }
      onConfirm={() => start.mutateAsync({ labels, reason: reason.trim() })}
      onDone={() => undefined}
    >
      <p>All runs that match the filters now, on this page and on others. {effect}</p>
      <p aria-live="polite">
        {found === undefined ? uncounted && describeError(uncounted) : statesOf(found)}
      </p>
      {action === 'cancel' && <ReasonField value={reason} onChange={setReason} />}
      {action === 'labels' && (
        <div className={styles.groups}>
          <PairRows
            label={LABELS_FIELD.label}
            hint={LABELS_FIELD.hint}
            error={undefined}
            pairs={pairs}
            onChange={setPairs}
          />
          <Field label="Labels to remove" hint="Keys, separated by commas.">
            {(control) => <TextInput {...control} value={removed} onChange={setRemoved} />}
          </Field>
        </div>
      )}
    </ConfirmDialog>
  );
}

interface ProgressProps {
  readonly action: MatchingAction;
  readonly operation: Schemas['BulkOperation'] | undefined;
  readonly error: Error | null;
  readonly isStopping: boolean;
  readonly onStop: () => void;
  readonly onClose: () => void;
}

function Progress({ action, operation, error, isStopping, onStop, onClose }: ProgressProps) {
  const { matched = 0, done = 0, remaining = 0, refused = [], state = 'running' } = operation ?? {};
  const refusals = matched - done - remaining;
  const { done: participle } = TEXTS[action];
  const isRunning = state === 'running';
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title={
        operation === undefined
          ? 'Started'
          : `${countRuns(done)} ${participle}${refusals === 0 ? '' : `, ${formatCount(refusals)} refused`}`
      }
      width="wide"
      actions={
        <>
          {isRunning && (
            <Button kind="danger" isBusy={isStopping} onClick={onStop}>
              Stop
            </Button>
          )}
          <Button kind="primary" onClick={onClose} data-autofocus>
            {isRunning ? 'Go on in the background' : 'Done'}
          </Button>
        </>
      }
    >
      <ProgressBar
        label="Runs that are done"
        percent={matched === 0 ? 100 : Math.floor((100 * (matched - remaining)) / matched)}
      />
      {state === 'stopped' && <p>Stopped: {countRuns(remaining)} stay as they are.</p>}
      <ul className={styles.results} aria-label="Refused runs">
        {refused.map(({ id, detail }) => (
          <li key={id}>
            <RunLink id={id} />
            <span className={styles.refused}>Refused: {detail}</span>
          </li>
        ))}
      </ul>
      {refusals > refused.length && <p>The first {formatCount(refused.length)} of the refused ones.</p>}
      <p role="alert" className={styles.error}>
        {error !== null && describeError(error)}
      </p>
    </Dialog>
  );
}

function changesOf(pairs: readonly Pair[], removed: string): LabelChanges {
  const keys = removed.split(',').map((key) => key.trim());
  return Object.fromEntries([
    ...keys.filter((key) => key !== '').map((key) => [key, null] as const),
    ...pairs.filter(({ name }) => name.trim() !== '').map(({ name, value }) => [name.trim(), value] as const),
  ]);
}

/** Milliseconds between two looks at an operation that is running. */
const EVERY_MS = 500;

/** What can be done to all runs that match. */
export type MatchingAction = 'cancel' | 'retry' | 'labels';

/** Labels to set, by key; null removes one. */
type LabelChanges = Readonly<Record<string, string | null>>;

/** What the dialog asks for beside the action. */
interface Change {
  readonly labels: LabelChanges;
  /** Empty: none. */
  readonly reason: string;
}

function filterOf(filters: RunFilters) {
  const code = filters.exit_code === '' ? {} : { exit_code: Number(filters.exit_code) };
  return { filter: { ...toQuery(filters), ...code }, ...(isFiltered(filters) ? {} : { all: true }) };
}

/** How many are in each state, such as `2 FAILED, 1 CANCELLED`. */
function statesOf({ by_state: byState }: Schemas['BulkOperationPreview']): string {
  return Object.entries(byState)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${formatCount(count)} ${state}`)
    .join(', ');
}

/** The runs that match the filters, as far as they may be changed at once; for a retry those that it is for. */
export function useMatching(filters: RunFilters, isOn: boolean, action: 'cancel' | 'retry' = 'cancel') {
  const api = useApi();
  return useQuery({
    queryKey: ['matching-runs', action, filters],
    queryFn: async ({ signal }) => {
      const body = { action, ...filterOf(filters), dry_run: true } as const;
      const found = await unwrap(api.POST('/bulk-operations', { body, signal }));
      if ('by_state' in found) return found;
      throw new Error('The service answered with another response');
    },
    enabled: isOn,
    gcTime: 0,
    retry: false,
  });
}

/** Changes all runs that match the filters, in the service, and follows how far it is. */
function useBulkOperation(action: MatchingAction, filters: RunFilters, expect: number | undefined) {
  const api = useApi();
  const queries = useQueryClient();
  const key = useRef(`dashboard-${action}-${newKey()}`);
  const start = useMutation({
    mutationFn: async ({ labels, reason }: Change): Promise<string> => {
      const value = action === 'labels' ? { value: labels } : {};
      const why = reason === '' ? {} : { reason };
      const body = {
        action,
        ...filterOf(filters),
        ...value,
        ...why,
        ...(expect === undefined ? {} : { expect }),
      };
      const params = { header: { 'Idempotency-Key': key.current } };
      const started = await unwrap(api.POST('/bulk-operations', { body, params }));
      if ('id' in started) return started.id;
      throw new Error('The service answered with another response');
    },
    // The number may have changed: the question is asked again with the new one.
    onError: () => queries.invalidateQueries({ queryKey: ['matching-runs'] }),
  });
  const id = start.data;
  const path = { id: id ?? '' };
  const operation = useQuery({
    queryKey: ['bulk-operations', id],
    queryFn: async ({ signal }): Promise<Schemas['BulkOperation']> => {
      const shown = await unwrap(api.GET('/bulk-operations/{id}', { params: { path }, signal }));
      if (shown.state !== 'running') {
        await Promise.all(
          ['runs', 'overview'].map((name) => queries.invalidateQueries({ queryKey: [name] })),
        );
      }
      return shown;
    },
    enabled: id !== undefined,
    refetchInterval: ({ state }) =>
      state.data === undefined || state.data.state === 'running' ? EVERY_MS : false,
  });
  const stop = useMutation({
    mutationFn: () => unwrap(api.POST('/bulk-operations/{id}/stop', { params: { path } })),
    onSettled: () => queries.invalidateQueries({ queryKey: ['bulk-operations', id] }),
  });
  return { start, operation, stop };
}
