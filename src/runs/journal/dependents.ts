import { isTerminal } from '../machine/run-state.js';
import type { BrokenDependency } from '../machine/run-command.js';
import { isMet, type Dependency, type NewRun, type Run } from '../machine/run.js';
import {
  GroupDeltas,
  toDependency,
  type DependencyEnd,
  type FoundGroup,
  type NewDependency,
} from '../storage/groups.js';
import type { Changes } from './decide-group.js';

/** What a new run waits for. */
interface Waits {
  readonly own: readonly NewDependency[];
  /** How many of its parents have not ended; null: it waits for nothing. */
  readonly waitsFor: number | null;
  /** A parent that has ended otherwise than the run needs it. */
  readonly broken?: BrokenDependency | undefined;
}

const NOTHING: Waits = { own: [], waitsFor: null };

/** @param runOf the run with an id, as the commands before leave it */
export function waitsOf(
  { id: childRun, dependsOn = [], awaitedTimes = [], hasSources }: NewRun,
  runOf: (id: string) => Run | undefined,
  groups: ReadonlyMap<string, FoundGroup>,
): Waits {
  if (dependsOn.length + awaitedTimes.length === 0) return NOTHING;
  let open = awaitedTimes.length;
  let broken: BrokenDependency | undefined;
  const own = dependsOn.map(({ parentId, isGroup, need }): NewDependency => {
    const endState = isGroup ? endOfGroup(groups.get(parentId)) : endOfRun(runOf(parentId));
    const outcome = endState === null ? null : isMet(need, endState) ? 'met' : 'broken';
    if (endState === null) open += 1;
    else if (outcome === 'broken')
      broken ??= { parentId, isGroup, reason: whyBroken({ parentId, isGroup, need }, endState) };
    const parent = { parentId, isGroup, scheduleId: null, nominalAt: null };
    return { childRun, childGroup: null, ...parent, need, outcome };
  });
  const isReady = open === 0 && broken === undefined && hasSources !== true;
  const times = awaitedTimes.map((time) => toDependency({ childRun, childGroup: null }, time));
  return { own: [...own, ...times], waitsFor: isReady ? null : open, broken };
}

function endOfRun(run: Run | undefined): string | null {
  return run && isTerminal(run.state) ? run.state : null;
}

function endOfGroup(group: FoundGroup | undefined): string | null {
  return group && group.state !== 'open' ? group.state : null;
}

/** Why a run can never start, for people. */
export function whyBroken({ parentId, isGroup, need }: Dependency, endState: string): string {
  const parent = `${isGroup ? 'Group' : 'Run'} ${parentId}`;
  return `${parent} ended as ${endState.toUpperCase()}, and this run needs that it has ${need === 'failed' ? 'FAILED' : 'COMPLETED'}`;
}

/** By run or group, how many dependencies there are that one of its ends may still change: those on open ones, and broken ones. */
export function waitedFor(
  dependencies: readonly NewDependency[],
  areGroups: boolean,
): ReadonlyMap<string, { readonly all: number; readonly open: number }> {
  const counts = new Map<string, { all: number; open: number }>();
  for (const { parentId, isGroup, outcome } of dependencies) {
    if (parentId === null || outcome === 'met' || isGroup !== areGroups) continue;
    const count = counts.get(parentId) ?? { all: 0, open: 0 };
    counts.set(parentId, count);
    count.all += 1;
    if (outcome === null) count.open += 1;
  }
  return counts;
}

/** The ends of runs that others wait for, or have waited for, as the group leaves them: one that it opens again has not ended. */
export function endsOf({ decided, after }: Pick<Changes, 'decided' | 'after'>): DependencyEnd[] {
  const last = new Map(
    decided.flatMap((change) => (change.run.state === change.before.state ? [] : [[change.run.id, change]])),
  );
  return [...last].flatMap(
    ([
      parentId,
      {
        command,
        before,
        run: { state, reopens },
      },
    ]) => {
      if (!isTerminal(state) || (after.get(parentId)?.dependents ?? 0) === 0) return [];
      const isSetRight = command.type === 'patch' && isTerminal(before.state);
      return { parentId, state, reopens: state === 'COMPLETED' && (isSetRight || reopens === true) };
    },
  );
}

/** Whether there are runs whose inputs are to be read, because all has ended that they wait for. */
export function haveReady({ created, after }: Pick<Changes, 'created' | 'after'>): boolean {
  return (
    created.some(({ waitsFor }) => waitsFor === 0) ||
    [...after.values()].some(({ waitsFor }) => waitsFor === 0)
  );
}

/** By how much the numbers of groups change. */
export function groupDeltasOf({
  created,
  decided,
  dependencies,
}: Pick<Changes, 'created' | 'decided' | 'dependencies'>): GroupDeltas {
  const deltas = new GroupDeltas();
  for (const { groupId } of created) if (groupId !== null) deltas.create(groupId);
  for (const { before, run } of decided)
    if (run.groupId !== null) deltas.move(run.groupId, before.state, run.state);
  if (dependencies.length > 0)
    for (const [id, count] of waitedFor(dependencies, true)) deltas.depend(id, count);
  return deltas;
}
