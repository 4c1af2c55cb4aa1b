import { useCallback, useMemo, useState } from 'react';
import { unwrapPages } from '../../api/answers.js';
import { useApi, useLive } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Field, Select } from '../../components/controls/inputs.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { DataTable } from '../../components/table/data-table.js';
import { FilterBar, SearchInput } from '../../components/table/filter-bar.js';
import { LiveDot } from '../../components/values/live-dot.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { formatCount } from '../../lib/format.js';
import { useSession } from '../../session/session-context.js';
import { PageHeader } from '../../shell/page-header.js';
import { PauseDialog } from './pause-dialog.js';
import { DRAIN_COLUMN, WORKER_COLUMNS } from './worker-columns.js';
import { WorkerDialog } from './worker-dialog.js';
import { countStates, matches, stateOf, WORKER_STATES, type Worker } from './worker-view.js';

const FILTERS = ['q', 'state', 'worker'] as const;
const STATE_OPTIONS = [
  ['', 'Every state'],
  ...WORKER_STATES.map((state) => [state as string, state] as const),
] as const;
const ROW_HEIGHT = { line: 56, card: 236 };

/** Every registered worker: what it has, what it does, and when it was last heard of. */
export default function WorkersPage() {
  const api = useApi();
  const { may } = useSession();
  const [filters, setFilters] = useUrlFilters(FILTERS);
  const [isPausing, setPausing] = useState(false);
  const { data, error, isError, refetch } = useLive({
    queryKey: ['workers'],
    queryFn: ({ signal }) =>
      unwrapPages(
        (query) => api.GET('/workers', { params: { query }, signal }),
        ({ id }) => id,
      ),
  });

  const shown = useMemo(
    () =>
      data
        ?.filter((worker) => filters.state === '' || stateOf(worker) === filters.state)
        .filter((worker) => matches(worker, filters.q))
        .toSorted((left, right) => left.id.localeCompare(right.id, 'en', { numeric: true })),
    [data, filters.q, filters.state],
  );
  const columns = useMemo(() => (may() ? [...WORKER_COLUMNS, DRAIN_COLUMN] : WORKER_COLUMNS), [may]);
  const open = useCallback(
    (worker: Worker) => setFilters({ worker: worker.id }, { isNewPage: true }),
    [setFilters],
  );
  const clear = (): void => setFilters({ q: '', state: '' });
  const isFiltered = filters.q !== '' || filters.state !== '';
  const counts = countStates(data ?? []);

  return (
    <>
      <PageHeader
        title="Workers"
        note={
          <>
            <LiveDot state={isError || data === undefined ? 'waiting' : 'live'} />
            {data !== undefined &&
              WORKER_STATES.map((state) => (
                <span key={state}>
                  {formatCount(counts[state])} {state}
                </span>
              ))}
          </>
        }
        {...(may() ? { actions: <Button onClick={() => setPausing(true)}>Pause runs</Button> } : {})}
      />
      {isPausing && <PauseDialog onClose={() => setPausing(false)} />}
      <FilterBar label="Filter workers" isActive={isFiltered} onClear={clear}>
        <SearchInput
          label="Search workers"
          placeholder="Id, tag, engine, run or image"
          value={filters.q}
          onChange={(q) => setFilters({ q })}
        />
        <Field label="State" isLabelHidden>
          {(control) => (
            <Select
              {...control}
              value={filters.state}
              options={STATE_OPTIONS}
              onChange={(state) => setFilters({ state })}
            />
          )}
        </Field>
      </FilterBar>
      <DataTable
        label="Workers"
        columns={columns}
        rows={shown}
        rowKey={keyOf}
        onOpen={open}
        rowHeight={ROW_HEIGHT}
        error={error}
        onRetry={() => void refetch()}
        empty={
          isFiltered ? (
            <EmptyState
              title="No worker matches these filters"
              action={<Button onClick={clear}>Clear filters</Button>}
            />
          ) : (
            <EmptyState icon="workers" title="No worker has registered yet">
              Start one beside the service: <code>npm run worker</code>, with SERVICE_URL and SERVICE_API_KEY
              set. It shows up here with its first heartbeat.
            </EmptyState>
          )
        }
      />
      <WorkerDialog
        id={filters.worker}
        worker={data?.find(({ id }) => id === filters.worker)}
        onClose={() => setFilters({ worker: '' })}
      />
    </>
  );
}

function keyOf({ id }: Worker): string {
  return id;
}
