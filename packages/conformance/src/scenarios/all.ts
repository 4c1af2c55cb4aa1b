import type { Scenario } from '../scenario.js';
import { CLAIMS } from './claims.js';
import { CONTAINERS } from './containers.js';
import { FAULTS } from './faults.js';
import { HEARTBEATS } from './heartbeats.js';
import { LAUNCHERS } from './launchers.js';
import { LIVENESS } from './liveness.js';
import { POLLS } from './polls.js';
import { PROXIES } from './proxies.js';
import { ORDINARY } from './ordinary.js';
import { REFUSALS } from './refusals.js';
import { SHUTDOWN } from './shutdown.js';
import { UPGRADES } from './upgrades.js';

/** All scenarios in the order in which they run. */
export const SCENARIOS: readonly Scenario[] = [
  ...ORDINARY,
  ...CONTAINERS,
  ...LIVENESS,
  ...HEARTBEATS,
  ...POLLS,
  ...UPGRADES,
  ...CLAIMS,
  ...FAULTS,
  ...PROXIES,
  ...REFUSALS,
  ...SHUTDOWN,
  ...LAUNCHERS,
];
