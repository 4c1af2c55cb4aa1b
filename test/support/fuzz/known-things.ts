import { SPECIAL_EVENT_TYPES } from '../../../src/runs/machine/event-types.js';
import type { Draw } from './draw.js';

/** Kinds of things that requests name. */
const KINDS = [
  'run',
  'held-run',
  'definition',
  'version',
  'worker',
  'topic',
  'cursor',
  'api-key',
  'image',
  'event',
  'attempt',
  'chunk',
  'secret',
  'bulk-operation',
  'file',
] as const;
type Kind = (typeof KINDS)[number];

/** What parameters and fields of a name stand for, by the operation's path where that decides. */
const MEANINGS: readonly (readonly [name: string, path: RegExp, kind: Kind])[] = [
  ['id', /^\/runs\/\{id\}\/(?:logs\/\{chunk\}|secrets)$/, 'held-run'],
  ['id', /^\/runs/, 'run'],
  ['run_id', /^/, 'run'],
  ['starting_after', /^/, 'run'],
  ['ending_before', /^/, 'run'],
  ['id', /^\/bulk-operations/, 'bulk-operation'],
  ['id', /^\/api-keys/, 'api-key'],
  ['id', /^\/files/, 'file'],
  ['id', /^\/definitions/, 'definition'],
  ['name', /^\/definitions/, 'definition'],
  ['name', /^\/secrets/, 'secret'],
  ['op_definition', /^/, 'definition'],
  ['version', /^/, 'version'],
  ['worker_id', /^/, 'worker'],
  ['X-Worker-Id', /^/, 'worker'],
  ['topic', /^/, 'topic'],
  ['after', /^\/feed/, 'cursor'],
  ['after', /^\/secrets/, 'secret'],
  ['Last-Event-ID', /^/, 'cursor'],
  ['X-Run-Attempt', /^/, 'attempt'],
  ['chunk', /^/, 'chunk'],
  ['image', /^/, 'image'],
  ['type', /^\/(?:runs|workers)/, 'event'],
];

/** Things that exist, so that requests meet each other. */
export class KnownThings {
  readonly #things: Record<Kind, string[]> = {
    run: [],
    'held-run': [],
    definition: ['alpha', 'beta'],
    version: ['1', '2'],
    worker: ['w1', 'w2'],
    topic: ['t1', 't2'],
    cursor: [],
    'api-key': [],
    image: ['image-1', 'image-2'],
    event: [...SPECIAL_EVENT_TYPES, 'NOTE'],
    attempt: ['1'],
    chunk: ['0'],
    secret: ['secret-1', 'secret-2'],
    'bulk-operation': [],
    file: [],
  };

  /** A thing that a field of this name may mean, or undefined when nothing is known. */
  suggest(name: string, path: string, draw: Draw): string | undefined {
    const [, , kind] = MEANINGS.find(([field, where]) => field === name && where.test(path)) ?? [];
    return kind === undefined ? undefined : draw.pick(this.#things[kind]);
  }

  /** Takes in what an answer tells of. */
  learn(path: string, body: unknown): void {
    const { id, next_cursor: cursor, ops } = Object(body);
    if (Array.isArray(ops)) for (const op of ops) this.#add('held-run', String(Object(op).id));
    if (typeof cursor === 'string') this.#add('cursor', cursor);
    if (typeof id !== 'string') return;
    if (/^\/runs|\/runs$/.test(path)) this.#add('run', id);
    else if (path === '/bulk-operations') this.#add('bulk-operation', id);
    else if (path === '/api-keys') this.#add('api-key', id);
    else if (path === '/files/{id}') this.#add('file', id);
  }

  #add(kind: Kind, thing: string): void {
    const things = this.#things[kind];
    if (things.includes(thing)) return;
    things.push(thing);
    if (things.length > 20) things.shift();
  }
}
