import { useApi } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Select } from '../../components/controls/inputs.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import type { Column } from '../../components/table/data-table.js';
import { FilterBar } from '../../components/table/filter-bar.js';
import { Line } from '../../components/values/facts.js';
import { Time } from '../../components/values/time.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { formatCount, shortId } from '../../lib/format.js';
import { ListPage } from '../../shell/list-page.js';
import { GROUP_TONES, GroupBadge, MemberBar, type Group } from './group-view.js';

const FILTERS = ['state', 'after'] as const;
const ROW_HEIGHT = { line: 44, card: 190 };
const EVERY_MS = 5000;
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- keys forgets the names
const STATES = Object.keys(GROUP_TONES) as readonly Group['state'][];
const OPTIONS = [['', 'Every state'], ...STATES.map((state) => [state, state] as const)] as const;

/** Every group, the newest first, with how far its members are. */
export default function GroupsPage() {
  const api = useApi();
  const [{ state: entered, after }, setFilters] = useUrlFilters(FILTERS);
  const state = STATES.find((one) => one === entered);
  const clear = (): void => setFilters({ state: '', after: '' });
  return (
    <ListPage
      title="Groups"
      filters={
        <FilterBar label="Filter groups" isActive={state !== undefined || after !== ''} onClear={clear}>
          <Select
            aria-label="State"
            value={state ?? ''}
            options={OPTIONS}
            onChange={(chosen) => setFilters({ state: chosen, after: '' })}
          />
        </FilterBar>
      }
      queryKey={['groups', state ?? '']}
      read={(page, signal) => {
        const query = { ...page, ...(state !== undefined && { state }) };
        return api.GET('/groups', { params: { query }, signal });
      }}
      cursorOf={({ id }) => id}
      everyMs={EVERY_MS}
      label="Groups"
      columns={COLUMNS}
      rowHref={({ id }) => `/groups/${encodeURIComponent(id)}`}
      rowHeight={ROW_HEIGHT}
      renderEmpty={(isFirst) =>
        state === undefined && isFirst ? (
          <EmptyState icon="groups" title="There is no group yet">
            A group creates runs that depend on each other, or an array of runs of one kind: POST /groups.
          </EmptyState>
        ) : (
          <EmptyState
            title={state === undefined ? 'There are no older groups' : `No group is ${state}`}
            action={<Button onClick={clear}>Show all</Button>}
          />
        )
      }
      paged="groups"
      counted="groups, the newest first"
    />
  );
}

const COLUMNS: readonly Column<Group>[] = [
  {
    header: 'Group',
    width: 'minmax(8rem, 2fr)',
    card: 'title',
    cell: ({ id, name }) => <Line text={name ?? shortId(id)} isCode={name === null} />,
  },
  { header: 'State', width: '7rem', cell: ({ state }) => <GroupBadge state={state} /> },
  {
    header: 'Progress',
    width: 'minmax(9rem, 2fr)',
    card: 'full',
    cell: (group) => <MemberBar group={group} />,
  },
  { header: 'Size', width: '5rem', align: 'end', cell: ({ size }) => formatCount(size) },
  { header: 'Created', width: '6rem', cell: (group) => <Time at={group.created_at} /> },
];
