import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import type { ScheduleEntity } from '../../database/entities/schedule.entity.js';
import { inOrder } from '../../groups/members/group-plan.js';
import type { AwaitedTime } from '../../runs/machine/run.js';
import type { ScheduleDependencyDto } from '../dto/schedule-dependency.dto.js';
import { ScheduleRepository } from '../schedule.repository.js';
import { timetableOf } from '../schedule-times.js';
import { localDate } from '../times/nominal-time.js';
import { AwaitedTimeRepository } from './awaited-time.repository.js';
import { namedSchedules, splitBodies, type SplitBodies } from './schedule-entries.js';

/** Times of a schedule on one date for which one entry may wait: each minute, also of a day of 25 hours. */
const MAX_TIMES = 1_500;

/** Times for which all that is made for one time may wait. */
const MAX_TIMES_OF_ALL = 10_000;

/** A date lies in all zones within so many hours before and after its midnight in UTC; times within them are at least ten seconds apart. */
const HOURS_BEFORE = 15;
const HOURS_AFTER = 39;
const HOUR_MS = 3_600_000;
const TIMES_READ = ((HOURS_BEFORE + HOURS_AFTER) * HOUR_MS) / 10_000;

/** Gives the times for which entries wait. */
export type TimesOf = (entries: readonly ScheduleDependencyDto[]) => readonly AwaitedTime[];

/** Reads entries of `depends_on` that name other schedules. */
@Injectable()
export class AwaitedTimes {
  constructor(
    private readonly times: AwaitedTimeRepository,
    private readonly schedules: ScheduleRepository,
  ) {}

  /** @param at the time for which a schedule of this zone makes something @throws InvalidRequest if they are too many */
  async timesOf(
    { own, ofMembers }: SplitBodies,
    { timezone }: Pick<ScheduleEntity, 'timezone'>,
    at: Date,
  ): Promise<TimesOf> {
    const dated = [...own, ...[...ofMembers.values()].flat()].filter(({ same }) => same === 'date');
    const onDate = dated.length === 0 ? null : await this.#timesOn(localDate(at, timezone), dated);
    let left = MAX_TIMES_OF_ALL;
    return (entries) => {
      const all = entries.flatMap(({ schedule: scheduleId, same, when: need = 'completed' }) =>
        timesFor(at, same === 'date' ? onDate?.get(scheduleId) : undefined).map(
          (nominalAt): readonly [string, AwaitedTime] => [
            JSON.stringify([scheduleId, nominalAt, need]),
            { scheduleId, nominalAt, need },
          ],
        ),
      );
      const distinct = [...new Map(all).values()];
      left -= distinct.length;
      if (left < 0) throw tooMany(`all entries of schedules stand for more than ${MAX_TIMES_OF_ALL} times`);
      return distinct;
    };
  }

  /**
   * Refuses unknown schedules, and some that wait for each other. Requests that store such a schedule wait for each other.
   * @throws InvalidRequest
   */
  async check(
    manager: EntityManager,
    { id, ...bodies }: Pick<ScheduleEntity, 'id' | 'run' | 'group'>,
  ): Promise<void> {
    const named = namedSchedules(splitBodies(bodies));
    if (named.length === 0) return;
    const place = bodies.run === null ? 'group' : 'run';
    await this.schedules.lock(manager, ALL);
    const parents = new Map<string, readonly string[]>([[id, named]]);
    for (let next: readonly string[] = named.filter((name) => name !== id); next.length > 0;) {
      for (const found of await this.times.find(next, manager))
        parents.set(found.id, namedSchedules(splitBodies(found)));
      const unknown = named.filter((name) => !parents.has(name));
      if (unknown.length > 0)
        throw new InvalidRequest(
          VALIDATION_FAILED,
          unknown.map((name) => `${place}: depends_on: there is no schedule '${name}'`),
        );
      const read = new Set(next);
      next = [...new Set([...parents.values()].flat())].filter(
        (name) => !parents.has(name) && !read.has(name),
      );
    }
    const known = [...parents].map(
      ([name, own]) => [name, own.filter((parent) => parents.has(parent))] as const,
    );
    const order = inOrder(new Map(known));
    if ('cycle' in order)
      throw new InvalidRequest(VALIDATION_FAILED, [
        `${place}: depends_on: schedules wait for each other: ${order.cycle.join(' -> ')}`,
      ]);
  }

  /** By schedule, all of its times that have this date in its zone. */
  async #timesOn(
    date: string,
    entries: readonly ScheduleDependencyDto[],
  ): Promise<ReadonlyMap<string, readonly Date[]>> {
    const midnight = Date.parse(`${date}T00:00:00Z`);
    const from = new Date(midnight - HOURS_BEFORE * HOUR_MS);
    const until = new Date(midnight + HOURS_AFTER * HOUR_MS);
    const ids = [...new Set(entries.map(({ schedule }) => schedule))];
    const found = await this.times.find(ids);
    const earlier = await this.times.listEarlier(ids, from, until, TIMES_READ);
    return new Map(
      found.map((schedule) => {
        const { id, timezone, startsAt, endsAt, timesSince } = schedule;
        const regular = timetableOf(schedule)
          .range(from, until, TIMES_READ)
          .filter(
            (time) => time > timesSince && !(startsAt && time < startsAt) && !(endsAt && time > endsAt),
          );
        const accounted = earlier.flatMap(({ scheduleId, nominalAt }) =>
          scheduleId === id ? nominalAt : [],
        );
        const times = [...accounted, ...regular].filter((time) => localDate(time, timezone) === date);
        if (times.length > MAX_TIMES)
          throw tooMany(`schedule '${id}' has more than ${MAX_TIMES} times on ${date}`);
        return [id, times];
      }),
    );
  }
}

/** The name under which all requests wait that store schedules which name others; no id is empty. */
const ALL = '';

/** The times of a date; this one, if they are not asked for; of a date without times one that is none, so that nothing is made for it. */
function timesFor(at: Date, onDate: readonly Date[] | undefined): readonly Date[] {
  if (onDate === undefined) return [at];
  return onDate.length > 0 ? onDate : [new Date(at.getTime() + 1)];
}

function tooMany(problem: string): InvalidRequest {
  return new InvalidRequest(VALIDATION_FAILED, [`depends_on: ${problem}`]);
}
