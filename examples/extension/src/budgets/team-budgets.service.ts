import { Injectable, Logger } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { InjectRepository } from '@nestjs/typeorm';
import { DomainError } from 'longshore/extension';
import { Repository } from 'typeorm';
import { TeamBudgetEntity } from './team-budget.entity.js';

const TODAY = `(now() at time zone 'utc')::date`;

/** No budget is set for the team: 404. */
export class TeamBudgetNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(team: string) {
    super(`Team '${team}' has no budget`);
  }
}

/** The team has no budget left for so many runs: 429. */
export class TeamBudgetExhausted extends DomainError {
  readonly kind = 'rate-limited';

  constructor({ team, runsPerDay, used }: TeamBudgetEntity) {
    super(`Team '${team}' has created ${used} of ${runsPerDay} runs today`, {
      retryAfterSeconds: 86_400 - (Math.floor(Date.now() / 1000) % 86_400),
    });
  }
}

/** The budgets of teams. A team without one may create any number of runs. */
@Injectable()
export class TeamBudgetsService {
  private readonly logger = new Logger(TeamBudgetsService.name);

  constructor(@InjectRepository(TeamBudgetEntity) private readonly budgets: Repository<TeamBudgetEntity>) {}

  list(): Promise<TeamBudgetEntity[]> {
    return this.budgets.find({ order: { team: 'ASC' } });
  }

  /** @throws TeamBudgetNotFound */
  async get(team: string): Promise<TeamBudgetEntity> {
    const budget = await this.budgets.findOneBy({ team });
    if (!budget) throw new TeamBudgetNotFound(team);
    return budget;
  }

  /** Sets a team's budget; what it has created today stays counted. */
  async set(team: string, runsPerDay: number): Promise<TeamBudgetEntity> {
    await this.budgets
      .createQueryBuilder()
      .insert()
      .values({ team, runsPerDay, day: () => TODAY })
      .orUpdate(['runs_per_day'], ['team'])
      .execute();
    return this.get(team);
  }

  /** Counts runs that the team is about to create. @throws TeamBudgetExhausted when there are too many; none is counted */
  async charge(team: string, runs: number): Promise<void> {
    const { affected } = await this.budgets
      .createQueryBuilder()
      .update()
      .set({ used: () => 'used + :runs' })
      .where('team = :team and used + :runs <= runs_per_day', { team, runs })
      .execute();
    if (affected === 1) return;
    const budget = await this.budgets.findOneBy({ team });
    if (budget) throw new TeamBudgetExhausted(budget);
  }

  /** Takes back what `charge` counted for runs that were not created. */
  async refund(team: string, runs: number): Promise<void> {
    if (runs === 0) return;
    await this.budgets
      .createQueryBuilder()
      .update()
      .set({ used: () => 'greatest(used - :runs, 0)' })
      .where('team = :team', { team, runs })
      .execute();
  }

  /** Begins a new day. Every process of the service runs this: all but the first find nothing to do. */
  @Interval('team-budgets.new-day', 5_000)
  async beginDay(): Promise<void> {
    try {
      await this.budgets
        .createQueryBuilder()
        .update()
        .set({ used: 0, day: () => TODAY })
        .where(`day < ${TODAY}`)
        .execute();
    } catch (error) {
      this.logger.warn(`The budgets could not be reset; trying again in 5 s: ${String(error)}`);
    }
  }
}
