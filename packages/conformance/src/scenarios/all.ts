import type { Scenario } from '../scenario.js';
import { CLAIMS } from './claims.js';
import { FAULTS } from './faults.js';
import { LIVENESS } from './liveness.js';
import { LOOKS } from './looks.js';
import { ORDINARY } from './ordinary.js';
import { REFUSALS } from './refusals.js';
import { SHUTDOWN } from './shutdown.js';

/** Every scenario of the kit, in the order in which they are played. */
export const SCENARIOS: readonly Scenario[] = [
  ...ORDINARY,
  ...LIVENESS,
  ...LOOKS,
  ...CLAIMS,
  ...FAULTS,
  ...REFUSALS,
  ...SHUTDOWN,
];
