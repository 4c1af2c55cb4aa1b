import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { nearestName } from '@longshore/common/nearest-name';
import type { Caller } from '../auth/access.js';
import { recordChange, type Author } from '../auth/audit-log.js';
import { JobScheduler } from '../common/scheduling/job-scheduler.js';
import { DomainError, InvalidRequest, linesOf } from '../common/errors/domain-error.js';
import { Problems, VALIDATION_FAILED } from '../common/http/validation/problems.js';
import type { Page } from '../database/sql/read-page.js';
import { replaceFileUses, unuseFiles } from '../database/file-uses.js';
import { currentTime } from '../database/sql/sql.js';
import type { ScheduleEntity } from '../database/entities/schedule.entity.js';
import { mergeLabels, areTooMany, MAX_LABELS } from '../runs/machine/run.js';
import {
  toScheduleDto,
  toScheduleFireDto,
  type ScheduleDto,
  type ScheduleFireDto,
  type SchedulePreviewDto,
} from './dto/schedule.dto.js';
import type {
  ListFiresQueryDto,
  ListSchedulesQueryDto,
  PreviewScheduleDto,
  PutScheduleDto,
  TimesDto,
} from './dto/schedule-requests.dto.js';
import { AWAITED_TIMES } from './awaited/awaited-times.job.js';
import { ScheduleBodies } from './fires/schedule-bodies.js';
import { FiresService } from './fires/fires.service.js';
import { SERVICE } from './fires/schedule-ledger.js';
import { ScheduleRepository, type StoredSchedule } from './schedule.repository.js';
import { advanceTo, firstTime, hasSameTimes } from './schedule-times.js';
import { ScheduleNotFound } from './schedules.errors.js';
import { compileTimes } from './times/compile-times.js';
import { formatNominal } from './times/nominal-time.js';
import type { Timetable } from './times/timetable.js';

const DEFAULT_LIMIT = 50;
const DEFAULT_FIRES = 100;
const LAST_FIRES = 20;
const DEFAULT_TIMES = 10;
const DEFAULT_WINDOW_S = 86_400;

/** Ids among which the one that was probably meant is looked for. */
const COMPARED_IDS = 100;

/** Fires that one statement removes before their schedule. */
const FIRES_PER_BATCH = 5_000;

/** The use cases of schedules, but for those that make runs. */
@Injectable()
export class SchedulesService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly schedules: ScheduleRepository,
    private readonly bodies: ScheduleBodies,
    private readonly fires: FiresService,
    private readonly scheduler: JobScheduler,
  ) {}

  /** Stores a schedule, or replaces it. @param isDryRun only tells what would be stored @throws InvalidRequest */
  async put(
    id: string,
    body: PutScheduleDto,
    by: Caller,
    isDryRun = false,
  ): Promise<{ readonly schedule: ScheduleDto; readonly created: boolean }> {
    const given = await this.#checked(id, body, by);
    const { stored, created } = await this.dataSource.transaction(async (manager) => {
      await this.schedules.lock(manager, id);
      const before = await this.schedules.find(id, manager);
      await this.bodies.checkNamed(manager, { ...given, id });
      const now = await currentTime(manager);
      const isPaused = body.paused ?? (before !== null && before.pausedAt !== null);
      const hadThem = before !== null && hasSameTimes(before, given);
      const nextAt = isPaused ? null : ((hadThem ? before.nextAt : null) ?? firstTime(given, now));
      const pause = isPaused ? pauseOf(before, now, by) : NO_PAUSE;
      const after: StoredSchedule = {
        ...given,
        ...pause,
        id,
        applied: body.applied ?? before?.applied ?? null,
        createdAt: before?.createdAt ?? now,
        createdBy: before ? before.createdBy : by.keyId,
        createdByName: before ? before.createdByName : by.name,
        updatedAt: now,
        updatedBy: by.keyId,
        updatedByName: by.name,
        failuresSince: before && before.pausedAt === null ? before.failuresSince : now,
        timesSince: hadThem ? before.timesSince : now,
        ...advanceTo({ id, jitterS: given.jitterS }, nextAt),
      };
      if (isDryRun) return { stored: { ...NO_FIRES, ...before, ...after }, created: false };
      if (before && nextAt !== before.nextAt)
        await this.fires.miss(
          manager,
          before,
          now,
          isPaused ? PAUSED : 'were due when the schedule got other times',
        );
      const schedule = await this.schedules.put(manager, after, now);
      await replaceFileUses(manager, { kind: 'schedule', id }, after.run ?? after.group);
      await recordChange(manager, by, {
        action: before ? 'schedule.replace' : 'schedule.create',
        subject: id,
        before: before ? auditedFields(before) : {},
        after: auditedFields(schedule),
      });
      return { stored: schedule, created: before === null };
    });
    if (!isDryRun) this.scheduler.runWithin(AWAITED_TIMES, 0);
    return { schedule: await this.#show(stored), created };
  }

  /** @throws ScheduleNotFound */
  async get(id: string): Promise<ScheduleDto> {
    return this.#show(await this.require(id));
  }

  async list({
    limit = DEFAULT_LIMIT,
    after = '',
    search = '',
  }: ListSchedulesQueryDto): Promise<Page<ScheduleDto>> {
    const found = await this.schedules.list(limit + 1, after, search);
    const items = found.slice(0, limit);
    const last = await this.schedules.newestFires(
      items.map(({ id }) => id),
      LAST_FIRES,
    );
    return {
      items: items.map((schedule) => toScheduleDto(schedule, last.get(schedule.id) ?? [])),
      hasMore: found.length > limit,
    };
  }

  /** What became of its times, the newest first. @throws ScheduleNotFound */
  async listFires(
    id: string,
    { limit = DEFAULT_FIRES, after }: ListFiresQueryDto,
  ): Promise<Page<ScheduleFireDto>> {
    await this.require(id);
    const found = await this.schedules.listFires(id, after ?? null, limit + 1);
    return { items: found.slice(0, limit).map(toScheduleFireDto), hasMore: found.length > limit };
  }

  /** Removes a schedule with its fires; its runs stay. @throws ScheduleNotFound */
  async delete(id: string, by: Author): Promise<void> {
    await this.require(id);
    // Not all in one transaction: there may be a million.
    while ((await this.schedules.removeFires(id, FIRES_PER_BATCH)) === FIRES_PER_BATCH);
    await this.#change(id, async (manager, before) => {
      await this.schedules.remove(manager, id);
      await unuseFiles(manager, 'schedule', [id]);
      await recordChange(manager, by, {
        action: 'schedule.delete',
        subject: id,
        before: auditedFields(before),
        after: {},
      });
    });
    this.scheduler.runWithin(AWAITED_TIMES, 0);
  }

  /** While it is paused nothing is due. A second pause has its note. @throws ScheduleNotFound */
  async pause(id: string, note: string | null, by: Author): Promise<ScheduleDto> {
    const paused = await this.#change(id, (manager, before, now) =>
      this.#pause(manager, before, { now, note, by }),
    );
    this.scheduler.runWithin(AWAITED_TIMES, 0);
    return this.#show(paused);
  }

  /** Pauses it because its last runs have all FAILED, if that is still so. */
  async pauseFailing(id: string): Promise<void> {
    await this.dataSource.transaction(async (manager) => {
      const before = await this.schedules.find(id, manager);
      if (!before || (await this.schedules.listFailing([id], manager)).length === 0) return;
      const now = await currentTime(manager);
      await this.#pause(manager, before, { now, note: failingNote(before), by: null });
    });
    this.scheduler.runWithin(AWAITED_TIMES, 0);
  }

  /** Goes on from now: times of the pause are not made up for. @throws ScheduleNotFound */
  async resume(id: string, by: Author): Promise<ScheduleDto> {
    const resumed = await this.#change(id, async (manager, before, now) => {
      if (before.pausedAt === null) return before;
      const advance = advanceTo(before, firstTime(before, now));
      const stored = { ...before, ...NO_PAUSE, ...advance, failuresSince: now };
      await recordChange(manager, by, { action: 'schedule.resume', subject: id, before: {}, after: {} });
      return this.schedules.put(manager, stored, now);
    });
    return this.#show(resumed);
  }

  /** The next times. @throws InvalidRequest */
  async preview({ from, count = DEFAULT_TIMES, ...times }: PreviewScheduleDto): Promise<SchedulePreviewDto> {
    const timetable = checkedTimes(times);
    const zone = times.timezone ?? 'UTC';
    const shown: SchedulePreviewDto['times'] = [];
    let at = timetable.next(from === undefined ? await currentTime(this.dataSource) : new Date(from));
    for (; at !== null && shown.length < count; at = timetable.next(at)) {
      const note = timetable.noteOf(at);
      shown.push({ at: formatNominal(at, zone), ...(note !== null && { note }) });
    }
    return { times: shown };
  }

  /** @throws ScheduleNotFound */
  async require(id: string): Promise<ScheduleEntity> {
    const found = await this.schedules.find(id);
    if (found) return found;
    throw new ScheduleNotFound(id, nearestName(id, await this.schedules.listIds(COMPARED_IDS)));
  }

  async #pause(
    manager: EntityManager,
    before: ScheduleEntity,
    { now, note, by }: { readonly now: Date; readonly note: string | null; readonly by: Author | null },
  ): Promise<ScheduleEntity> {
    const { id } = before;
    await this.fires.miss(manager, before, now, (by === null ? note : null) ?? PAUSED);
    const after = {
      ...before,
      pausedAt: now,
      pausedNote: note,
      pausedByName: by?.name ?? null,
      nextAt: null,
      dueAt: null,
    };
    await recordChange(manager, by ?? SERVICE, {
      action: 'schedule.pause',
      subject: id,
      before: {},
      after: { note },
    });
    return this.schedules.put(manager, after, now);
  }

  /** @throws ScheduleNotFound */
  async #change<T>(
    id: string,
    change: (manager: EntityManager, before: ScheduleEntity, now: Date) => Promise<T>,
  ): Promise<T> {
    return this.dataSource.transaction(async (manager) => {
      const before = await this.schedules.find(id, manager);
      if (!before) throw new ScheduleNotFound(id);
      return change(manager, before, await currentTime(manager));
    });
  }

  async #show(schedule: ScheduleEntity): Promise<ScheduleDto> {
    const last = await this.schedules.newestFires([schedule.id], LAST_FIRES);
    return toScheduleDto(schedule, last.get(schedule.id) ?? []);
  }

  /** What the body asks for. @throws InvalidRequest with a line for each problem */
  async #checked(id: string, body: PutScheduleDto, by: Caller): Promise<Definition> {
    const timetable = checkedTimes(body);
    const { starts_at: startsAt, ends_at: endsAt, catch_up: catchUp, labels = {} } = body;
    const definition = {
      description: body.description ?? null,
      labels: Object.keys(labels).length === 0 ? null : labels,
      run: body.run ?? null,
      group: body.group ?? null,
      cron: body.cron ?? null,
      everyS: body.every_s ?? null,
      offsetS: body.offset_s ?? 0,
      timezone: body.timezone ?? 'UTC',
      startsAt: startsAt === undefined ? null : new Date(startsAt),
      endsAt: endsAt === undefined ? null : new Date(endsAt),
      jitterS: body.jitter_s ?? 0,
      overlap: body.overlap ?? 'skip',
      catchUp: catchUp?.policy ?? 'latest',
      windowS: catchUp?.window_s ?? DEFAULT_WINDOW_S,
      pauseAfterFailures: body.pause_after_failures ?? null,
    } as const;
    const problems = new Problems();
    if ((definition.run === null) === (definition.group === null))
      problems.add('exactly one of run and group must be given');
    if (definition.startsAt && definition.endsAt && definition.startsAt > definition.endsAt)
      problems.add('ends_at must not be before starts_at');
    if (areTooMany(mergeLabels(labels))) problems.add(`labels must have at most ${MAX_LABELS} entries`);
    problems.throwIfAny();
    const now = await currentTime(this.dataSource);
    try {
      await this.bodies.check({ ...definition, id }, timetable.next(now) ?? now, by);
    } catch (error) {
      if (!(error instanceof DomainError) || error.kind === 'switched-off') throw error;
      throw new InvalidRequest(VALIDATION_FAILED, linesOf(error, definition.run === null ? 'group' : 'run'));
    }
    return definition;
  }
}

/** Why a schedule is paused whose runs fail. */
export function failingNote({
  pauseAfterFailures,
  run,
}: Pick<ScheduleEntity, 'pauseAfterFailures' | 'run'>): string {
  return `The last ${pauseAfterFailures} ${run === null ? 'groups' : 'runs'} have FAILED`;
}

/** What a body determines of a schedule. */
type Definition = Omit<
  StoredSchedule,
  | 'id'
  | 'applied'
  | 'createdAt'
  | 'createdBy'
  | 'createdByName'
  | 'updatedAt'
  | 'updatedBy'
  | 'updatedByName'
  | keyof typeof NO_PAUSE
  | 'failuresSince'
  | 'timesSince'
  | 'nextAt'
  | 'dueAt'
>;

const PAUSED = 'were due when the schedule was paused';

const NO_PAUSE = { pausedAt: null, pausedNote: null, pausedByName: null } as const;

/** Fields of a schedule that is not stored yet. */
const NO_FIRES = {
  revision: '0',
  failedInRow: 0,
  created: '0',
  skippedOverlap: '0',
  skippedMissed: '0',
  failed: '0',
} as const;

/** The pause of a schedule that is to be paused: the one that it has, or a new one. */
function pauseOf(before: ScheduleEntity | null, now: Date, by: Author) {
  if (before === null || before.pausedAt === null)
    return { pausedAt: now, pausedNote: null, pausedByName: by.name };
  const { pausedAt, pausedNote, pausedByName } = before;
  return { pausedAt, pausedNote, pausedByName };
}

/** @throws InvalidRequest */
function checkedTimes({ cron, every_s, offset_s, timezone }: TimesDto): Timetable {
  const timetable = compileTimes({ cron, every_s, offset_s, timezone });
  if ('problems' in timetable) throw new InvalidRequest(VALIDATION_FAILED, timetable.problems);
  return timetable;
}

/** What the audit log has of a schedule. */
function auditedFields(schedule: ScheduleEntity): object {
  const {
    last: _last,
    next: _next,
    counts: _counts,
    newest_run_state: _state,
    ...shown
  } = toScheduleDto(schedule, []);
  return shown;
}
