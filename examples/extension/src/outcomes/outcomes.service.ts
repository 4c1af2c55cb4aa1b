import { Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { RunEntity, RunEvents, type CommittedEvent } from 'longshore/extension';
import { auditTime, filter } from 'rxjs';
import { DataSource, In, type EntityManager } from 'typeorm';
import { OutcomesCursorEntity } from './run-outcome.entity.js';

const ENDS = new Set(['COMPLETED', 'FAILED', 'CANCELLED']);

/** Counts the events that end a run, each exactly once, however many processes the service has. */
@Injectable()
export class OutcomesService implements OnModuleInit {
  private readonly logger = new Logger(OutcomesService.name);

  constructor(
    private readonly dataSource: DataSource,
    private readonly events: RunEvents,
  ) {}

  /** Events of this process are counted soon. The interval counts those of other processes, and what was missed. */
  onModuleInit(): void {
    this.events.committed$.pipe(filter(endsRun), auditTime(100)).subscribe(() => void this.countNewEvents());
  }

  @Interval('run-outcomes.count', 2_000)
  async countNewEvents(): Promise<void> {
    try {
      while (await this.dataSource.transaction((manager) => this.countPage(manager)));
    } catch (error) {
      this.logger.warn(`The outcomes could not be counted; trying again in 2 s: ${String(error)}`);
    }
  }

  /** The counts and the cursor change in one transaction, so no event is counted twice. @returns whether there are more */
  private async countPage(manager: EntityManager): Promise<boolean> {
    const place = await manager.findOne(OutcomesCursorEntity, {
      where: { id: 1 },
      lock: { mode: 'pessimistic_write', onLocked: 'skip_locked' },
    });
    // Another process is counting.
    if (!place) return false;
    const page = await this.events.read(place.cursor, 500, manager);
    const ends = page.events.filter(endsRun);
    const images = await imagesOf(manager, ends);
    for (const { run_id: id, state } of ends) {
      const image = images.get(id);
      // Retention has removed the run.
      if (image === undefined) continue;
      await manager.query(
        `insert into run_outcomes as outcome (image, state, runs) values ($1, $2, 1)
           on conflict (image, state) do update set runs = outcome.runs + 1`,
        [image, state],
      );
    }
    await manager.update(OutcomesCursorEntity, { id: 1 }, { cursor: page.next_cursor });
    return page.has_more;
  }
}

async function imagesOf(
  manager: EntityManager,
  events: readonly CommittedEvent[],
): Promise<Map<string, string>> {
  const ids = [...new Set(events.map(({ run_id: id }) => id))];
  const runs = await manager.find(RunEntity, { select: { id: true, image: true }, where: { id: In(ids) } });
  return new Map(runs.map(({ id, image }) => [id, image]));
}

/** A failed attempt that is retried leaves the run PENDING. */
function endsRun({ type, state }: CommittedEvent): boolean {
  return type === state && ENDS.has(state);
}
