import { ApiProperty } from '@nestjs/swagger';
import { IsInt, Max, Min } from 'class-validator';
import type { TeamBudgetEntity } from './team-budget.entity.js';

/** The body of a request that sets a budget. */
export class SetTeamBudgetDto {
  @ApiProperty({ type: 'integer', description: 'Runs that the team may create a day.', example: 100 })
  @IsInt()
  @Min(0)
  @Max(1_000_000)
  runs_per_day: number;
}

/** A budget, as clients see it. */
export class TeamBudgetDto extends SetTeamBudgetDto {
  @ApiProperty({ description: 'The name of the API keys that the budget is for.', example: 'vision' })
  team: string;

  @ApiProperty({ type: 'integer', description: 'Runs that the team has created today.', example: 7 })
  used: number;
}

export function toTeamBudgetDto({ team, runsPerDay, used }: TeamBudgetEntity): TeamBudgetDto {
  return { team, runs_per_day: runsPerDay, used };
}
