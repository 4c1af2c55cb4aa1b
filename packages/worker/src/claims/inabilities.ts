import type { Unable } from '../service-api/service-api.js';
import { Reasons } from './reasons.js';

/** What this machine is unable to do for runs at present, and why; heartbeats and the health file tell it. */
export class Inabilities extends Reasons<Unable['ability']> {
  private told = '';

  /** Whether the service knows of all that is listed: until then it may give runs that cannot be executed. */
  get areTold(): boolean {
    return this.entries().every(([ability]) => this.told.includes(ability));
  }

  list(): Unable[] {
    return this.entries().map(([ability, message]) => ({ ability, message }));
  }

  /** The service has accepted this list. */
  noteTold(list: readonly Unable[]): void {
    this.told = list.map(({ ability }) => ability).join();
  }
}
