import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { Caller } from '../../auth/access.js';
import { recordChange } from '../../auth/audit-log.js';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { currentTime } from '../../database/sql/sql.js';
import { toScheduleFireDto, type BackfillResultDto, type ScheduleFireDto } from '../dto/schedule.dto.js';
import type { BackfillScheduleDto } from '../dto/schedule-requests.dto.js';
import type { Idempotency } from '../../runs/idempotency/idempotency.repository.js';
import { IdempotencyMismatch } from '../../runs/run.errors.js';
import { ScheduleRepository } from '../schedule.repository.js';
import { ScheduleChanges } from '../schedules.errors.js';
import { SchedulesService } from '../schedules.service.js';
import { justBefore, timetableOf } from '../schedule-times.js';
import { FiresService } from './fires.service.js';
import { timesPerCommit } from './schedule-bodies.js';
import type { NewFire } from './schedule-ledger.js';

/** How often a request is carried out anew because the schedule was changed meanwhile. */
const MAX_TRIES = 20;

/** Times of a backfill. */
const MAX_TIMES = 1_000;

/** Runs of schedules that are made because somebody asks for them. A pause does not hinder them. */
@Injectable()
export class RequestedFires {
  /** The last request in this process for each schedule: the next one waits for it, as only one can be carried out. */
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(
    private readonly dataSource: DataSource,
    private readonly schedules: ScheduleRepository,
    private readonly service: SchedulesService,
    private readonly fires: FiresService,
  ) {}

  /**
   * Fires a schedule for the present, by its rule for overlaps. A repeated request finds what became of the earlier one.
   * @throws ScheduleNotFound, ScheduleChanges, IdempotencyMismatch
   */
  async trigger(
    id: string,
    caller: Caller,
    idempotency: Idempotency | undefined,
  ): Promise<{ readonly fire: ScheduleFireDto; readonly replayed: boolean }> {
    const { at, replayed } = await this.#untilDone(id, async () => {
      // With the row as it is read here the commit goes: a request with the same key that was carried out since has changed it.
      const schedule = await this.service.require(id);
      const earlier = idempotency && (await this.schedules.findFireByKey(idempotency.scope));
      if (earlier && earlier.requestHash !== idempotency.requestHash) throw new IdempotencyMismatch();
      if (earlier) return { at: earlier.nominalAt, replayed: true };
      const open = (await this.schedules.listOpen([id])).get(id) ?? [];
      const now = await currentTime(this.dataSource);
      const isTaken = (await this.schedules.findFires(id, [now])).length > 0;
      const order = {
        schedule,
        kind: 'trigger',
        times: [now],
        missed: null,
        open,
        advance: null,
        caller,
        idempotency,
      } as const;
      return isTaken || (await this.fires.fire(order)) === null ? null : { at: now, replayed: false };
    });
    const [fire] = await this.schedules.findFires(id, [at]);
    if (!fire) throw new ScheduleChanges(id);
    return { fire: toScheduleFireDto(fire), replayed };
  }

  /**
   * Makes a run for each time of a range of the past that has none, in order. If it breaks off, the same request goes on.
   * @throws ScheduleNotFound, ScheduleChanges, InvalidRequest
   */
  async backfill(id: string, range: BackfillScheduleDto, caller: Caller): Promise<BackfillResultDto> {
    const [from, until] = [new Date(range.from), new Date(range.until)];
    const schedule = await this.service.require(id);
    if (until < from) throw new InvalidRequest('until must not be before from');
    if (until > (await currentTime(this.dataSource)))
      throw new InvalidRequest('until must not be in the future');
    const found = timetableOf(schedule).range(justBefore(from), until, MAX_TIMES + 1);
    if (found.length > MAX_TIMES)
      throw new InvalidRequest(`The range has more than ${MAX_TIMES} times: backfill a part of it at once`);
    await recordChange(this.dataSource, caller, {
      action: 'schedule.backfill',
      subject: id,
      before: {},
      after: range,
    });
    const result = { times: found.length, created: 0, existing: 0, failed: 0 };
    const timesOfPage = timesPerCommit(schedule);
    for (let first = 0; first < found.length; first += timesOfPage) {
      const page = found.slice(first, first + timesOfPage);
      const { existing, fires } = await this.#untilDone(id, () => this.#backfillPage(id, page, caller));
      result.existing += existing;
      for (const { outcome } of fires) result[outcome === 'created' ? 'created' : 'failed'] += 1;
    }
    return result;
  }

  /** @returns null: the schedule was changed meanwhile */
  async #backfillPage(
    id: string,
    page: readonly Date[],
    caller: Caller,
  ): Promise<{ readonly existing: number; readonly fires: readonly NewFire[] } | null> {
    const schedule = await this.service.require(id);
    const earlier = await this.schedules.findFires(id, page);
    const made = new Set(
      earlier.flatMap(({ nominalAt, outcome }) => (outcome === 'created' ? [nominalAt.getTime()] : [])),
    );
    // A time that is due gets its run by the schedule itself.
    const times = page.filter(
      (time) => !made.has(time.getTime()) && !(schedule.nextAt && time >= schedule.nextAt),
    );
    const existing = page.length - times.length;
    if (times.length === 0) return { existing, fires: [] };
    const replaced = earlier.flatMap(({ outcome }) => (outcome === 'created' ? [] : [outcome]));
    const fires = await this.fires.fire({
      schedule,
      kind: 'backfill',
      times,
      missed: null,
      open: [],
      advance: null,
      replaced,
      caller,
    });
    return fires && { existing, fires };
  }

  /** @throws ScheduleChanges */
  async #untilDone<T>(id: string, attempt: () => Promise<T | null>): Promise<T> {
    const before = this.#last.get(id) ?? Promise.resolve();
    const done = before.then(() => this.#tryAgain(id, attempt));
    const ended = done
      .catch(() => undefined)
      .finally(() => {
        if (this.#last.get(id) === ended) this.#last.delete(id);
      });
    this.#last.set(id, ended);
    return done;
  }

  /** @throws ScheduleChanges */
  async #tryAgain<T>(id: string, attempt: () => Promise<T | null>): Promise<T> {
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const done = await attempt();
      if (done !== null) return done;
    }
    throw new ScheduleChanges(id);
  }
}
