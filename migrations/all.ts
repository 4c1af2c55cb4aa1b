import { CreateRuns1795000000001 } from './001-create-runs.js';
import { AddListsDefinitionsKeys1795000000002 } from './002-add-lists-definitions-keys.js';

/** Every migration, in order. One that has landed is never edited. */
export const MIGRATIONS = [CreateRuns1795000000001, AddListsDefinitionsKeys1795000000002];
