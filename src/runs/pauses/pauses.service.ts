import { Injectable } from '@nestjs/common';
import { readTime } from '@longshore/common/json/read-time';
import { Gauge } from 'prom-client';
import { DataSource, type EntityManager } from 'typeorm';
import type { Caller } from '../../auth/access.js';
import { recordChange, type Author } from '../../auth/audit-log.js';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import { ServiceRegistry } from '../../common/metrics/metrics.controller.js';
import { JobScheduler } from '../../common/scheduling/job-scheduler.js';
import type { PauseEntity } from '../../database/entities/queue.entity.js';
import { sendNotice } from '../../database/notices/commit-notice.js';
import { execute, rows } from '../../database/sql/sql.js';
import { RunJournal } from '../journal/run-journal.js';
import { IS_ACTIVE, PAUSES, Pauses } from '../queue/pauses.js';
import { PauseNotFound, TooManyPauses } from '../run.errors.js';
import { MAX_PAUSES, PAUSE_NAME, toPauseDto, type PauseDto, type PutPauseDto } from './pause.dto.js';
import { APPLY_PAUSES } from './pauses.job.js';

/** Serialises changes of pauses, which count them. */
const CHANGE_LOCK = '3908512264410938';

const SELECT = `select ${PAUSES.select('p')}
         from pauses p
        where ${IS_ACTIVE}`;

const PUT = `insert into pauses (
         name, reason, definitions, labels, selector, schedules, creators, until_at, updated_by, updated_by_name, created_at, updated_at
       )
       select $1::text, $2::text, $3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::timestamptz, $9::uuid, $10::text,
              coalesce($11::timestamptz, t.now), t.now
         from (select date_trunc('milliseconds', clock_timestamp()) as now) t
           on conflict (name) do update
          set reason = excluded.reason, definitions = excluded.definitions, labels = excluded.labels, selector = excluded.selector,
              schedules = excluded.schedules, creators = excluded.creators, until_at = excluded.until_at, is_applied = false,
              updated_by = excluded.updated_by, updated_by_name = excluded.updated_by_name, created_at = excluded.created_at,
              updated_at = excluded.updated_at
    returning ${PAUSES.select('pauses')}`;

/** What admins do with pauses. */
@Injectable()
export class PausesService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly pauses: Pauses,
    private readonly journal: RunJournal,
    private readonly scheduler: JobScheduler,
    service: ServiceRegistry,
  ) {
    const gauge: Gauge = new Gauge({
      name: 'longshore_pauses_active',
      help: 'Pauses that hold back runs',
      registers: [service],
      collect: () => {
        if (pauses.count === undefined) gauge.remove();
        else gauge.set(pauses.count);
      },
    });
  }

  async list(): Promise<PauseDto[]> {
    return (await rows<PauseEntity>(this.dataSource, `${SELECT} order by p.name`)).map(toPauseDto);
  }

  /** Creates or replaces a pause. @throws InvalidRequest, TooManyPauses */
  async put(
    name: string,
    body: PutPauseDto,
    by: Pick<Caller, 'name' | 'keyId'>,
  ): Promise<{ readonly pause: PauseDto; readonly isNew: boolean }> {
    check(name, body);
    const { where, reason } = body;
    const until = body.until === undefined ? null : readTime(body.until, Date.now());
    const result = await this.#change(async (manager) => {
      const before = await this.#find(manager, name);
      if (!before) await assertRoom(manager);
      const { definition, label, selector, schedule, created_by: creators } = where;
      const lists = [definition, label, selector, schedule, creators];
      const [row] = await rows<PauseEntity>(manager, PUT, [
        name,
        reason,
        ...lists.map((list) => (list ? [...new Set(list)] : null)),
        until?.toISOString() ?? null,
        by.keyId,
        by.name,
        before?.createdAt.toISOString() ?? null,
      ]);
      if (!row) throw new Error('the pause was not stored');
      const pause = toPauseDto(row);
      await recordChange(manager, by, {
        action: before ? 'pause.replace' : 'pause.create',
        subject: name,
        before: before ? shown(before) : {},
        after: shown(row),
      });
      return { pause, isNew: !before };
    });
    // A claim whose group began before may have overlooked it.
    await this.journal.claimsCommitted();
    return result;
  }

  /** Ends a pause; its row goes when the queue has followed. @throws PauseNotFound */
  async remove(name: string, by: Author): Promise<void> {
    await this.#change(async (manager) => {
      const before = await this.#find(manager, name);
      if (!before) throw new PauseNotFound(name);
      await execute(
        manager,
        `update pauses set until_at = date_trunc('milliseconds', statement_timestamp()) where name = $1::text`,
        [name],
      );
      await recordChange(manager, by, {
        action: 'pause.delete',
        subject: name,
        before: shown(before),
        after: {},
      });
    });
  }

  async #change<T>(work: (manager: EntityManager) => Promise<T>): Promise<T> {
    const result = await this.dataSource.transaction(async (manager) => {
      await execute(manager, `select pg_advisory_xact_lock($1::bigint)`, [CHANGE_LOCK]);
      const done = await work(manager);
      await sendNotice(manager, { pauses: true });
      return done;
    });
    await this.pauses.refresh();
    this.scheduler.runWithin(APPLY_PAUSES, 0);
    return result;
  }

  async #find(manager: EntityManager, name: string): Promise<PauseEntity | undefined> {
    const [found] = await rows<PauseEntity>(manager, `${SELECT} and p.name = $1::text`, [name]);
    return found;
  }
}

/** @throws InvalidRequest */
function check(name: string, { where }: PutPauseDto): void {
  const { pattern, max, form } = PAUSE_NAME;
  const { all, ...lists } = where;
  const given = Object.values(lists).filter((list) => list !== undefined).length;
  const problems = [
    ...(pattern.test(name) && name.length <= max ? [] : [`name must be ${form} of 1 to ${max} characters`]),
    ...(all !== true && given === 0 ? ['where must have a condition, or all: true'] : []),
    ...(all === true && given > 0 ? ['where.all must not be given together with other conditions'] : []),
  ];
  if (problems.length > 0) throw new InvalidRequest(VALIDATION_FAILED, problems);
}

/** @throws TooManyPauses */
async function assertRoom(manager: EntityManager): Promise<void> {
  const [found] = await rows<{ count: number }>(
    manager,
    `select count(*)::integer as count from pauses p where ${IS_ACTIVE}`,
  );
  if ((found?.count ?? 0) >= MAX_PAUSES) throw new TooManyPauses(MAX_PAUSES);
}

/** What the audit log has of a pause. */
function shown(pause: PauseEntity): object {
  const { where, reason, until } = toPauseDto(pause);
  return { where, reason, until };
}
