import { useState } from 'react';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import type { Column } from '../../components/table/data-table.js';
import { FilterBar, SearchInput } from '../../components/table/filter-bar.js';
import { Line } from '../../components/values/facts.js';
import { Time } from '../../components/values/time.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { SERVICE_URL } from '../../lib/addresses.js';
import { formatCount } from '../../lib/format.js';
import { ListPage } from '../../shell/list-page.js';
import styles from './definitions-page.module.css';
import { EditDefinitionDialog } from './edit-definition-dialog.js';

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
        renderEmpty={(isFirst) =>
          q === '' && isFirst ? (
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
      {isCreating && (
        <EditDefinitionDialog
          onClose={() => setCreating(false)}
          title="New definition"
          start={BLANK}
          known={[]}
        />
      )}
    </>
  );
}

function hrefOf({ id }: LatestDefinition): string {
  return `/definitions/${encodeURIComponent(id)}`;
}

/** A definition with its newest version, as the API has it. */
type LatestDefinition = Schemas['LatestOpDefinition'];

const DEFINITION_COLUMNS: readonly Column<LatestDefinition>[] = [
  {
    header: 'Definition',
    width: 'minmax(10rem, 2fr)',
    card: 'title',
    cell: ({ id }) => (
      <span className={styles.name} title={id}>
        {id}
      </span>
    ),
  },
  {
    header: 'Newest version',
    width: 'minmax(7rem, 1fr)',
    cell: ({ version }) => <Line text={version} />,
  },
  {
    header: 'Versions',
    width: '5rem',
    align: 'end',
    cell: ({ versions }) => <span className={styles.count}>{formatCount(versions)}</span>,
  },
  {
    header: 'Image',
    width: 'minmax(10rem, 2.4fr)',
    card: 'full',
    cell: ({ image }) => <Line text={image} isCode />,
  },
  { header: 'Updated', width: '7rem', cell: ({ updatedAt }) => <Time at={updatedAt} /> },
];

/** Says what definitions are for, and how to make the first one. */
function NoDefinitions({ onCreate }: { readonly onCreate: () => void }) {
  const example = [
    `curl ${SERVICE_URL}/definitions \\`,
    `  -H "X-API-Key: $SERVICE_API_KEY" -H "Content-Type: application/json" \\`,
    `  -d '{"id": "word-count", "version": "1.0.0", "image": "longshore/word-count",`,
    `       "input_specs": {"text": {"type": "string", "required": true}}}'`,
  ].join('\n');
  return (
    <EmptyState
      icon="definitions"
      title="There is no definition yet"
      action={<Button onClick={onCreate}>New definition</Button>}
    >
      A definition is a template for runs: an image, the inputs it takes, what it needs. Store one:
      <div className={styles.example}>
        <pre>{example}</pre>
        <CopyButton what="command" text={example} />
      </div>
    </EmptyState>
  );
}
