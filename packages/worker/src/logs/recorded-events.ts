import { createHash } from 'node:crypto';
import { canonicalJson } from '@longshore/common/json/canonical-json';
import type { RunEvent, TimelineEntry } from '../service-api/service-api.js';

/** The events of an attempt that were on the timeline before its log is read again. */
export class RecordedEvents {
  /** Oldest first. A timeline may have many megabytes. */
  private readonly digests: readonly string[];
  /** Events up to here were printed before the event that is asked for next. */
  private next = 0;

  /** @param newest the newest entries of the timeline, oldest first. If they begin within the attempt, none is recognized. */
  constructor(newest: readonly TimelineEntry[], attempt: number) {
    const [first] = newest;
    const isWhole = first !== undefined && (first.index === 0 || first.attempt < attempt);
    this.digests = isWhole ? newest.filter((entry) => entry.attempt === attempt).map(digestOf) : [];
  }

  /**
   * Whether the timeline has the event. Ask for each event of the log in its order: equal ones are counted. Entries of other
   * senders in between do not matter.
   */
  takes(event: RunEvent): boolean {
    if (this.next >= this.digests.length) return false;
    const found = this.digests.indexOf(digestOf(event), this.next);
    if (found >= 0) this.next = found + 1;
    return found >= 0;
  }
}

function digestOf({ type, msg, payload = {} }: RunEvent): string {
  return createHash('sha256')
    .update(canonicalJson([type, msg, payload]))
    .digest('base64');
}
