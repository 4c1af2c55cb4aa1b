import { createHash } from 'node:crypto';
import type { Schemas } from '@longshore/client';
import { canonicalJson } from '@longshore/common/json/canonical-json';
import { composeJson, memberTexts, readExactly } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { Entry, Kind } from './read-entries.js';

type Applied = Schemas['Applied'];

/** A definition or a schedule of the service, as it answers it. */
export interface Stored {
  readonly kind: Kind;
  readonly key: string;
  readonly shown: { readonly applied: Applied | null };
}

/** A field that becomes another. The texts are JSON; undefined: it has none. */
export interface Change {
  readonly field: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
  /** Whether it was not the set that gave it its present value. */
  readonly isConflict: boolean;
}

/** Fields of answers that no request has. */
const ANSWERED: ReadonlySet<string> = new Set([
  'able_workers',
  'applied',
  'counts',
  'created_by',
  'createdAt',
  'last',
  'newest_run_state',
  'next',
  'paused_at',
  'paused_by',
  'paused_note',
  'updated_by',
  'updatedAt',
]);

/** Fields that exclude others, by these. */
const EXCLUDED: Readonly<Record<string, readonly string[]>> = {
  cron: ['every_s'],
  every_s: ['cron'],
  group: ['run'],
  offset_s: ['cron'],
  run: ['group'],
  timezone: ['every_s'],
  run: ['group'],
  group: ['run'],
};

/** What a set of files stored of an object last; null: the object is not of the set. */
export function appliedBy(set: string, stored: Stored | undefined): Applied | null {
  const applied = stored?.shown.applied;
  return applied?.set === set ? applied : null;
}

/** The body that stores an entry: what the file gives, and the fields of the present object that the set has never given. */
export function bodyOf({ body }: Entry, stored: Stored | undefined, mine: Applied | null): JsonObject {
  const given = memberTexts(body);
  const kept = [...fieldsOf(stored)].filter(
    ([field, text]) =>
      text !== 'null' &&
      // Stays without being asked for.
      field !== 'paused' &&
      mine?.given.includes(field) !== true &&
      EXCLUDED[field]?.some((other) => given.has(other)) !== true,
  );
  return composeJson(new Map([...kept, ...given]));
}

/** The fields in which an object differs from what is to become of it. */
export function changesOf(stored: Stored, after: Stored['shown'], mine: Applied | null): readonly Change[] {
  const [old, now] = [fieldsOf(stored), fieldsOf({ ...stored, shown: after })];
  const all = new Set([...now.keys(), ...old.keys()]);
  return [...all].flatMap((field) => {
    const [before, next] = [old.get(field), now.get(field)];
    if (digestOf(before) === digestOf(next)) return [];
    return [{ field, before, after: next, isConflict: isTouched(field, before, mine) }];
  });
}

/** Whether an object is not as its set stored it. A pause is no change. */
export function isChanged(stored: Stored, mine: Applied): boolean {
  return [...fieldsOf(stored)].some(
    ([field, text]) => (field !== 'paused' || mine.given.includes(field)) && isTouched(field, text, mine),
  );
}

/** What is stored with an object, so that the next changes can be told from those of others. */
export function toApplied(set: string, entry: Entry, after: Stored, mine: Applied | null): Applied {
  const given = givenOf(entry);
  const stays = Object.entries(mine?.fields ?? {}).filter(
    ([field]) => !given.includes(field) && mine?.given.includes(field) === false,
  );
  const fields = [...fieldsOf(after)].map(([field, text]) => [field, digestOf(text)] as const);
  return { set, given, fields: Object.fromEntries([...fields, ...stays]) };
}

/** Whether the file gives the fields that it gave when it was applied. */
export function isApplied(entry: Entry, mine: Applied): boolean {
  return mine.given.join() === givenOf(entry).join();
}

function givenOf({ body }: Entry): string[] {
  return [...memberTexts(body).keys()].toSorted();
}

function isTouched(field: string, text: string | undefined, mine: Applied | null): boolean {
  return mine === null || digestOf(text) !== (mine.fields[field] ?? digestOf(undefined));
}

function fieldsOf(stored: Stored | undefined): ReadonlyMap<string, string> {
  if (stored === undefined) return new Map();
  const { kind, shown } = stored;
  const isField = (field: string): boolean =>
    !ANSWERED.has(field) && !(kind === 'schedule' && field === 'id');
  return new Map([...memberTexts(shown)].filter(([field]) => isField(field)));
}

/** A short digest, the same for equal JSON. */
function digestOf(text = 'null'): string {
  const canonical = canonicalJson(readExactly(`[${text}]`));
  return createHash('sha256').update(canonical).digest('base64url').slice(0, 16);
}
