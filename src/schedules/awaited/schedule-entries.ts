import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { DomainError, InvalidRequest, linesOf } from '../../common/errors/domain-error.js';
import { readItem } from '../../common/http/validation/bulk-items.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import type { ScheduleEntity } from '../../database/entities/schedule.entity.js';
import { MAX_DEPENDENCIES } from '../../runs/dto/dependency.dto.js';
import { ScheduleDependencyDto } from '../dto/schedule-dependency.dto.js';

type Bodies = Pick<ScheduleEntity, 'run' | 'group'>;

/** The bodies of a schedule as requests take them, and what is taken out of them: entries of `depends_on` that name schedules. */
export interface SplitBodies extends Bodies {
  /** Of the run, or of the array. */
  readonly own: readonly ScheduleDependencyDto[];
  /** Of the members of the group, by their names. */
  readonly ofMembers: ReadonlyMap<string, readonly ScheduleDependencyDto[]>;
}

/** @throws InvalidRequest with a line for each entry that is wrong */
export function splitBodies({ run, group }: Bodies): SplitBodies {
  const problems: string[] = [];
  const ofMembers = new Map<string, readonly ScheduleDependencyDto[]>();
  const split = (body: JsonObject, place: string) => {
    const found = splitBody(body, place);
    problems.push(...found.problems);
    return found;
  };
  const ofRun = run && split(run, '');
  let taken = group;
  let ofArray: readonly ScheduleDependencyDto[] = [];
  if (group && Array.isArray(group['runs'])) {
    const runs = group['runs'].map((member, n) => {
      if (!isJsonObject(member)) return member;
      const { body, entries } = split(member, `runs[${n}].`);
      if (entries.length > 0) ofMembers.set(nameOf(member), entries);
      return body;
    });
    if (ofMembers.size > 0) taken = { ...group, runs };
  } else if (group && isJsonObject(group['array'])) {
    const { body, entries } = split(group, '');
    [taken, ofArray] = [body, entries];
  }
  if (problems.length > 0) throw new InvalidRequest(VALIDATION_FAILED, problems);
  return { run: ofRun && ofRun.body, group: taken, own: ofRun ? ofRun.entries : ofArray, ofMembers };
}

/** The schedules that these name, each once. */
export function namedSchedules({ own, ofMembers }: Pick<SplitBodies, 'own' | 'ofMembers'>): string[] {
  return [...new Set([...own, ...[...ofMembers.values()].flat()].map(({ schedule }) => schedule))];
}

/** One that has no name is refused as a member. */
function nameOf({ ref }: JsonObject): string {
  return typeof ref === 'string' ? ref : '';
}

function splitBody(body: JsonObject, place: string) {
  const { depends_on: all, ...rest } = body;
  const problems: string[] = [];
  const entries: ScheduleDependencyDto[] = [];
  if (!Array.isArray(all)) return { body, entries, problems };
  const others = all.filter((one, n) => {
    if (!isJsonObject(one) || (one['schedule'] ?? null) === null) return true;
    try {
      entries.push(readItem(ScheduleDependencyDto, one));
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      problems.push(...linesOf(error, `${place}depends_on[${n}]`));
    }
    return false;
  });
  if (all.length > MAX_DEPENDENCIES && others.length < all.length)
    problems.push(`${place}depends_on must have at most ${MAX_DEPENDENCIES} entries`);
  if (others.length === all.length) return { body, entries, problems };
  return { body: others.length === 0 ? rest : { ...rest, depends_on: others }, entries, problems };
}
