import { useState } from 'react';
import { unwrapPages } from '../../api/unwrap.js';
import { useApi } from '../../api/use-api.js';
import { useLive } from '../../api/use-live.js';
import { Button } from '../../components/controls/button.js';
import { DataTable } from '../../components/table/data-table.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { FilterBar } from '../../components/table/filter-bar.js';
import { LiveDot } from '../../components/values/live-dot.js';
import { Pager } from '../../components/table/pager.js';
import { SearchInput } from '../../components/table/search-input.js';
import { splitPage, useCursorPages } from '../../hooks/use-cursor-pages.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { formatCount } from '../../lib/format.js';
import { PageHeader } from '../../shell/page-header.js';
import { DEFINITION_COLUMNS, type LatestDefinition } from './definition-columns.js';
import { EditDefinitionDialog } from './edit-definition-dialog.js';
import { NoDefinitions } from './no-definitions.js';

const FILTERS = ['q', 'after'] as const;
const PAGE_SIZE = 50;
const ROW_HEIGHT = { line: 40, card: 150 };
const EVERY_MS = 5000;

/** What a new definition begins with. */
const BLANK = {
  id: '',
  version: '1.0.0',
  image: '',
  input_specs: { text: { type: 'string', required: true } },
};

/** Every definition with its newest version. */
export default function DefinitionsPage() {
  const api = useApi();
  const [{ q, after }, setFilters] = useUrlFilters(FILTERS);
  const [isCreating, setCreating] = useState(false);
  const { data, error, isError, refetch } = useLive({
    queryKey: ['definitions', q, after],
    queryFn: ({ signal }) => {
      const search = q.trim();
      const query = {
        limit: PAGE_SIZE + 1,
        ...(search === '' ? {} : { search }),
        ...(after === '' ? {} : { after }),
      };
      return unwrapPages(
        (cursor) => api.GET('/latest-definitions', { params: { query: { ...query, ...cursor } }, signal }),
        ({ id }) => id,
        PAGE_SIZE + 1,
      );
    },
    everyMs: EVERY_MS,
  });
  const { rows, last } = splitPage(data, PAGE_SIZE);
  const pages = useCursorPages(after, last?.id, (next) => setFilters({ after: next }, { isNewPage: true }));
  const clear = (): void => setFilters({ q: '', after: '' });
  const create = (): void => setCreating(true);
  return (
    <>
      <PageHeader
        title="Definitions"
        note={<LiveDot state={isError || data === undefined ? 'waiting' : 'live'} />}
        actions={<Button onClick={create}>New definition</Button>}
      />
      <FilterBar label="Filter definitions" isActive={q !== '' || after !== ''} onClear={clear}>
        <SearchInput
          label="Search definitions"
          placeholder="Part of a name"
          value={q}
          onChange={(text) => setFilters({ q: text.slice(0, 128), after: '' })}
        />
      </FilterBar>
      <DataTable
        label="Definitions"
        columns={DEFINITION_COLUMNS}
        rows={rows}
        rowKey={keyOf}
        rowHref={hrefOf}
        rowHeight={ROW_HEIGHT}
        error={error}
        onRetry={() => void refetch()}
        empty={
          q === '' && after === '' ? (
            <NoDefinitions onCreate={create} />
          ) : (
            <EmptyState
              title={q === '' ? 'There are no more definitions' : 'No definition with this name'}
              action={<Button onClick={clear}>Show all</Button>}
            />
          )
        }
      />
      {/* A list of one page needs none, and what is below a list moves while the list grows. */}
      {(pages.onPrevious ?? pages.onNext) !== undefined && (
        <Pager
          label="definitions"
          {...pages}
          {...(rows === undefined ? {} : { note: `${formatCount(rows.length)} definitions` })}
        />
      )}
      <EditDefinitionDialog
        isOpen={isCreating}
        onClose={() => setCreating(false)}
        title="New definition"
        start={BLANK}
        known={[]}
      />
    </>
  );
}

function keyOf({ id }: LatestDefinition): string {
  return id;
}

function hrefOf({ id }: LatestDefinition): string {
  return `/definitions/${encodeURIComponent(id)}`;
}
