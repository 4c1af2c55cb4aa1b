import type { Schemas } from '../../api/use-api.js';

/** A run as the API has it. */
export type Run = Schemas['OpRun'];
