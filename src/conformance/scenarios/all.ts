import type { Scenario } from '../scenario.js';
import { FAULTS } from './faults.js';
import { LIVENESS } from './liveness.js';
import { ORDINARY } from './ordinary.js';
import { SHUTDOWN } from './shutdown.js';

/** Every scenario of the kit, in the order in which they are played. */
export const SCENARIOS: readonly Scenario[] = [...ORDINARY, ...LIVENESS, ...FAULTS, ...SHUTDOWN];
