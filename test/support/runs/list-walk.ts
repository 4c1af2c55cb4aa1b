import assert from 'node:assert/strict';
import type { Send } from '../app/test-app.js';

/** A run as far as filters and order go. */
export interface ListedRun {
  readonly id: string;
  readonly createdAt: string;
  readonly state: string;
  readonly image: string;
  readonly topic: string | null;
  readonly op_definition: string | null;
  readonly selector: readonly string[];
  readonly concurrency_key: string | null;
}

/** Filters of GET /runs by their names in the query; times are seconds since 1970. */
export interface Filter {
  readonly state?: string;
  readonly status?: string;
  readonly image?: string;
  readonly topic?: string;
  readonly op_definition?: string;
  /** Tags, separated by commas. */
  readonly selector?: string;
  readonly concurrency_key?: string;
  readonly created?: Readonly<Partial<Record<'gte' | 'lte' | 'gt' | 'lt', number>>>;
}

/** A page that was read. */
export interface WalkedPage {
  readonly runs: readonly ListedRun[];
  readonly ids: readonly string[];
  readonly hasMore: boolean;
}

/** A page by its cursor. */
export interface Question {
  readonly filter: Filter;
  readonly cursor: string;
  readonly direction: 'starting_after' | 'ending_before';
  readonly limit: number;
}

const PASSES = {
  gte: (time: number, bound: number) => time >= bound,
  lte: (time: number, bound: number) => time <= bound,
  gt: (time: number, bound: number) => time > bound,
  lt: (time: number, bound: number) => time < bound,
} as const;

/** Whether the run passes the filter. */
export function matches(run: ListedRun, filter: Filter): boolean {
  const state = filter.state ?? filter.status;
  const time = Date.parse(run.createdAt);
  return (
    (state === undefined || run.state === state) &&
    (filter.image === undefined || run.image === filter.image) &&
    (filter.topic === undefined || run.topic === filter.topic) &&
    (filter.op_definition === undefined || run.op_definition === filter.op_definition) &&
    (filter.concurrency_key === undefined || run.concurrency_key === filter.concurrency_key) &&
    (filter.selector ?? '').split(',').every((tag) => tag === '' || run.selector.includes(tag)) &&
    (['gte', 'lte', 'gt', 'lt'] as const).every((name) => {
      const seconds = filter.created?.[name];
      return seconds === undefined || PASSES[name](time, seconds * 1000);
    })
  );
}

/** The runs newest first, equal times by id, descending; each once. */
export function inOrder(runs: readonly ListedRun[]): ListedRun[] {
  const unique = [...new Map(runs.map((run) => [run.id, run])).values()];
  return unique.toSorted((a, b) => {
    if (a.createdAt !== b.createdAt) return a.createdAt < b.createdAt ? 1 : -1;
    return a.id < b.id ? 1 : -1;
  });
}

/** Reads the list from its newest run to its end, each page from another of the processes. */
export function forwards(sends: readonly Send[], filter: Filter, limit: number): Promise<WalkedPage[]> {
  return walk(sends, filter, limit, (page) => {
    const last = page?.ids.at(-1);
    return last === undefined ? [] : ['starting_after', last];
  });
}

/** Reads the list from a run back to its newest; without a run there is nothing to walk. */
export async function backwards(
  sends: readonly Send[],
  filter: Filter,
  limit: number,
  from: string | undefined,
): Promise<WalkedPage[]> {
  if (from === undefined) return [];
  return walk(sends, filter, limit, (page) => ['ending_before', page?.ids[0] ?? from]);
}

/** What a page must be, and what it is. */
export const expectedPage = {
  /** The page that the service answers. */
  async ask(send: Send, { filter, cursor, direction, limit }: Question): Promise<object> {
    const { ids, hasMore } = await readPage(send, filter, limit, [direction, cursor]);
    return { ids, hasMore };
  },
  /** The page by the rules, worked out from all runs in order. */
  of(runs: readonly ListedRun[], { filter, cursor, direction, limit }: Question): object {
    const place = runs.findIndex(({ id }) => id === cursor);
    const side = direction === 'starting_after' ? runs.slice(place + 1) : runs.slice(0, place).toReversed();
    const found = side.filter((run) => matches(run, filter));
    const page = found.slice(0, limit).map(({ id }) => id);
    return {
      ids: direction === 'starting_after' ? page : page.toReversed(),
      hasMore: found.length > limit,
    };
  },
} as const;

async function walk(
  sends: readonly Send[],
  filter: Filter,
  limit: number,
  cursorAfter: (page: WalkedPage | undefined) => Cursor,
): Promise<WalkedPage[]> {
  const pages: WalkedPage[] = [];
  for (;;) {
    const send = sends[pages.length % sends.length];
    assert.ok(send);
    const page = await readPage(send, filter, limit, cursorAfter(pages.at(-1)));
    pages.push(page);
    if (!page.hasMore) return pages;
    assert.ok(page.ids.length > 0, 'a page without runs is the last');
  }
}

async function readPage(
  send: Send,
  { created = {}, ...fields }: Filter,
  limit: number,
  [name, id]: Cursor,
): Promise<WalkedPage> {
  const query = new URLSearchParams({ ...fields, limit: String(limit), include_events: 'false' });
  if (name !== undefined && id !== undefined) query.set(name, id);
  for (const [bound, seconds] of Object.entries(created)) query.set(`created[${bound}]`, String(seconds));
  const { status, body, text } = await send('GET', `/runs?${query.toString()}`);
  assert.equal(status, 200, text);
  const runs: ListedRun[] = body.data.map((run: Listed) => ({
    id: run.id,
    createdAt: run.createdAt,
    state: run.state,
    image: run.image,
    topic: run.event_delivery?.topic ?? null,
    op_definition: run.op_definition,
    selector: run.selector,
    concurrency_key: run.concurrency?.key ?? null,
  }));
  return { runs, ids: runs.map((run) => run.id), hasMore: body.has_more };
}

/** Name and value of a cursor's parameter; empty for none. */
type Cursor = readonly [] | readonly [name: Question['direction'], id: string];

interface Listed extends Omit<ListedRun, 'concurrency_key'> {
  readonly concurrency: { readonly key: string } | null;
  readonly event_delivery: { readonly topic: string } | null;
}
