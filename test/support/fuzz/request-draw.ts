import { KEYS } from '../app/test-app.js';
import type { ApiDescription, Operation, Parameter } from './api-document.js';
import type { Draw } from './draw.js';
import type { KnownThings } from './known-things.js';
import { SchemaValues } from './schema-values.js';

/** A request that was drawn, and what is known to be wrong with it. */
export interface DrawnRequest {
  readonly operation: Operation;
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer | undefined;
  /** The body as a value, where it is one. */
  readonly value: unknown;
  /** What was done to the valid request; undefined when it was left alone. */
  readonly flaw: Flaw | undefined;
}

/** Something wrong: what, and the statuses that it must be refused with (none: it may be taken). */
interface Flaw {
  readonly name: string;
  readonly refusedWith: readonly number[];
}

/** A request while it is being put together. */
interface Draft {
  readonly path: Map<string, string>;
  readonly query: [string, string][];
  readonly headers: Map<string, string>;
  value: unknown;
  body: string | Buffer | undefined;
}

type Spoil = (draft: Draft, draw: Draw, operation: Operation) => Flaw | undefined;

const ODD_PARTS = [
  '%00',
  '%zz',
  '%ED%A0%80',
  '..',
  '%2e%2e%2f',
  'x'.repeat(2000),
  '%F0%9F%98%80',
  "'--",
  'null',
];
const ODD_VALUES = [null, true, -1, 1.5, 2 ** 40, '', 'x', 'y'.repeat(3000), [], [1], {}, { a: 1 }];
const BAD_TEXTS = [
  '',
  '{',
  'null',
  '[]',
  '"x"',
  '{"a":1,"a":2}',
  '{"image":"i","priority":1e400}',
  '{"image":"i","priority":9007199254740993}',
  '{"image":"\\u0000"}',
  '{"image":"\\ud800"}',
  `{"image":"i","inputs":${'{"a":'.repeat(70)}1${'}'.repeat(70)}}`,
];
const BAD_BYTES = Buffer.from('{"image":"\xff"}', 'latin1');

/** Ways to make a request worse. */
const SPOILS: readonly Spoil[] = [
  (draft, _, { secured }) => {
    if (!secured) return undefined;
    draft.headers.delete('X-API-Key');
    return { name: 'no key', refusedWith: [401] };
  },
  (draft, _, { secured }) => {
    if (!secured) return undefined;
    draft.headers.set('X-API-Key', 'wrong');
    return { name: 'a wrong key', refusedWith: [401] };
  },
  (draft, draw) => {
    draft.headers.set('X-API-Key', draw.pick([KEYS.client, KEYS.worker]));
    return { name: 'a lesser key', refusedWith: [] };
  },
  (draft, draw) => {
    draft.query.push([draw.pick(['nope', '__proto__', 'limit[]', 'created[eq]']), '1']);
    return { name: 'an unknown query parameter', refusedWith: [400, 404] };
  },
  (draft, draw, { parameters }) => {
    const mayRepeat = (name: string): boolean =>
      parameters.some((parameter) => parameter.name === name && parameter.schema.type === 'array');
    const given = draw.pick(draft.query.filter(([name]) => !mayRepeat(name)));
    if (given) draft.query.push([...given]);
    return given && { name: 'a query parameter twice', refusedWith: [400, 404] };
  },
  (draft, draw, { parameters }) => {
    const name = draw.pick(parameters.filter((parameter) => parameter.in === 'query'))?.name;
    if (name === undefined) return undefined;
    draft.query.push([
      name,
      draw.pick(['', '\0', ' ', 'true ', '1e3', '-0', '\u2028', '99999999999999999999']),
    ]);
    return { name: 'an odd value in the query', refusedWith: [] };
  },
  (draft, draw) => {
    const name = draw.pick([...draft.path.keys()]);
    if (name !== undefined) draft.path.set(name, draw.pick(ODD_PARTS) ?? '');
    return name === undefined ? undefined : { name: 'an odd part of the path', refusedWith: [] };
  },
  (draft, draw, { parameters }) => {
    const name = draw.pick(parameters.filter((parameter) => parameter.in === 'header'))?.name;
    if (name !== undefined)
      draft.headers.set(name, draw.pick(['', ' ', '\u00ff', '0', 'x'.repeat(300), 'a, b']));
    return name === undefined ? undefined : { name: 'an odd header', refusedWith: [] };
  },
  (draft, draw, { body }) => {
    if (body === undefined) return undefined;
    draft.headers.set('Content-Type', draw.pick(['text/plain', 'application/x-www-form-urlencoded', 'x']));
    return { name: 'another content type', refusedWith: [415, 413] };
  },
  (draft, draw, { body }) => {
    if (body === undefined) return undefined;
    draft.body = draw.chance(10) ? BAD_BYTES : draw.pick(BAD_TEXTS);
    return { name: 'a bad body', refusedWith: [400] };
  },
  (draft, _, { body }) => {
    if (body === undefined) return undefined;
    draft.body = JSON.stringify({ image: 'x'.repeat(1_100_000) });
    return { name: 'a body that is too large', refusedWith: [413] };
  },
  spoilField,
  spoilField,
  spoilField,
  spoilField,
  spoilField,
  spoilField,
];

/** Draws a request of an operation; about half of them are spoiled in one way. */
export function drawRequest(
  api: ApiDescription,
  operation: Operation,
  draw: Draw,
  known: KnownThings,
): DrawnRequest {
  const draft = drawDraft(api, operation, draw, known);
  const flaw = draw.chance(55) ? draw.pick(SPOILS)?.(draft, draw, operation) : undefined;
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => draft.path.get(name) ?? '');
  const query = draft.query.map(
    ([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`,
  );
  return {
    operation,
    target: query.length > 0 ? `${path}?${query.join('&')}` : path,
    headers: Object.fromEntries(draft.headers),
    body: draft.body ?? (draft.value === undefined ? undefined : JSON.stringify(draft.value)),
    value: draft.value,
    flaw,
  };
}

function drawDraft(api: ApiDescription, operation: Operation, draw: Draw, known: KnownThings): Draft {
  const values = new SchemaValues(api, draw, known, operation.path);
  const valuesOf = ({ name, schema }: Parameter): string[] => [values.valid(schema, name)].flat().map(String);
  const chosen = (place: Parameter['in']): [string, string][] =>
    operation.parameters
      .filter((parameter) => parameter.in === place && (parameter.required || draw.chance(25)))
      // Nobody has the time to wait here.
      .flatMap((parameter) =>
        (parameter.name === 'wait' ? ['0'] : valuesOf(parameter)).map((value): [string, string] => [
          parameter.name,
          value,
        ]),
      );
  // An empty part, or one of dots, would name another path.
  const path = chosen('path').map(
    ([name, value]) => [name, encodeURIComponent(/^\.{0,2}$/.test(value) ? 'x' : value)] as const,
  );
  return {
    path: new Map(path),
    query: chosen('query'),
    headers: new Map([
      ['X-API-Key', KEYS.admin],
      ...(operation.body === undefined ? [] : [['Content-Type', 'application/json'] as const]),
      // No client sends other characters in a header, or spaces around its value.
      ...chosen('header').map(([name, value]) => [name, value.replaceAll(/[^ -~]|^ | $/g, 'h')] as const),
    ]),
    value: operation.body === undefined ? undefined : values.valid(operation.body, 'body'),
    body: undefined,
  };
}

/** Takes a field away, puts an odd value in its place, or adds one; whether that is refused, the schema says. */
function spoilField(draft: Draft, draw: Draw): Flaw | undefined {
  if (typeof draft.value !== 'object' || draft.value === null) return undefined;
  const copy: object = structuredClone(draft.value);
  let owner: object = copy;
  // Walks down to some object or list in the body.
  for (let steps = draw.int(0, 3); steps > 0; steps -= 1) {
    const inner = draw.pick(
      Object.values(owner).filter((value) => typeof value === 'object' && value !== null),
    );
    if (inner === undefined) break;
    owner = inner;
  }
  const name = draw.chance(20) ? 'unknown' : draw.pick(Object.keys(owner));
  if (name === undefined) return undefined;
  if (draw.chance(25)) Reflect.deleteProperty(owner, name);
  else {
    const value = draw.chance(60) ? draw.pick(ODD_VALUES) : draw.json(1);
    Object.defineProperty(owner, name, { value, enumerable: true, configurable: true, writable: true });
  }
  draft.value = copy;
  return { name: `field ${name} changed`, refusedWith: [] };
}
