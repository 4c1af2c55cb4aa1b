import type { FeedEvent, FinalEntry, FinalRun, FinalState, Violation } from './history.js';
import { groupBy, type Indexed } from './index-history.js';

/** Each feed is exactly the timelines of the runs that name its topic, and every reader saw the same list. */
export function* checkFeeds({ runs }: Indexed, { feeds, tails }: FinalState): Iterable<Violation> {
  for (const [topic, feed] of feeds) {
    yield* checkCursors(topic, feed);
    const mirrored = groupBy(feed, ({ runId }) => runId);
    for (const [id, events] of mirrored) {
      const run = runs.get(id);
      if (run?.topic !== topic) {
        yield { name: 'feed-unknown-event', detail: `${events.length} of run ${id} on ${topic}` };
      }
    }
  }
  for (const run of runs.values()) {
    if (run.topic === null) continue;
    const feed = feeds.get(run.topic) ?? [];
    yield* checkMirror(run, eventsOf(feed, run.id));
  }
  for (const { reader, topic, events } of tails) {
    const feed = feeds.get(topic) ?? [];
    const differs = feed.findIndex((event, i) => !isSame(event, events[i]));
    const at = differs < 0 && events.length > feed.length ? feed.length : differs;
    if (at >= 0) {
      const detail = `${reader} on ${topic}: entry ${at} of ${feed.length}, of which it saw ${events.length}`;
      yield { name: 'tail-differs', detail };
    }
  }
}

const byRun = new WeakMap<readonly FeedEvent[], Map<string, FeedEvent[]>>();

/** The events of one run on a feed; the feed is sorted by runs once. */
function eventsOf(feed: readonly FeedEvent[], runId: string): readonly FeedEvent[] {
  let groups = byRun.get(feed);
  if (groups === undefined) {
    groups = groupBy(feed, (event) => event.runId);
    byRun.set(feed, groups);
  }
  return groups.get(runId) ?? [];
}

function* checkCursors(topic: string, feed: readonly FeedEvent[]): Iterable<Violation> {
  const seen = new Set<string>();
  for (const { cursor } of feed) {
    if (seen.has(cursor)) yield { name: 'feed-repeat', detail: `cursor ${cursor} twice on ${topic}` };
    seen.add(cursor);
  }
}

/** Compares the run's events on the feed with its timeline: as sets with repetition, then in their order. */
function* checkMirror(run: FinalRun, events: readonly FeedEvent[]): Iterable<Violation> {
  const name = `run ${run.id} on ${run.topic}`;
  const wanted = run.timeline.map(identityOf);
  const found = events.map(identityOf);
  const missing = new Map<string, number>();
  for (const identity of wanted) missing.set(identity, (missing.get(identity) ?? 0) + 1);
  let complete = true;
  for (const identity of found) {
    const left = missing.get(identity);
    if (left === undefined) yield { name: 'feed-unknown-event', detail: `${name}: ${identity}` };
    else if (left === 0) yield { name: 'feed-doubled-event', detail: `${name}: ${identity}` };
    else missing.set(identity, left - 1);
    if (left === undefined || left === 0) complete = false;
  }
  for (const [identity, left] of missing) {
    if (left > 0) {
      complete = false;
      yield { name: 'feed-lost-event', detail: `${name}: ${identity}` };
    }
  }
  if (complete && wanted.some((identity, i) => identity !== found[i])) {
    yield { name: 'feed-order', detail: name };
  }
}

/** What an entry is recognised by in both places. */
function identityOf({ attempt, type, mark, t }: FinalEntry | FeedEvent): string {
  return `${type} ${mark ?? ''} of attempt ${attempt} at ${t}`;
}

function isSame(a: FeedEvent, b: FeedEvent | undefined): boolean {
  return b !== undefined && a.cursor === b.cursor && a.runId === b.runId && identityOf(a) === identityOf(b);
}
