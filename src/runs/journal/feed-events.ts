import { jsonText } from '@longshore/common/json/json-text';
import type { FeedEvent } from '../../feed/cache/feed-tail.js';
import type { CreatedRun } from '../machine/run.js';
import type { Changes } from './decide-group.js';

/** By topic, what its feed shows of the feed entries; without topics of runs whose attributes or labels were not read. */
export function feedEventsOf(
  { entries, created, before }: Pick<Changes, 'entries' | 'created' | 'before'>,
  topics: ReadonlySet<string>,
): ReadonlyMap<string, readonly FeedEvent[]> {
  const shown = new Map<string, FeedEvent[]>();
  const unread = new Set<string>();
  for (const entry of entries) {
    const run = before.get(entry.runId) ?? shownOf(created.find(({ id }) => id === entry.runId));
    if (!run || run.topic === null || !topics.has(run.topic)) continue;
    const { hasAttributes, hasFeedLabels, feedName: name, feedLabels } = run;
    if ((hasAttributes && run.attributes === null) || (hasFeedLabels && feedLabels === null))
      unread.add(run.topic);
    const { runId, attempt, type, t, state } = entry;
    const [msg, payload] = [JSON.stringify(entry.msg), jsonText(entry.payload)];
    const attributes = run.attributes && jsonText(run.attributes);
    const labels = feedLabels && JSON.stringify(feedLabels);
    const events = shown.get(run.topic) ?? [];
    shown.set(run.topic, events);
    events.push({ runId, attempt, type, msg, t, state, payload, attributes, name, labels });
  }
  for (const topic of unread) shown.delete(topic);
  return shown;
}

/** What a feed shows of a new run. */
function shownOf(run: CreatedRun | undefined) {
  return (
    run && {
      ...run,
      hasAttributes: run.attributes !== null,
      hasFeedLabels: run.labels !== null,
      feedName: run.name,
      feedLabels: run.labels,
    }
  );
}
