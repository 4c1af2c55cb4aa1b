import { useCallback, useMemo, useState } from 'react';
import { ApiError } from '../../api/answers.js';
import type { Run } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { DataTable } from '../../components/table/data-table.js';
import { Pager } from '../../components/table/pager.js';
import { LiveDot } from '../../components/values/live-dot.js';
import { useMedia } from '../../hooks/use-media.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { countRuns, formatCount } from '../../lib/format.js';
import { useSession } from '../../session/session-context.js';
import { PageHeader } from '../../shell/page-header.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { BulkDialog } from './bulk-dialog.js';
import { MatchingDialog, useMatching, type MatchingAction } from './matching-dialog.js';
import { NewRunDialog } from './new-run-dialog.js';
import { NARROW_COLUMNS, ROOM_FOR_ALL, ROW_HEIGHT, WIDE_COLUMNS } from './run-columns.js';
import { FilterChips, RunFilterBar } from './run-filter-bar.js';
import {
  filtersOf,
  isFiltered,
  NEWEST_PAGE,
  NO_FILTERS,
  RUN_PARAMETERS,
  type RunFilters,
} from './run-filters.js';
import styles from './runs-page.module.css';
import { SavedViews } from './saved-views.js';
import { SelectionBar } from './selection-bar.js';
import { useChosenRuns, useHeldRows } from './use-chosen-runs.js';
import { PAGE_SIZE, useNewRuns, useRunPage } from './use-run-page.js';

/** Every run, newest first: filtered, in pages, and many at a time to cancel or retry. */
export default function RunsPage() {
  const { may } = useSession();
  const mayChange = may('client');
  const isWide = useMedia(ROOM_FOR_ALL);
  const [parameters, setParameters] = useUrlFilters(RUN_PARAMETERS);
  const filters = useMemo(() => filtersOf(parameters), [parameters]);
  const page = useRunPage(filters, parameters, setParameters);
  const [asked, setAsked] = useState<{ readonly action: MatchingAction; readonly isOfAll: boolean }>();
  const [isAllChosen, setAllChosen] = useState(false);
  const [isNew, setNew] = useState(false);
  const [isPanelOpen, setPanelOpen] = useState(false);

  const chosen = useChosenRuns(page.runs);
  const isChoosing = chosen.runs.length > 0;
  const isAll = isChoosing && isAllChosen;
  const matching = useMatching(filters, isAll);
  const clearChosen = chosen.clear;
  const unchoose = useCallback((): void => {
    setAllChosen(false);
    clearChosen();
  }, [clearChosen]);
  const { rows, heldBack } = useHeldRows(page.runs, isChoosing, JSON.stringify(parameters));
  const fresh = useNewRuns(filters, !page.isNewest);
  const filter = useCallback(
    (change: Partial<RunFilters>) => {
      setAllChosen(false);
      setParameters({ ...NEWEST_PAGE, ...change });
    },
    [setParameters],
  );
  const clear = (): void => filter(NO_FILTERS);
  const showNewest = (): void => {
    unchoose();
    setParameters(NEWEST_PAGE, { isNewPage: !page.isNewest });
    scrollTo({ top: 0 });
  };

  useShortcut('f', 'Show or hide the filters', () => setPanelOpen((isOpen) => !isOpen));
  useShortcut('n', 'Next page: older runs', () => page.toOlder?.());
  useShortcut('p', 'Previous page: newer runs', () => page.toNewer?.());
  useShortcut('c', 'Create a run', () => mayChange && setNew(true));
  useShortcut('a', 'Select every run of the page', () => mayChange && chosen.toggleAll(rows ?? []));
  useShortcut('Escape', 'Clear the selection', unchoose);

  const close = (): void => setAsked(undefined);
  const isAnyFilter = isFiltered(filters);
  const { isError, error, refetch } = page.answer;
  const refusal = error instanceof ApiError && error.status === 400 ? error.detail : undefined;
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
        <div className={styles.note}>
          {news.count === 0 ? (
            rows && noteOf(rows.length, page.isNewest)
          ) : (
            <Button size="small" onClick={showNewest}>
              {formatCount(news.count)}
              {news.areMore && '+'} new {news.count === 1 ? 'run' : 'runs'}
            </Button>
          )}
        </div>
        <Pager label="runs" onPrevious={page.toNewer} onNext={page.toOlder} />
        <div className={styles.filters}>
          {isAnyFilter && (
            <>
              <FilterChips filters={filters} onRemove={(name) => filter({ [name]: '' })} />
              <Button size="small" kind="quiet" onClick={clear}>
                Clear filters
              </Button>
            </>
          )}
          <SavedViews filters={isAnyFilter ? filters : undefined} />
        </div>
      </div>
      <DataTable
        label="Runs"
        columns={isWide ? WIDE_COLUMNS : NARROW_COLUMNS}
        rows={refusal === undefined ? rows : []}
        rowKey={keyOf}
        rowHref={hrefOf}
        rowHeight={ROW_HEIGHT}
        error={error}
        onRetry={() => void refetch()}
        empty={
          <NoRuns
            isAnyFilter={isAnyFilter}
            isNewest={page.isNewest}
            refusal={refusal}
            onClear={clear}
            onNewest={showNewest}
          />
        }
        {...(mayChange ? { selection: chosen.selection } : {})}
      />
      {rows !== undefined && (
        <div className={styles.foot}>
          {rows.length === PAGE_SIZE && (
            <Pager label="runs, below the list" onPrevious={page.toNewer} onNext={page.toOlder} />
          )}
        </div>
      )}
      <SelectionBar
        count={chosen.runs.length}
        matching={{ isChosen: isAll, count: matching.data?.matched, error: matching.error }}
        onChooseMatching={() => setAllChosen(true)}
        onAct={(action) => setAsked({ action, isOfAll: isAll })}
        onClear={unchoose}
      />
      {asked?.isOfAll === true && (
        <MatchingDialog action={asked.action} filters={filters} onClose={close} onDone={unchoose} />
      )}
      {asked?.isOfAll === false && asked.action !== 'labels' && (
        <BulkDialog action={asked.action} runs={chosen.runs} onClose={close} onDone={unchoose} />
      )}
      <NewRunDialog isOpen={isNew} onClose={() => setNew(false)} images={imagesOf(rows)} />
    </>
  );
}

function noteOf(count: number, isNewest: boolean): string {
  return isNewest ? `Newest ${countRuns(count)}` : countRuns(count);
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

interface Props {
  readonly isAnyFilter: boolean;
  readonly isNewest: boolean;
  /** What the service has against the address of the page. */
  readonly refusal: string | undefined;
  readonly onClear: () => void;
  readonly onNewest: () => void;
}

/** Why there are no runs to show, and the way to some. */
function NoRuns({ isAnyFilter, isNewest, refusal, onClear, onNewest }: Props) {
  const newest = <Button onClick={onNewest}>Newest runs</Button>;
  const clear = <Button onClick={onClear}>Clear filters</Button>;
  if (refusal !== undefined) {
    return (
      <EmptyState
        icon="warning"
        title={isNewest ? 'The service refused these filters' : 'This page no longer exists'}
        action={isNewest ? clear : newest}
      >
        {refusal}.
        {!isNewest &&
          ' Runs are removed when their retention is over, and pages that began with them go too.'}
      </EmptyState>
    );
  }
  if (!isNewest) return <EmptyState icon="runs" title="No runs on this page" action={newest} />;
  if (isAnyFilter) {
    return (
      <EmptyState title="No run matches these filters" action={clear}>
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
