import { Injectable, Module } from '@nestjs/common';
import type {
  Assignment,
  CandidateQuery,
  Choice,
  Claimant,
  Obstacle,
  QueuedRun,
  SchedulingStrategy,
} from 'longshore/extension';

/** A worker holds as many runs at a time as its tag `slots:N` says, one without the tag. */
@Injectable()
export class SlotsStrategy implements SchedulingStrategy {
  readonly name = 'slots';

  candidatesFor(claimants: readonly Claimant[]): CandidateQuery {
    const free = claimants.reduce((sum, claimant) => sum + freeSlots(claimant), 0);
    return { limit: Math.max(1, Math.min(free, 500)) };
  }

  obstacles(claimant: Claimant): readonly Obstacle[] {
    const free = freeSlots(claimant);
    return free > 0 ? [] : [{ resource: 'slots', needed: 1, free, total: slotsOf(claimant) }];
  }

  choose(claimants: readonly Claimant[], candidates: readonly QueuedRun[]): Choice {
    const slots = claimants.flatMap((claimant, claim) =>
      Array.from({ length: freeSlots(claimant) }, () => claim),
    );
    const assignments = candidates.slice(0, slots.length).flatMap((run, i): Assignment[] => {
      const claim = slots[i];
      return claim === undefined ? [] : [{ claim, runId: run.id, gpuId: null }];
    });
    return { assignments };
  }
}

@Module({ providers: [SlotsStrategy], exports: [SlotsStrategy] })
export class SlotsModule {}

function slotsOf({ tags }: Claimant): number {
  const tag = tags.find((text) => /^slots:\d{1,3}$/.test(text));
  return tag === undefined ? 1 : Number(tag.slice('slots:'.length));
}

function freeSlots(claimant: Claimant): number {
  return Math.max(0, slotsOf(claimant) - claimant.held.length);
}
