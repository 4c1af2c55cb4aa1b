import { useMemo } from 'react';
import { Link, useParams } from 'wouter';
import { unwrap } from '../../api/answers.js';
import { useApi, useLive } from '../../api/use-api.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import type { Column } from '../../components/table/data-table.js';
import { Badge } from '../../components/values/badge.js';
import { Fact, FactBox, Line } from '../../components/values/facts.js';
import { JsonTree } from '../../components/values/json-tree.js';
import { Time } from '../../components/values/time.js';
import { formatCount } from '../../lib/format.js';
import { ItemDescription, ItemPage, ItemTitle } from '../../shell/item-page.js';
import { ListPage } from '../../shell/list-page.js';
import { PageHeader } from '../../shell/page-header.js';
import { FireLink, FireMarks } from './fire-marks.js';
import { ScheduleActions } from './schedule-actions.js';
import { Times } from './schedule-dialog.js';
import styles from './schedule-page.module.css';
import { momentOf, outcomeOf, timesOf, toBody, toneOf, type Fire, type Schedule } from './schedule-view.js';

const LIST = ['/schedules', 'Schedules'] as const;
const EVERY_MS = 5000;

/** One schedule: what it says, its next times, and what became of each of the past. */
export default function SchedulePage() {
  const { id = '' } = useParams();
  const api = useApi();
  const result = useLive({
    queryKey: ['schedules', 'one', id],
    queryFn: ({ signal }) => unwrap(api.GET('/schedules/{id}', { params: { path: { id } }, signal })),
    everyMs: EVERY_MS,
  });
  return (
    <ItemPage list={LIST} name={id} kind="schedule" icon="schedules" result={result}>
      {(schedule) => <Loaded key={id} schedule={schedule} />}
    </ItemPage>
  );
}

function Loaded({ schedule }: { readonly schedule: Schedule }) {
  const { id, description, next, paused, timezone } = schedule;
  return (
    <>
      <PageHeader
        title={<ItemTitle list={LIST} name={id} what="id" />}
        note={paused && <Badge tone="warn">paused</Badge>}
        actions={
          <>
            <Link href={`/runs?schedule=${encodeURIComponent(id)}`} className={styles.link}>
              Runs
            </Link>
            <ScheduleActions schedule={schedule} />
          </>
        }
      />
      <ItemDescription text={description} />
      <div className={styles.details}>
        <Facts schedule={schedule} />
        <section>
          <h2>Next times</h2>
          {next.length === 0 ? (
            <p className="muted">{paused ? 'None while it is paused.' : 'None: its period has ended.'}</p>
          ) : (
            <Times times={next.map((at) => ({ at }))} zone={timezone} />
          )}
        </section>
        <section>
          <h2>Runs and rules</h2>
          <JsonTree label="schedule" value={toBody(schedule)} />
        </section>
        <section className={styles.wide}>
          <h2>What became of its times</h2>
          <History schedule={schedule} />
        </section>
      </div>
    </>
  );
}

function Facts({ schedule }: { readonly schedule: Schedule }) {
  const { counts, paused_note: note, timezone } = schedule;
  return (
    <FactBox>
      <Fact name="Times">
        <code>{timesOf(schedule)}</code> {timezone}
      </Fact>
      {schedule.paused && (
        <Fact name="Paused">
          <Time at={schedule.paused_at} /> by {schedule.paused_by ?? 'the service'}
          {note !== null && `: ${note}`}
        </Fact>
      )}
      <Fact name="Last 20 times">
        <FireMarks schedule={schedule} />
      </Fact>
      <Fact name="Times so far">
        {formatCount(counts.created)} with a run, {formatCount(counts.skipped_overlap)} skipped,{' '}
        {formatCount(counts.skipped_missed)} missed, {formatCount(counts.failed)} failed
      </Fact>
      <Fact name="Created">
        <Time at={schedule.createdAt} />
        {schedule.created_by && ` by ${schedule.created_by.key_name}`}
      </Fact>
      <Fact name="Updated">
        <Time at={schedule.updatedAt} />
        {schedule.updated_by && ` by ${schedule.updated_by.key_name}`}
      </Fact>
    </FactBox>
  );
}

/** The fires of a schedule, the newest first. */
function History({ schedule: { id, timezone } }: { readonly schedule: Schedule }) {
  const api = useApi();
  const columns = useMemo(() => fireColumns(timezone), [timezone]);
  return (
    <ListPage
      queryKey={['schedules', 'fires', id]}
      read={(query, signal) => api.GET('/schedules/{id}/fires', { params: { path: { id }, query }, signal })}
      cursorOf={(fire) => fire.id}
      everyMs={EVERY_MS}
      label="Times"
      columns={columns}
      rowHeight={ROW_HEIGHT}
      renderEmpty={(isFirst) => (
        <EmptyState
          icon="schedules"
          title={isFirst ? 'No time has passed yet' : 'There are no older times'}
        />
      )}
      paged="times"
      counted="times, the newest first"
    />
  );
}

function fireColumns(zone: string): readonly Column<Fire>[] {
  return [
    {
      header: 'Time',
      width: 'minmax(14.5rem, 1.4fr)',
      card: 'title',
      cell: (fire) => <Line text={momentOf(fire, zone)} />,
    },
    { header: 'By', width: '5rem', cell: ({ kind }) => kind },
    {
      header: 'Outcome',
      width: '8rem',
      cell: (fire) => <Badge tone={toneOf(fire)}>{outcomeOf(fire)}</Badge>,
    },
    {
      header: 'Run or group',
      width: '8rem',
      cell: (fire) => <FireLink fire={fire} />,
    },
    {
      header: 'Reason',
      width: 'minmax(8rem, 2fr)',
      card: 'full',
      cell: ({ reason }) => reason !== null && <Line text={reason} />,
    },
  ];
}

const ROW_HEIGHT = { line: 40, card: 170 };
