import { Body, Controller, Get, Param, Put } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { AllowScopes, CurrentCaller, type Caller } from 'longshore/extension';
import { SetTeamBudgetDto, TeamBudgetDto, toTeamBudgetDto } from './team-budget.dto.js';
import { TeamBudgetsService } from './team-budgets.service.js';

/** HTTP of the budgets. */
@ApiTags('team budgets')
@Controller('team-budgets')
export class TeamBudgetsController {
  constructor(private readonly budgets: TeamBudgetsService) {}

  @Get()
  @AllowScopes('admin')
  @ApiOperation({ operationId: 'listTeamBudgets', summary: 'List the budgets of all teams' })
  @ApiOkResponse({ type: [TeamBudgetDto] })
  async list(): Promise<TeamBudgetDto[]> {
    return (await this.budgets.list()).map(toTeamBudgetDto);
  }

  @Get('mine')
  @AllowScopes('client')
  @ApiOperation({ operationId: 'getOwnTeamBudget', summary: "Get the budget of the caller's team" })
  @ApiOkResponse({ type: TeamBudgetDto })
  async mine(@CurrentCaller() caller: Caller): Promise<TeamBudgetDto> {
    return toTeamBudgetDto(await this.budgets.get(caller.name));
  }

  @Put(':team')
  @AllowScopes('admin')
  @ApiOperation({ operationId: 'setTeamBudget', summary: "Set a team's budget" })
  @ApiOkResponse({ type: TeamBudgetDto })
  async set(@Param('team') team: string, @Body() body: SetTeamBudgetDto): Promise<TeamBudgetDto> {
    return toTeamBudgetDto(await this.budgets.set(team, body.runs_per_day));
  }
}
