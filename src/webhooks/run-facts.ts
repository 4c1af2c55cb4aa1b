import type { DataSource } from 'typeorm';
import type { WebhookEntity } from '../database/entities/webhook.entity.js';
import { rows } from '../database/sql/sql.js';
import { shownCause } from '../runs/dto/op-run.dto.js';
import type { RunState } from '../runs/machine/run-state.js';
import type { RunFacts, RunMoment } from './message.js';

/** Bytes of outputs that are sent. */
const MAX_OUTPUTS = 20 * 1024;

/** Ended runs of each outcome, the newest by their creation, among which the one that ended before another is looked for. */
const RECENT_RUNS = 50;

/** What is told of the runs, in the order of the moments; null for a run that was removed. */
export async function readRunFacts(
  dataSource: DataSource,
  { include, events }: Pick<WebhookEntity, 'include' | 'events'>,
  moments: readonly RunMoment[],
): Promise<(RunFacts | null)[]> {
  const found = await rows<RunFacts & { readonly found: boolean; readonly endState: RunState }>(
    dataSource,
    `select r.id is not null as found, r.name, r.labels, r.image, r.topic,
            r.definition_id as "definitionId", r.definition_version as "definitionVersion",
            r.schedule_id as "scheduleId", r.schedule_time as "scheduleTime", r.created_at as "createdAt",
            r.group_id as "groupId", r.group_ref as "groupRef", r.array_index as "arrayIndex",
            c.error_message as "errorMessage", c.cause, c.state as "endState", c.exit_code as "exitCode",
            c.started_at as "startedAt", c.finished_at as "finishedAt",
            case when $5::boolean and octet_length(c.outputs::text) <= ${MAX_OUTPUTS} then c.outputs end as outputs,
            $6::boolean and e.type = 'COMPLETED' and coalesce((
              select p.outcome
                from unnest('{CANCELLED,COMPLETED,FAILED}'::text[]) as o (outcome)
               cross join lateral (
                       (
                         select id, outcome, finished_at
                           from runs
                          where schedule_id = r.schedule_id
                            and outcome = o.outcome
                            and created_at <= c.finished_at
                          order by created_at desc
                          limit ${RECENT_RUNS}
                       )
                        union all
                       (
                         select id, outcome, finished_at
                           from runs
                          where definition_id = r.definition_id
                            and r.schedule_id is null
                            and outcome = o.outcome
                            and created_at <= c.finished_at
                          order by created_at desc
                          limit ${RECENT_RUNS}
                       )
                     ) p
               where p.finished_at <= c.finished_at
                 and p.id <> r.id
               order by p.finished_at desc
               limit 1
            ) = 'FAILED', false) as "isRecovery",
            e.type = 'STARTED' and exists (
              select
                from events
               where run_id = e.run_id
                 and index between c.first_event and e.index - 1
                 and type = 'STARTED'
            ) as "isRepeated"
       from unnest($1::uuid[], $2::integer[], $3::integer[], $4::text[])
            with ordinality as e (run_id, index, attempt, type, n)
       left join runs r on r.id = e.run_id
       left join attempts a on a.run_id = e.run_id and a.attempt = e.attempt
       left join lateral (
              select r.error_message, r.cause, r.state,
                     case when r.state = 'FAILED' then r.exit_code end as exit_code, r.started_at, r.finished_at,
                     coalesce(r.outputs, r.outputs_template) as outputs, r.first_event
               where a.run_id is null
               union all
              select a.error_message, a.cause, a.state, a.exit_code, a.started_at, a.finished_at,
                     coalesce(a.outputs, r.outputs_template), a.first_event
               where a.run_id is not null
            ) c on true
      order by e.n`,
    [
      moments.map((moment) => moment.runId),
      moments.map((moment) => moment.index ?? -1),
      moments.map((moment) => moment.attempt),
      moments.map((moment) => moment.type),
      include.includes('outputs'),
      events.includes('run.recovered'),
    ],
  );
  return found.map(({ found: isFound, endState: state, ...facts }) =>
    isFound ? { ...facts, cause: shownCause({ state, cause: facts.cause }) } : null,
  );
}
