import assert from 'node:assert/strict';
import { deserialize, serialize } from 'node:v8';
import type { Call, FinalEntry, FinalState, Rules } from './history.js';
import type { IdealService } from './ideal-service.js';

type Loose<T> =
  T extends ReadonlyMap<infer K, infer V>
    ? Map<K, Loose<V>>
    : T extends readonly (infer Item)[]
      ? Loose<Item>[]
      : T extends object
        ? { -readonly [K in keyof T]: Loose<T[K]> }
        : T;

/** A copy of what a service did and has, to be spoilt. */
export interface Story {
  readonly history: Loose<Call>[];
  readonly final: Loose<FinalState>;
  readonly rules: Rules;
}

type LooseRun = Story['final']['runs'][number];
type LooseEvent = Story['final']['tails'][number]['events'][number];

/** The story of a service so far. */
export function storyOf(service: IdealService): Story {
  const { history, rules } = service;
  const copy: Story = deserialize(serialize({ history, final: service.final(), rules }));
  return copy;
}

/** A run of the story. */
export function runOf({ final }: Story, id: string): LooseRun {
  return final.runs.find((run) => run.id === id) ?? assert.fail(`no run ${id}`);
}

/** The entry with the mark, and its run. */
export function entryOf({ final }: Story, mark: string): { run: LooseRun; at: number; entry: FinalEntry } {
  for (const run of final.runs) {
    const at = run.timeline.findIndex((entry) => entry.mark === mark);
    const entry = run.timeline[at];
    if (entry) return { run, at, entry };
  }
  return assert.fail(`no entry ${mark}`);
}

/** The feed of a topic. */
export function feedOf({ final }: Story, topic: string): LooseEvent[] {
  return final.feeds.get(topic) ?? assert.fail(`no feed ${topic}`);
}

/** Gives every entry of the run the index of its place again, so that nothing but the change itself shows. */
export function renumber(run: LooseRun): void {
  run.timeline.forEach((entry, i) => {
    entry.id = i;
  });
}

/** Makes the run's feed and its reader agree with its timeline, in the places that its events had. */
export function mirrorAgain({ final }: Story, { id, topic, timeline }: LooseRun): void {
  if (topic === null) return;
  const feed = final.feeds.get(topic) ?? [];
  const others = feed.filter((event) => event.runId !== id);
  const own = timeline.map(({ attempt, type, t, mark }, i) => ({
    cursor: `again-${id}-${i}`,
    runId: id,
    attempt,
    type,
    t,
    mark,
  }));
  final.feeds.set(topic, [...others, ...own]);
  for (const tail of final.tails.filter((each) => each.topic === topic)) tail.events = [...others, ...own];
}

/** Two items change their places. */
export function swap(items: unknown[], a: number, b: number): void {
  const [first, second] = [items[a], items[b]];
  assert.ok(first !== undefined && second !== undefined);
  items[a] = second;
  items[b] = first;
}
