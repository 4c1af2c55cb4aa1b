import type { NotClaiming } from '../service-api/service-api.js';
import { Reasons } from './reasons.js';

/** Why this worker does not claim at present; heartbeats and the health file tell them. */
export class ClaimObstacles extends Reasons<NotClaiming['reason']> {
  list(): NotClaiming[] {
    return this.entries().map(([reason, message]) => ({ reason, message }));
  }
}
