import { useState } from 'react';
import { useApi } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { FilterBar } from '../../components/table/filter-bar.js';
import { SearchInput } from '../../components/table/search-input.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { ListPage } from '../../shell/list-page.js';
import { DEFINITION_COLUMNS, type LatestDefinition } from './definition-columns.js';
import { EditDefinitionDialog } from './edit-definition-dialog.js';
import { NoDefinitions } from './no-definitions.js';

const FILTERS = ['q', 'after'] as const;
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
  const clear = (): void => setFilters({ q: '', after: '' });
  const create = (): void => setCreating(true);
  return (
    <>
      <ListPage
        title="Definitions"
        actions={<Button onClick={create}>New definition</Button>}
        filters={
          <FilterBar label="Filter definitions" isActive={q !== '' || after !== ''} onClear={clear}>
            <SearchInput
              label="Search definitions"
              placeholder="Part of a name"
              value={q}
              onChange={(text) => setFilters({ q: text.slice(0, 128), after: '' })}
            />
          </FilterBar>
        }
        queryKey={['definitions', q]}
        read={(page, signal) => {
          const search = q.trim();
          const query = { ...page, ...(search === '' ? {} : { search }) };
          return api.GET('/latest-definitions', { params: { query }, signal });
        }}
        cursorOf={({ id }) => id}
        everyMs={EVERY_MS}
        label="Definitions"
        columns={DEFINITION_COLUMNS}
        rowHref={hrefOf}
        rowHeight={ROW_HEIGHT}
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
        paged="definitions"
        counted="definitions"
      />
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

function hrefOf({ id }: LatestDefinition): string {
  return `/definitions/${encodeURIComponent(id)}`;
}
