import { RUN_STATES } from '@longshore/client/constants';
import { useMemo } from 'react';
import type { Run } from '../../api/use-api.js';
import { Select } from '../../components/controls/inputs.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { DataTable, type Column } from '../../components/table/data-table.js';
import { FilterBar } from '../../components/table/filter-bar.js';
import { Pager } from '../../components/table/pager.js';
import { Line } from '../../components/values/facts.js';
import { useMedia } from '../../hooks/use-media.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { countRuns, shortId } from '../../lib/format.js';
import { NARROW_COLUMNS, ROOM_FOR_ALL, ROW_HEIGHT, WIDE_COLUMNS } from '../runs/run-columns.js';
import { NEWEST_PAGE, NO_FILTERS } from '../runs/run-filters.js';
import { useRunPage } from '../runs/use-run-page.js';

const PARAMETERS = ['state', 'starting_after', 'ending_before'] as const;
const OPTIONS = [
  ['', 'Every state'],
  ...RUN_STATES.map((state) => [state, state.toLowerCase()] as const),
] as const;
const MEMBER: Column<Run> = {
  header: 'Member',
  width: 'minmax(5rem, 1.5fr)',
  cell: (run) => <Line text={memberOf(run)} />,
};
const WIDE = WIDE_COLUMNS.toSpliced(1, 0, MEMBER);
const NARROW = NARROW_COLUMNS.toSpliced(2, 0, MEMBER);

/** The runs of a group, the newest first. */
export function GroupMembers({ id }: { readonly id: string }) {
  const isWide = useMedia(ROOM_FOR_ALL);
  const [parameters, setParameters] = useUrlFilters(PARAMETERS);
  const { state: entered, ...place } = parameters;
  const state = RUN_STATES.find((one) => one === entered) ?? '';
  const filters = useMemo(() => ({ ...NO_FILTERS, group: id, state }), [id, state]);
  const { runs, toNewer, toOlder, answer } = useRunPage(filters, { ...filters, ...place }, setParameters);
  return (
    <>
      <FilterBar
        label="Filter members"
        isActive={state !== ''}
        onClear={() => setParameters({ ...NEWEST_PAGE, state: '' })}
      >
        <Select
          aria-label="State"
          value={state}
          options={OPTIONS}
          onChange={(chosen) => setParameters({ ...NEWEST_PAGE, state: chosen })}
        />
      </FilterBar>
      <DataTable
        label="Members"
        columns={isWide ? WIDE : NARROW}
        rows={runs}
        rowKey={(run) => run.id}
        rowHref={(run) => `/runs/${encodeURIComponent(run.id)}`}
        rowHeight={ROW_HEIGHT}
        error={answer.error}
        onRetry={() => void answer.refetch()}
        empty={
          <EmptyState
            icon="runs"
            title={state === '' ? 'No member has been created yet' : `No member is ${state.toLowerCase()}`}
          />
        }
      />
      {(toNewer ?? toOlder) !== undefined && (
        <Pager
          label="members"
          onPrevious={toNewer}
          onNext={toOlder}
          {...(runs === undefined ? {} : { note: countRuns(runs.length) })}
        />
      )}
    </>
  );
}

/** The name of a member in its group: its ref, or its index in an array. */
export function memberOf({ id, group, array }: Run): string {
  return group?.ref ?? array?.index.toString() ?? shortId(id);
}
