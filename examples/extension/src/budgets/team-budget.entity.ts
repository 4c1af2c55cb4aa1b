import { Column, Entity, PrimaryColumn } from 'typeorm';

/** How many runs a team may create a day, and how many it has created. */
@Entity('team_budgets')
export class TeamBudgetEntity {
  /** The name of the team's API keys. */
  @PrimaryColumn('text')
  team: string;

  @Column('integer', { name: 'runs_per_day' })
  runsPerDay: number;

  /** Runs created on `day`. */
  @Column('integer', { default: 0 })
  used: number;

  /** A day in UTC. */
  @Column('date')
  day: string;
}
