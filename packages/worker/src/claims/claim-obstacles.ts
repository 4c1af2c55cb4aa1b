import { oneLine } from '@longshore/common/shown-text';
import type { NotClaiming } from '../service-api/service-api.js';

/** Code points of a message; the service takes 500 UTF-16 units. */
const MAX_LENGTH = 250;

/**
 * Why this worker does not claim at present. Its parts set and clear the reasons; heartbeats and the health file tell them.
 * A reason is there once: the newest message counts.
 */
export class ClaimObstacles {
  private readonly messages = new Map<NotClaiming['reason'], string>();

  /** @param onChange called when a reason or its message has changed */
  constructor(private readonly onChange: () => void) {}

  get isEmpty(): boolean {
    return this.messages.size === 0;
  }

  /** @param message one line for people, without secrets */
  set(reason: NotClaiming['reason'], message: string): void {
    const clipped = [...oneLine(message)].slice(0, MAX_LENGTH).join('');
    if (this.messages.get(reason) === clipped) return;
    this.messages.set(reason, clipped);
    this.onChange();
  }

  clear(...reasons: readonly NotClaiming['reason'][]): void {
    const cleared = reasons.filter((reason) => this.messages.delete(reason));
    if (cleared.length > 0) this.onChange();
  }

  list(): NotClaiming[] {
    return [...this.messages].map(([reason, message]) => ({ reason, message }));
  }
}
