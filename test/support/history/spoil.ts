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

type CallOf<K extends Call['kind'], C = Story['history'][number]> = C extends { kind: infer Kind }
  ? K extends Kind
    ? C
    : never
  : never;
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

/** The first call of a kind. */
export function callOf<K extends Call['kind']>({ history }: Story, kind: K): CallOf<K> {
  return history.find((call): call is CallOf<K> => call.kind === kind) ?? assert.fail(`no ${kind}`);
}

/** The creation of a run. */
export function createOf({ history }: Story, id: string): CallOf<'create'> {
  const isWanted = (call: Story['history'][number]): call is CallOf<'create'> =>
    call.kind === 'create' && call.outcome.kind === 'answered' && call.outcome.value.runId === id;
  return history.find(isWanted) ?? assert.fail(`no creation of ${id}`);
}

/** The report of the event with the mark. */
export function eventOf({ history }: Story, mark: string): CallOf<'event'> {
  const isWanted = (call: Story['history'][number]): call is CallOf<'event'> =>
    call.kind === 'event' && call.mark === mark;
  return history.find(isWanted) ?? assert.fail(`no event ${mark}`);
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

/** Gives the entries of the run the indexes of their places, and its feed and reader what they say: nothing but the change itself shows. */
export function settle({ final }: Story, { id, topic, timeline }: LooseRun): void {
  timeline.forEach((entry, i) => {
    entry.id = i;
  });
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
