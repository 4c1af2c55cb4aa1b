import { Module } from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { TeamBudgetEntity } from './team-budget.entity.js';
import { TeamBudgetInterceptor } from './team-budget.interceptor.js';
import { TeamBudgetsController } from './team-budgets.controller.js';
import { TeamBudgetsService } from './team-budgets.service.js';

/** Budgets of teams: how many runs each may create a day. */
@Module({
  imports: [TypeOrmModule.forFeature([TeamBudgetEntity])],
  controllers: [TeamBudgetsController],
  providers: [TeamBudgetsService, { provide: APP_INTERCEPTOR, useClass: TeamBudgetInterceptor }],
})
export class BudgetsModule {}
