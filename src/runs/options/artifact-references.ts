import { jsonText, lazyObject, parseJson } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';

/** What inputs refer to: a file, or what a run leaves. */
export type InputReference = { readonly file: string } | { readonly run: string; readonly name: string };

const KEY = '$artifact';
const TEXT = '"(?:[^"\\\\]|\\\\.)*"';

/** An object whose only member is `$artifact`, in JSON. A quotation mark within a text has a backslash before it. */
const REFERENCE = new RegExp(
  `\\{\\s*"\\$artifact"\\s*:\\s*(${TEXT}|\\{(?:\\s*${TEXT}\\s*:\\s*${TEXT}(?:\\s*,)?)*\\s*\\})\\s*\\}`,
  'g',
);

/** A text in JSON, with the colon behind the key of a member. Each is passed as a whole: one within another has no quotation marks of its own. */
const WHOLE_TEXT = new RegExp(`(${TEXT})(\\s*:)?`, 'g');

/** Names of artifacts in a template of outputs, at most. */
export const MAX_TEMPLATE_NAMES = 100;

/** Whether there may be references; no value is read for it. */
export function mayRefer(value: JsonObject | null | undefined): value is JsonObject {
  return value !== null && value !== undefined && jsonText(value).includes(`"${KEY}"`);
}

/** The values of `$artifact` of the objects that have no other member, at any depth. */
export function references(value: JsonValue): JsonValue[] {
  const found: JsonValue[] = [];
  const open: JsonValue[] = [value];
  for (let one = open.pop(); one !== undefined; one = open.pop()) {
    if (typeof one !== 'object' || one === null) continue;
    const members = Object.entries(one).flatMap(([name, inner]) =>
      inner === undefined ? [] : [[name, inner] as const],
    );
    const [[name, inner] = []] = members;
    if (isJsonObject(one) && members.length === 1 && name === KEY && inner !== undefined) found.push(inner);
    else open.push(...members.map(([, other]) => other));
  }
  return found;
}

/** The names that a template of outputs refers to, each once. */
export function templateNames(template: JsonObject | null | undefined): string[] {
  if (!mayRefer(template)) return [];
  return [...new Set(references(template).filter((one) => typeof one === 'string'))];
}

/** What inputs refer to. */
export function inputReferences(inputs: JsonObject | null | undefined): InputReference[] {
  return mayRefer(inputs) ? references(inputs).flatMap((one) => readReference(one) ?? []) : [];
}

/** A reference of inputs; undefined: it is none. */
export function readReference(value: JsonValue): InputReference | undefined {
  if (!isJsonObject(value)) return undefined;
  const { file, run, name, ...others } = value;
  if (Object.keys(others).length > 0) return undefined;
  if (typeof file === 'string' && run === undefined && name === undefined) return { file };
  return typeof run === 'string' && typeof name === 'string' && file === undefined
    ? { run, name }
    : undefined;
}

/** What a value refers to that is one reference as a whole. */
export function referenceIn(value: JsonValue): InputReference | undefined {
  const { [KEY]: reference, ...others } = isJsonObject(value) ? value : {};
  return reference === undefined || Object.keys(others).length > 0 ? undefined : readReference(reference);
}

/** The value with other ones in the place of its references; numbers stay as they are written. */
export function replaceReferences(value: JsonObject, by: (reference: JsonValue) => JsonValue): JsonObject {
  return mayRefer(value) ? lazyObject(replaceReferencesIn(jsonText(value), by)) : value;
}

/** As {@link replaceReferences}, of a value in JSON. */
export function replaceReferencesIn(text: string, by: (reference: JsonValue) => JsonValue): string {
  return text.replace(REFERENCE, (_, reference: string) => JSON.stringify(by(parseJson(reference))));
}

/** The value with other ones in the place of texts that are addresses. @param by undefined: it stays */
export function replaceAddresses(
  value: JsonObject,
  by: (address: string) => JsonValue | undefined,
): JsonObject {
  const text = jsonText(value);
  const replaced = text.replace(WHOLE_TEXT, (found, whole: string, colon?: string) => {
    const address = colon === undefined && whole.startsWith('"http') ? parseJson(whole) : undefined;
    const other = typeof address === 'string' ? by(address) : undefined;
    return other === undefined ? found : JSON.stringify(other);
  });
  return replaced === text ? value : lazyObject(replaced);
}
