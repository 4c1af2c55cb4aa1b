import { Link, useParams } from 'wouter';
import { unwrap } from '../../api/answers.js';
import { useApi, useLive, type LongshoreClient } from '../../api/use-api.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import { showToast } from '../../components/feedback/toasts.js';
import { Fact, FactBox } from '../../components/values/facts.js';
import { DependencyList } from '../../components/values/named-links.js';
import { Time } from '../../components/values/time.js';
import { formatCount, shortId } from '../../lib/format.js';
import { ItemActions, type ItemAction } from '../../run-form/item-actions.js';
import { field } from '../../run-form/run-fields.js';
import { ItemPage, ItemTitle } from '../../shell/item-page.js';
import { PageHeader } from '../../shell/page-header.js';
import { GroupGraph } from './group-graph.js';
import { GroupMembers, memberOf } from './group-members.js';
import styles from './group-page.module.css';
import { GroupBadge, MemberBar, MemberCounts, type Group } from './group-view.js';

const LIST = ['/groups', 'Groups'] as const;
const EVERY_MS = 5000;
const MOST_FAILED = 100;

/** One group: how far its members are, which of them failed, what waits for what, and each member. */
export default function GroupPage() {
  const { id = '' } = useParams();
  const api = useApi();
  const result = useLive({
    queryKey: ['groups', 'one', id],
    queryFn: ({ signal }) => unwrap(api.GET('/groups/{id}', { params: { path: { id } }, signal })),
    everyMs: EVERY_MS,
  });
  return (
    <ItemPage list={LIST} name={id} kind="group" icon="groups" result={result}>
      {(group) => <Loaded key={id} group={group} />}
    </ItemPage>
  );
}

function Loaded({ group }: { readonly group: Group }) {
  const { id, name, counts } = group;
  const api = useApi();
  return (
    <>
      <PageHeader
        title={<ItemTitle list={LIST} name={name ?? id} what={name === null ? 'id' : 'name'} />}
        note={<GroupBadge state={group.state} />}
        actions={
          <>
            <Link href={runsOf(id)} className={styles.link}>
              Runs
            </Link>
            <ItemActions actions={actionsOf(group, api)} subject={name ?? 'the group'} refreshes="groups" />
          </>
        }
      />
      <div className={styles.details}>
        <Facts group={group} />
        <section>
          <h2>Progress</h2>
          <MemberBar group={group} />
          <MemberCounts counts={counts} />
        </section>
        {counts.failed > 0 && <Failed group={group} />}
        <GroupGraph group={group} />
        <section>
          <h2>Members</h2>
          <GroupMembers id={id} />
        </section>
      </div>
    </>
  );
}

function Facts({ group }: { readonly group: Group }) {
  const { id, name, labels, size, array, waiting_for: waitingFor, schedule, created_by: key } = group;
  const { max_parallel: parallel, max_failed: mayFail, reason } = group;
  return (
    <FactBox>
      {name !== null && (
        <Fact name="Id">
          <code title={id}>{shortId(id)}</code> <CopyButton what="id" text={id} />
        </Fact>
      )}
      {reason !== null && <Fact name="Stopped because">{reason}</Fact>}
      <Fact name="Size">
        {formatCount(size)} {array === null ? 'runs' : 'runs of an array'}
        {parallel !== null && `, ${formatCount(parallel)} at a time`}
      </Fact>
      <Fact name="When a member fails">
        {group.on_failure === 'cancel_group'
          ? 'the group is cancelled'
          : 'those that wait for it are cancelled'}
        {mayFail !== null && `; the rest when ${formatCount(mayFail)} have failed`}
      </Fact>
      {waitingFor.length > 0 && (
        <Fact name="Waits for">
          <DependencyList of={waitingFor} />
        </Fact>
      )}
      {schedule !== null && (
        <Fact name="Schedule">
          <Link href={`/schedules/${encodeURIComponent(schedule.id)}`}>{schedule.id}</Link> for{' '}
          {schedule.time}
        </Fact>
      )}
      {Object.entries(labels).map(([label, value]) => (
        <Fact key={label} name={`Label ${label}`}>
          {value}
        </Fact>
      ))}
      <Fact name="Created">
        <Time at={group.created_at} />
        {key && ` by ${key.key_name}`}
      </Fact>
      <Fact name="Ended">
        <Time at={group.ended_at} absent="not yet" />
      </Fact>
    </FactBox>
  );
}

/** The members that failed, each with a link to its run, in the order of their creation; of many the newest. */
function Failed({ group: { id, counts, failed_indexes: indexes } }: { readonly group: Group }) {
  const api = useApi();
  const { data } = useLive({
    queryKey: ['groups', 'failed', id, counts.failed],
    queryFn: ({ signal }) => {
      const query = { group: id, state: 'FAILED', limit: MOST_FAILED, include_events: false } as const;
      return unwrap(api.GET('/runs', { params: { query }, signal }));
    },
    everyMs: EVERY_MS,
  });
  const failed = data?.data.toReversed() ?? [];
  return (
    <section aria-label="Failed members">
      <h2>Failed</h2>
      <p className={styles.failed}>
        {failed.map((run) => (
          <Link key={run.id} href={`/runs/${encodeURIComponent(run.id)}`} title={run.id}>
            {memberOf(run)}
          </Link>
        ))}
        {data?.has_more === true && <Link href={`${runsOf(id)}&state=FAILED`}>and others</Link>}
      </p>
      {data?.has_more === true && indexes !== null && <p className="muted">The first of them: {indexes}</p>}
    </section>
  );
}

function runsOf(id: string): string {
  return `/runs?group=${encodeURIComponent(id)}`;
}

function actionsOf({ id, state, counts }: Group, api: LongshoreClient): readonly ItemAction[] {
  const params = { path: { id } };
  const retry: ItemAction = {
    label: 'Retry',
    text: 'Members that failed run again, and those that were cancelled because of them. Completed ones keep their outputs.',
    carryOut: async () => {
      await unwrap(api.POST('/groups/{id}/retry', { params, body: { only: 'failed' } }));
      showToast('good', 'The failed members run again.');
    },
  };
  const cancel: ItemAction = {
    label: 'Cancel',
    text: 'Members that have not ended are cancelled, and no more are created.',
    fields: [field('text', 'reason', 'Reason', 'Why; optional, shown with the group')],
    isDangerous: true,
    carryOut: async (body) => {
      await unwrap(api.POST('/groups/{id}/cancel', { params, body }));
      showToast('good', 'The group is cancelled.');
    },
  };
  return [...(counts.failed > 0 ? [retry] : []), ...(state === 'open' ? [cancel] : [])];
}
