import { RUN_STATES, TERMINAL_STATES, type RunState } from '@longshore/client/constants';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { ApiError, unwrap } from '../../api/answers.js';
import { useApi, type Run } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { ReasonField } from '../../components/controls/reason-field.js';
import { ConfirmDialog, Dialog } from '../../components/feedback/dialog.js';
import { StateBadge } from '../../components/values/badge.js';
import { RunLink } from '../../components/values/named-links.js';
import { countRuns, formatCount } from '../../lib/format.js';
import { newKey } from '../../lib/new-key.js';
import styles from './bulk-dialog.module.css';

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
  const [reason, setReason] = useState('');
  const bulk = useBulkAction(action, ids, reason.trim());
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
      {action === 'cancel' && <ReasonField value={reason} onChange={setReason} />}
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

/** What can be done to many runs. */
type BulkAction = 'cancel' | 'retry';

/** Runs of one state, and what the action means to them. */
interface BulkGroup {
  readonly state: RunState;
  readonly runs: readonly Run[];
  readonly isRefused: boolean;
  readonly effect: string;
}

const EFFECTS: Readonly<Record<BulkAction, Readonly<Record<RunState, string>>>> = {
  cancel: {
    PENDING: 'Cancelled before they start.',
    ASSIGNED: 'Cancelled; the worker does not start them.',
    RUNNING: 'Cancelled; their containers are stopped.',
    COMPLETED: 'Refused: they have completed.',
    FAILED: 'Refused: they have failed.',
    CANCELLED: 'Refused: already cancelled.',
  },
  retry: {
    PENDING: 'Another attempt replaces the pending one.',
    ASSIGNED: 'Another attempt starts; the current one is abandoned.',
    RUNNING: 'Another attempt starts; the current one is abandoned and its container stopped.',
    COMPLETED: 'Run again, although they have completed; outputs are replaced.',
    FAILED: 'Another attempt opens.',
    CANCELLED: 'Another attempt opens.',
  },
};

/** The runs by state, and what will become of them as far as their states say. */
function groupRuns(action: BulkAction, runs: readonly Run[]): readonly BulkGroup[] {
  return RUN_STATES.map((state) => ({
    state,
    runs: runs.filter((run) => run.state === state),
    isRefused: action === 'cancel' && TERMINAL_STATES.has(state),
    effect: EFFECTS[action][state],
  })).filter((group) => group.runs.length > 0);
}

/** The list in parts of a length. */
function inParts<T>(items: readonly T[], length: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / length) }, (_, part) =>
    items.slice(part * length, (part + 1) * length),
  );
}

/** Ids that one request may carry. */
const MOST_IDS = 100;

/** What became of one run; without a refusal it was done. */
interface BulkResult {
  readonly id: string;
  readonly refusal?: string;
}

/**
 * Does something to many runs. After a lost answer it may be asked again: what was done is not done twice.
 * @param reason of a cancel; empty: none
 * @param ids stay the same as long as the component lives
 */
function useBulkAction(action: BulkAction, ids: readonly string[], reason: string) {
  const api = useApi();
  const queries = useQueryClient();
  const done = useRef(new Map<string, BulkResult>());
  const key = useRef(`dashboard-${action}-${newKey()}`);
  return useMutation({
    mutationFn: async (): Promise<readonly BulkResult[]> => {
      for (const [part, some] of inParts(ids, MOST_IDS).entries()) {
        if (some.every((id) => done.current.has(id))) continue;
        const body = { ids: some };
        const params = { header: { 'Idempotency-Key': `${key.current}-${part}` } };
        const { results } = await unwrap(
          action === 'cancel'
            ? api.POST('/runs/batch/cancel', { body: { ...body, ...(reason !== '' && { reason }) }, params })
            : api.POST('/runs/batch/retry', { body, params }),
        );
        for (const [place, id] of some.entries()) {
          const result = results[place];
          const refusal = result !== undefined && 'error' in result ? { refusal: result.error.detail } : {};
          done.current.set(id, { id, ...refusal });
        }
      }
      return [...done.current.values()];
    },
    onSettled: () =>
      Promise.all(['runs', 'overview'].map((name) => queries.invalidateQueries({ queryKey: [name] }))),
  });
}

/** Requests at a time. */
const TOGETHER = 8;
/** Above this number what was last seen has to do. */
const MOST = 200;

/**
 * The runs as they are now: what was seen of a run on another page may be long out of date.
 * @returns what was seen until the answers are there; `gone`: how many are there no longer
 */
function useFreshRuns(
  seen: readonly Run[],
  isOn: boolean,
): { readonly runs: readonly Run[]; readonly gone: number } {
  const api = useApi();
  const ids = seen.map(({ id }) => id);
  const fresh = useQuery({
    queryKey: ['chosen-runs', ids],
    queryFn: async ({ signal }) => {
      const runs: Run[] = [];
      for (const part of inParts(ids, TOGETHER)) {
        const answers = part.map((id) => {
          const params = { path: { id }, query: { include_events: false } };
          return unwrap(api.GET('/runs/{id}', { params, signal })).catch(unlessGone);
        });
        runs.push(...(await Promise.all(answers)).filter((run) => run !== null));
      }
      return runs;
    },
    enabled: isOn && seen.length <= MOST,
    gcTime: 0,
  });
  const runs = fresh.data ?? seen;
  return { runs, gone: seen.length - runs.length };
}

function unlessGone(error: unknown): null {
  if (error instanceof ApiError && error.status === 404) return null;
  throw error;
}
