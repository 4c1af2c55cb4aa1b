import { useCallback, useMemo, useState } from 'react';
import { Button } from '../../components/button.js';
import { DataTable } from '../../components/data-table.js';
import { EmptyState } from '../../components/empty-state.js';
import { LiveDot } from '../../components/live-dot.js';
import { Pager } from '../../components/pager.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { formatCount } from '../../lib/format.js';
import { useSession } from '../../session/session-context.js';
import { PageHeader } from '../../shell/page-header.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { BulkDialog } from './bulk-dialog.js';
import type { BulkAction } from './bulk-view.js';
import { FilterChips } from './filter-chips.js';
import { NewRunDialog } from './new-run-dialog.js';
import { RUN_COLUMNS } from './run-columns.js';
import { RunFilterBar } from './run-filter-bar.js';
import {
  filtersOf,
  isFiltered,
  NEWEST_PAGE,
  NO_FILTERS,
  RUN_PARAMETERS,
  type RunFilters,
} from './run-filters.js';
import type { Run } from './run-view.js';
import styles from './runs-page.module.css';
import { SelectionBar } from './selection-bar.js';
import { useChosenRuns } from './use-chosen-runs.js';
import { useHeldRows } from './use-held-rows.js';
import { useNewRuns } from './use-new-runs.js';
import { useRunPage } from './use-run-page.js';

const ROW_HEIGHT = { line: 44, card: 196 };

/** Every run, newest first: filtered, in pages, and many at a time to cancel or retry. */
export default function RunsPage() {
  const { may } = useSession();
  const mayChange = may('client');
  const [parameters, setParameters] = useUrlFilters(RUN_PARAMETERS);
  const filters = useMemo(() => filtersOf(parameters), [parameters]);
  const page = useRunPage(filters, parameters, setParameters);
  const [action, setAction] = useState<BulkAction>();
  const [isNew, setNew] = useState(false);
  const [isPanelOpen, setPanelOpen] = useState(false);

  const chosen = useChosenRuns(page.runs);
  const isChoosing = chosen.runs.length > 0;
  const { rows, heldBack } = useHeldRows(page.runs, isChoosing, JSON.stringify(parameters));
  const fresh = useNewRuns(filters, !page.isNewest);
  const filter = useCallback(
    (change: Partial<RunFilters>) => setParameters({ ...NEWEST_PAGE, ...change }),
    [setParameters],
  );
  const clear = (): void => filter(NO_FILTERS);
  const showNewest = (): void => {
    chosen.clear();
    setParameters(NEWEST_PAGE, { isNewPage: !page.isNewest });
    scrollTo({ top: 0 });
  };

  useShortcut('f', 'Show or hide the filters', () => setPanelOpen((isOpen) => !isOpen));
  useShortcut('n', 'Next page: older runs', () => page.toOlder?.());
  useShortcut('p', 'Previous page: newer runs', () => page.toNewer?.());
  useShortcut('c', 'Create a run', () => mayChange && setNew(true));
  useShortcut('a', 'Select every run of the page', () => mayChange && chosen.toggleAll(rows ?? []));
  useShortcut('Escape', 'Clear the selection', chosen.clear);

  const isAnyFilter = isFiltered(filters);
  const { isError, error, refetch } = page.answer;
  const news = page.isNewest ? { count: heldBack, areMore: false } : fresh;
  return (
    <>
      <PageHeader
        title="Runs"
        note={<LiveDot state={isError || rows === undefined ? 'waiting' : isChoosing ? 'paused' : 'live'} />}
        actions={
          <>
            <Button
              aria-expanded={isPanelOpen}
              aria-controls="run-filters"
              onClick={() => setPanelOpen((isOpen) => !isOpen)}
            >
              Filters
            </Button>
            {mayChange && (
              <Button kind="primary" onClick={() => setNew(true)}>
                New run
              </Button>
            )}
          </>
        }
      />
      <RunFilterBar filters={filters} onChange={filter} isOpen={isPanelOpen} runs={rows} />
      <div className={styles.strip}>
        <FilterChips filters={filters} onRemove={(name) => filter({ [name]: '' })} />
        {isAnyFilter && (
          <Button size="small" kind="quiet" onClick={clear}>
            Clear filters
          </Button>
        )}
        {news.count > 0 && (
          <Button size="small" className={styles.news} onClick={showNewest}>
            {formatCount(news.count)}
            {news.areMore && '+'} new {news.count === 1 ? 'run' : 'runs'}
          </Button>
        )}
      </div>
      <DataTable
        label="Runs"
        columns={RUN_COLUMNS}
        rows={rows}
        rowKey={keyOf}
        rowHref={hrefOf}
        rowHeight={ROW_HEIGHT}
        error={error}
        onRetry={() => void refetch()}
        empty={
          <NoRuns isFiltered={isAnyFilter} isNewest={page.isNewest} onClear={clear} onNewest={showNewest} />
        }
        {...(mayChange ? { selection: chosen.selection } : {})}
      />
      <div className={styles.foot}>
        <Pager
          label="runs"
          onPrevious={page.toNewer}
          onNext={page.toOlder}
          {...(rows === undefined ? {} : { note: noteOf(rows.length, page.isNewest) })}
        />
      </div>
      <SelectionBar count={chosen.runs.length} onAct={setAction} onClear={chosen.clear} />
      {action !== undefined && (
        <BulkDialog
          action={action}
          runs={chosen.runs}
          onClose={() => setAction(undefined)}
          onDone={chosen.clear}
        />
      )}
      <NewRunDialog isOpen={isNew} onClose={() => setNew(false)} images={imagesOf(rows)} />
    </>
  );
}

interface NoRunsProps {
  readonly isFiltered: boolean;
  readonly isNewest: boolean;
  readonly onClear: () => void;
  readonly onNewest: () => void;
}

function NoRuns({ isFiltered: isAnyFilter, isNewest, onClear, onNewest }: NoRunsProps) {
  if (!isNewest) {
    return (
      <EmptyState
        icon="runs"
        title="No runs on this page"
        action={<Button onClick={onNewest}>Newest runs</Button>}
      />
    );
  }
  if (isAnyFilter) {
    return (
      <EmptyState title="No run fits these filters" action={<Button onClick={onClear}>Clear filters</Button>}>
        Definition, image and topic are compared to the letter.
      </EmptyState>
    );
  }
  return (
    <EmptyState icon="runs" title="No runs yet">
      Create one with the button above, or over the API: POST /runs.
    </EmptyState>
  );
}

function noteOf(count: number, isNewest: boolean): string {
  const runs = `${formatCount(count)} ${count === 1 ? 'run' : 'runs'}`;
  return isNewest ? `Newest ${runs}` : runs;
}

function keyOf({ id }: Run): string {
  return id;
}

function hrefOf({ id }: Run): string {
  return `/runs/${encodeURIComponent(id)}`;
}

function imagesOf(runs: readonly Run[] | undefined): string[] {
  return [...new Set(runs?.map(({ image }) => image))].toSorted();
}
