import { readLocalInput, toLocalInput } from '../lib/local-time.js';

/**
 * How a field is entered: `words` one per line and `list` separated by commas, or both as a JSON list; `pairs` in rows; `time`
 * local, as the browser's input has it; `object` and `objects` as JSON.
 */
export type FieldKind =
  'text' | 'integer' | 'number' | 'object' | 'objects' | 'words' | 'list' | 'pairs' | 'time';

/** A field of a form that makes a body of the API. */
export interface FormField {
  /** Where the API has the value, such as `constraints.cpu`. */
  readonly path: string;
  readonly kind: FieldKind;
  readonly label: string;
  /** What to enter, or what holds without it. */
  readonly hint: string;
}

/** A row of names and values. */
export interface Pair {
  readonly name: string;
  readonly value: string;
}

/** What is entered in a field. */
export type FieldValue = string | readonly Pair[];

/** What is entered, by the path of the field; a field that is not there is empty. */
export type FormValues = Readonly<Record<string, FieldValue>>;

/** What is wrong, by the path of the field. */
export type FieldErrors = Readonly<Record<string, string | undefined>>;

type Json = Readonly<Record<string, unknown>>;
type Read = { readonly value: unknown } | { readonly problem: string };

const SEPARATORS = { words: '\n', list: ',' } as const;

/** The text of a field; empty without one. */
export function textOf(values: FormValues, path: string): string {
  const value = values[path];
  return typeof value === 'string' ? value : '';
}

/** The rows of a field. */
export function pairsOf(values: FormValues, path: string): readonly Pair[] {
  const value = values[path];
  return value === undefined || typeof value === 'string' ? [] : value;
}

/**
 * The body that the fields make, or what cannot be sent at all; whether values are allowed is left to the service.
 * @param base members that no field enters; a field that is empty is removed from it
 */
export function readForm(
  fields: readonly FormField[],
  values: FormValues,
  base: Json = {},
): { readonly body: Json } | { readonly errors: FieldErrors } {
  const errors: Record<string, string> = {};
  let body = base;
  for (const { path, kind } of fields) {
    const read = kind === 'pairs' ? readPairs(pairsOf(values, path)) : readText(kind, textOf(values, path));
    if ('problem' in read) errors[path] = read.problem;
    else body = withMember(body, path.split('.'), read.value);
  }
  return Object.keys(errors).length > 0 ? { errors } : { body };
}

/** What one would have entered for this body. */
export function fillForm(fields: readonly FormField[], body: Json): FormValues {
  return Object.fromEntries(
    fields.map(({ path, kind }) => [path, write(kind, memberOf(body, path.split('.')))]),
  );
}

/** The lines of a refusal at the fields that they name, and those that name none. */
export function placeErrors(
  lines: readonly string[],
  paths: readonly string[],
): { readonly fields: FieldErrors; readonly rest: readonly string[] } {
  const fields: Record<string, string> = {};
  const rest: string[] = [];
  for (const line of lines) {
    // `concurrency` says what `concurrency.key` has no place for.
    const path =
      paths.find((one) => isAbout(line, one)) ?? paths.find((one) => isAbout(line, one.split('.')[0] ?? ''));
    if (path === undefined) rest.push(line);
    else fields[path] = [fields[path], line].filter((text) => text !== undefined).join('\n');
  }
  return { fields, rest };
}

function isAbout(line: string, path: string): boolean {
  return [' ', '.', '['].some((next) => line.startsWith(path + next));
}

/** The value of a text; undefined for an empty one. */
function readText(kind: Exclude<FieldKind, 'pairs'>, text: string): Read {
  if (text.trim() === '') return { value: undefined };
  switch (kind) {
    case 'text':
      return { value: text.trim() };
    case 'integer':
      return /^[+-]?\d+$/.test(text.trim()) ? { value: Number(text) } : { problem: 'Enter a whole number.' };
    case 'number':
      return /^[+-]?\d+(\.\d+)?$/.test(text.trim())
        ? { value: Number(text) }
        : { problem: 'Enter a number.' };
    case 'object':
      return readJson(text, isObject, 'Enter a JSON object: { … }');
    case 'objects':
      return readJson(text, isObjects, 'Enter a JSON list of objects: [{ … }]');
    case 'words':
    case 'list': {
      const items = text.split(SEPARATORS[kind]).map((item) => (kind === 'list' ? item.trim() : item));
      const fits = kind === 'list' ? isTexts : isWords;
      return text.trimStart().startsWith('[')
        ? readJson(text, fits, 'Enter a JSON list of texts, or one without brackets.')
        : { value: items.filter((item) => item !== '') };
    }
    case 'time':
      return readLocalInput(text);
  }
}

function readPairs(pairs: readonly Pair[]): Read {
  const given = pairs.filter(({ name, value }) => name !== '' || value !== '');
  const names = new Set(given.map(({ name }) => name));
  if (names.has('')) return { problem: 'Enter a name for each value.' };
  if (names.size < given.length) return { problem: 'Enter each name once.' };
  return {
    value: given.length === 0 ? undefined : Object.fromEntries(given.map(({ name, value }) => [name, value])),
  };
}

function readJson(text: string, fits: (value: unknown) => boolean, problem: string): Read {
  try {
    const value: unknown = JSON.parse(text);
    return fits(value) ? { value } : { problem };
  } catch (error) {
    return { problem: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
}

function write(kind: FieldKind, value: unknown): FieldValue {
  if (kind === 'pairs') {
    return isObject(value)
      ? Object.entries(value).map(([name, text]) => ({ name, value: String(text) }))
      : [];
  }
  if (value === undefined || value === null) return '';
  if (kind === 'objects' && Array.isArray(value) && value.length === 0) return '';
  if (kind === 'time') return typeof value === 'string' ? toLocalInput(value) : '';
  if ((kind === 'words' || kind === 'list') && isTexts(value)) {
    const isPlain = !value.some(
      (item, at) =>
        item.trim() === '' ||
        item.includes(SEPARATORS[kind]) ||
        (at === 0 && item.trimStart().startsWith('[')),
    );
    return isPlain && value.length > 0 ? value.join(kind === 'words' ? '\n' : ', ') : JSON.stringify(value);
  }
  return typeof value === 'string' ? value : JSON.stringify(value, null, kind === 'integer' ? 0 : 2);
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isObjects(value: unknown): boolean {
  return Array.isArray(value) && value.every(isObject);
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

/** Arguments of a definition may have objects among them. */
function isWords(value: unknown): boolean {
  return Array.isArray(value) && value.every((item) => typeof item === 'string' || isObject(item));
}

function memberOf(body: unknown, [name = '', ...rest]: readonly string[]): unknown {
  const member = isObject(body) && Object.hasOwn(body, name) ? body[name] : undefined;
  return rest.length === 0 ? member : memberOf(member, rest);
}

/** The body with another value at the path; undefined removes it, and what is empty without it. */
function withMember(body: Json, [name = '', ...rest]: readonly string[], value: unknown): Json {
  const { [name]: before, ...others } = body;
  if (rest.length === 0) return value === undefined ? others : { ...body, [name]: value };
  const inner = withMember(isObject(before) ? before : {}, rest, value);
  return Object.keys(inner).length === 0 ? others : { ...body, [name]: inner };
}
