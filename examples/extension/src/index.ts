import { AddTeamBudgets1795100000001 } from './budgets/add-team-budgets.migration.js';
import { TeamBudgetEntity } from './budgets/team-budget.entity.js';
import { AddRunOutcomes1795100000002 } from './outcomes/add-run-outcomes.migration.js';
import { OutcomesCursorEntity, RunOutcomeEntity } from './outcomes/run-outcome.entity.js';

// The service imports every module that the file exports, and adds the entities and migrations to its data source.
export { BudgetsModule } from './budgets/budgets.module.js';
export { FreezeModule } from './freeze.module.js';
export { OutcomesModule } from './outcomes/outcomes.module.js';
export { SlotsModule } from './slots.strategy.js';

export const entities = [TeamBudgetEntity, RunOutcomeEntity, OutcomesCursorEntity];
export const migrations = [AddTeamBudgets1795100000001, AddRunOutcomes1795100000002];
