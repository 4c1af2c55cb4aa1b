import { Baseline1795000000001 } from './001-baseline.js';

/** Every migration, in order. One that is released is never edited. */
export const MIGRATIONS = [Baseline1795000000001];
