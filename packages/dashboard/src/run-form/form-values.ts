import { errorText } from '@longshore/common/errors';
import { isFileId, readFileRef } from '../files/file-refs.js';
import { readLocalInput, toLocalInput } from '../lib/local-time.js';

/**
 * How a field is entered: `text` without blanks around it, `verbatim` as it is; `label` is JSON of any kind, or else text;
 * `words` one per line and `list` separated by commas, or both as a JSON list; `pairs` in rows; `time` local, as the browser's
 * input has it; `object`, `objects` and `array` as JSON; `file` by its id, or as JSON that names what a run has left.
 */
export type FieldKind =
  | 'text'
  | 'verbatim'
  | 'integer'
  | 'number'
  | 'boolean'
  | 'object'
  | 'objects'
  | 'array'
  | 'label'
  | 'words'
  | 'list'
  | 'pairs'
  | 'time'
  | 'file';

/** A field of a form that makes a body of the API. */
export interface FormField {
  /** Where the API has the value, such as `constraints.cpu`. */
  readonly path: string;
  /** The same as a list, where a name may have dots. */
  readonly keys?: readonly string[];
  readonly kind: FieldKind;
  readonly label: string;
  /** What to enter, or what holds without it. */
  readonly hint?: string;
  /** What to say when it is empty; absent: it may be. */
  readonly required?: string;
  readonly placeholder?: string;
  /** Values to choose from and their words; absent: any may be entered. */
  readonly choices?: readonly (readonly [value: string, label: string])[];
  /** Lines of a large field. */
  readonly rows?: number;
}

/** A row of names and values. */
export interface Pair {
  readonly name: string;
  readonly value: string;
}

/** What is entered in a field; undefined for nothing. */
export type FieldValue = string | readonly Pair[] | undefined;

/** What is entered, by the path of the field. */
export type FormValues = Readonly<Record<string, FieldValue>>;

/** What is wrong, by the path of the field. */
export type FieldErrors = Readonly<Record<string, string>>;

/** A JSON object. */
export type Json = Readonly<Record<string, unknown>>;
type Read = { readonly value: unknown } | { readonly problem: string };

const SEPARATORS = { words: '\n', list: ',' } as const;
const INTEGER = /^[+-]?\d+$/;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

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
 * The body that the fields make, and what cannot be sent at all; whether values are allowed is left to the service.
 * @param base members that no field enters; a field that is empty is removed from it
 */
export function readForm(
  fields: readonly FormField[],
  values: FormValues,
  base: Json = {},
): { readonly body: Json; readonly errors: FieldErrors } {
  const errors: Record<string, string> = {};
  let body = base;
  for (const field of fields) {
    const read = readField(field, values[field.path]);
    if ('problem' in read) errors[field.path] = read.problem;
    else body = withMember(body, keysOf(field), read.value);
  }
  return { body, errors };
}

/** What one would have entered for this body. */
export function fillForm(fields: readonly FormField[], body: Json): FormValues {
  return Object.fromEntries(
    fields.map((field) => [field.path, write(field.kind, memberOf(body, keysOf(field)))]),
  );
}

/** The lines of a refusal at the fields that they name, and those that name none. */
export function placeErrors(
  lines: readonly string[],
  fields: readonly Pick<FormField, 'path' | 'keys'>[],
): { readonly fields: FieldErrors; readonly rest: readonly string[] } {
  const placed: Record<string, string> = {};
  const rest: string[] = [];
  // A name may begin with another one and a space.
  const longestFirst = fields.toSorted((left, right) => right.path.length - left.path.length);
  for (const line of lines) {
    const field =
      longestFirst.find(({ path }) => isAbout(line, path)) ??
      // `concurrency` says what `concurrency.key` has no place for.
      fields.find(({ path, keys }) => keys === undefined && isAbout(line, path.split('.')[0] ?? ''));
    if (field === undefined) rest.push(line);
    else placed[field.path] = [placed[field.path], line].filter((text) => text !== undefined).join('\n');
  }
  return { fields: placed, rest };
}

function isAbout(line: string, path: string): boolean {
  return [' ', '.', '[', ':', ','].some((next) => line.startsWith(path + next));
}

function keysOf({ path, keys = path.split('.') }: FormField): readonly string[] {
  return keys;
}

/** The value of what is entered; undefined for nothing. */
export function readField(
  { kind, required }: Pick<FormField, 'kind' | 'required'>,
  entered: FieldValue,
): Read {
  if (kind === 'pairs') return readPairs(typeof entered === 'string' ? [] : (entered ?? []));
  const text = typeof entered === 'string' ? entered : '';
  const isKept = entered !== undefined && (kind === 'verbatim' || kind === 'label');
  if (!isKept && text.trim() === '') {
    return required === undefined ? { value: undefined } : { problem: required };
  }
  switch (kind) {
    case 'text':
      return { value: text.trim() };
    case 'verbatim':
      return { value: text };
    case 'boolean':
      return { value: text === 'true' };
    case 'integer':
      if (!INTEGER.test(text.trim())) return { problem: 'Enter a whole number.' };
      return Number.isSafeInteger(Number(text))
        ? { value: Number(text) }
        : { problem: 'The number is too large to be stored exactly.' };
    case 'number':
      return NUMBER.test(text.trim()) && Number.isFinite(Number(text))
        ? { value: Number(text) }
        : { problem: 'Enter a number.' };
    case 'object':
      return readJson(text, isObject, 'Enter a JSON object, such as {"a": 1}.');
    case 'objects':
      return readJson(text, isObjects, 'Enter a JSON list of objects: [{ … }]');
    case 'array': {
      const value = parseJson(text);
      return Array.isArray(value) ? { value } : { problem: 'Enter a JSON array, such as ["a", "b"].' };
    }
    case 'label':
      return { value: readLabel(text) };
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
    case 'file':
      return readFile(text.trim());
  }
}

/** What stands in a field while the file of this name is on its way. */
export function awaitedFile(name: string): string {
  return `${name} …`;
}

function readFile(text: string): Read {
  if (isFileId(text)) return { value: text };
  const value = parseJson(text);
  return readFileRef(value) === undefined
    ? { problem: 'Choose a file and wait until it is sent, or enter the id of one.' }
    : { value };
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
    return { problem: `This is not JSON: ${errorText(error)}` };
  }
}

/** JSON where it is some, else text, as in the command line; also digits that a number would lose. */
function readLabel(text: string): unknown {
  const value = parseJson(text);
  const isLost =
    typeof value === 'number' &&
    (!Number.isFinite(value) || (INTEGER.test(text.trim()) && !Number.isSafeInteger(value)));
  return value === undefined || isLost ? text : value;
}

/** Undefined: it is no JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function write(kind: FieldKind, value: unknown): FieldValue {
  if (kind === 'pairs') {
    return isObject(value)
      ? Object.entries(value).map(([name, text]) => ({ name, value: String(text) }))
      : [];
  }
  if (value === undefined || value === null) return undefined;
  if (kind === 'file') {
    const ref = readFileRef(value);
    if (ref !== undefined && 'file' in ref) return ref.file;
  }
  if (kind === 'objects' && Array.isArray(value) && value.length === 0) return undefined;
  if (kind === 'time') return typeof value === 'string' ? toLocalInput(value) : undefined;
  if ((kind === 'words' || kind === 'list') && isTexts(value)) {
    const isPlain = !value.some(
      (item, at) =>
        item.trim() === '' ||
        item.includes(SEPARATORS[kind]) ||
        (at === 0 && item.trimStart().startsWith('[')),
    );
    return isPlain && value.length > 0 ? value.join(kind === 'words' ? '\n' : ', ') : JSON.stringify(value);
  }
  // A text that would be read as something else is written as JSON.
  const isText =
    typeof value === 'string' && (kind !== 'label' || (value !== '' && readLabel(value) === value));
  return isText ? value : JSON.stringify(value, null, kind === 'integer' ? 0 : 2);
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
