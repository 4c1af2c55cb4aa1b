import { CreateRuns1795000000001 } from './001-create-runs.js';

/** Every migration, in order. One that has landed is never edited. */
export const MIGRATIONS = [CreateRuns1795000000001];
