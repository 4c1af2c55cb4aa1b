import { useState, type ReactNode } from 'react';
import { useApi } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import type { Column } from '../../components/table/data-table.js';
import { FilterBar, SearchInput } from '../../components/table/filter-bar.js';
import { Badge } from '../../components/values/badge.js';
import { Line } from '../../components/values/facts.js';
import { Time } from '../../components/values/time.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { formatZoned } from '../../lib/format.js';
import { ListPage } from '../../shell/list-page.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { FireMarks } from './fire-marks.js';
import { ScheduleDialog } from './schedule-dialog.js';
import { timesOf, type Schedule } from './schedule-view.js';
import styles from './schedules-page.module.css';

const FILTERS = ['q', 'after'] as const;
const ROW_HEIGHT = { line: 56, card: 170 };
const EVERY_MS = 5000;

/** Every schedule with its next time and what became of the last ones. */
export default function SchedulesPage() {
  const api = useApi();
  const [{ q, after }, setFilters] = useUrlFilters(FILTERS);
  const [isCreating, setCreating] = useState(false);
  const clear = (): void => setFilters({ q: '', after: '' });
  const create = (): void => setCreating(true);
  useShortcut('n', 'New schedule', create);
  return (
    <>
      <ListPage
        title="Schedules"
        actions={<Button onClick={create}>New schedule</Button>}
        filters={
          <FilterBar label="Filter schedules" isActive={q !== '' || after !== ''} onClear={clear}>
            <SearchInput
              label="Search schedules"
              placeholder="Part of an id"
              value={q}
              onChange={(text) => setFilters({ q: text.slice(0, 128), after: '' })}
            />
          </FilterBar>
        }
        queryKey={['schedules', q]}
        read={(page, signal) => {
          const search = q.trim();
          const query = { ...page, ...(search === '' ? {} : { search }) };
          return api.GET('/schedules', { params: { query }, signal });
        }}
        cursorOf={({ id }) => id}
        everyMs={EVERY_MS}
        label="Schedules"
        columns={COLUMNS}
        rowHref={({ id }) => `/schedules/${encodeURIComponent(id)}`}
        rowHeight={ROW_HEIGHT}
        renderEmpty={(isFirst) =>
          q === '' && isFirst ? (
            <EmptyState
              icon="schedules"
              title="There is no schedule yet"
              action={<Button onClick={create}>New schedule</Button>}
            >
              A schedule makes runs at the times of cron expressions in a time zone, or at an interval.
            </EmptyState>
          ) : (
            <EmptyState
              title={q === '' ? 'There are no more schedules' : 'No schedule with this id'}
              action={<Button onClick={clear}>Show all</Button>}
            />
          )
        }
        paged="schedules"
        counted="schedules"
      />
      {isCreating && <ScheduleDialog onClose={() => setCreating(false)} />}
    </>
  );
}

const COLUMNS: readonly Column<Schedule>[] = [
  {
    header: 'Schedule',
    width: 'minmax(7rem, 1.6fr)',
    card: 'title',
    cell: ({ id }) => (
      <span className={styles.name} title={id}>
        {id}
      </span>
    ),
  },
  {
    header: 'Times',
    width: 'minmax(6.5rem, 1.2fr)',
    cell: (schedule) => <Lines first={<Line text={timesOf(schedule)} isCode />} second={schedule.timezone} />,
  },
  { header: 'Next', width: 'minmax(13.5rem, 1.3fr)', cell: (schedule) => <Next schedule={schedule} /> },
  {
    header: 'Last 20 times',
    width: '12.5rem',
    card: 'full',
    cell: (schedule) => <FireMarks schedule={schedule} />,
  },
];

function Next({ schedule: { next, paused, paused_note: note, timezone } }: { readonly schedule: Schedule }) {
  const [at] = next;
  if (paused) return <Lines first={<Badge tone="warn">paused</Badge>} second={note ?? ''} />;
  if (at === undefined) return <span className="muted">no more</span>;
  return <Lines first={<Time at={at} />} second={formatZoned(at, timezone)} />;
}

function Lines({ first, second }: { readonly first: ReactNode; readonly second: string }) {
  return (
    <>
      {first}
      <div className={styles.second}>
        <Line text={second} />
      </div>
    </>
  );
}
