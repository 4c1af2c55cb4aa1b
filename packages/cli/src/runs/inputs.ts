import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { buffer as readAll } from 'node:stream/consumers';
import { composeJson, memberTexts, parseJson } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { usageError } from '../cli-error.js';
import type { Output } from '../terminal/output.js';
import { errorText } from '@longshore/common/errors';

/**
 * Reads `name=value` as a name and a JSON text. A value that is JSON is taken as such, with all digits of numbers, anything
 * else as text: `n=3` is a number, `n="3"` (quotes included) and `n=three` are texts.
 * @throws CliError when there is no `=` or no name
 */
export function readAssignment(assignment: string): readonly [string, string] {
  const [name, text] = splitAssignment(assignment);
  return [name, isJson(text) ? text.trim() : JSON.stringify(text)];
}

/** Splits `name=value` at the first `=`. @throws CliError when there is none, or no name */
export function splitAssignment(assignment: string): readonly [string, string] {
  const at = assignment.indexOf('=');
  if (at < 1) throw usageError(`expected name=value, got ${JSON.stringify(assignment)}`);
  return [assignment.slice(0, at), assignment.slice(at + 1)];
}

/** Labels to set, `key=value`, and to remove, `key-`. @throws CliError for another word */
export function labelChanges(words: readonly string[]): Record<string, string | null> {
  return Object.fromEntries(
    words.map((word) =>
      word.endsWith('-') && !word.includes('=') ? [word.slice(0, -1), null] : splitAssignment(word),
    ),
  );
}

/** Where inputs come from. */
interface InputFlags {
  readonly inputs?: string | undefined;
  readonly input?: readonly string[] | undefined;
  readonly inputText?: readonly string[] | undefined;
}

/** Names of types whose values are texts. */
const TEXT_TYPES: ReadonlySet<string> = new Set(['string', 'str']);

/**
 * Inputs from a file, with single ones on top.
 * @param types declared types by the names of inputs: what is declared as a text is read as one, unless it is a text in JSON
 * @throws CliError when they cannot be read
 */
export async function readInputs(
  { inputs, input = [], inputText = [] }: InputFlags,
  { stdin, output }: { readonly stdin: Readable; readonly output: Pick<Output, 'note'> },
  types?: ReadonlyMap<string, string>,
): Promise<JsonObject> {
  const fromFile = inputs === undefined ? {} : await readJsonObject(inputs, stdin);
  const single = input.map((assignment) => {
    const [name, text] = splitAssignment(assignment);
    if (TEXT_TYPES.has(types?.get(name)?.toLowerCase() ?? '')) {
      return [
        name,
        isJson(text) && text.trim().startsWith('"') ? text.trim() : JSON.stringify(text),
      ] as const;
    }
    if (types === undefined && /^[0-9]+[eE][0-9]+$/.test(text))
      output.note(`longshore: input ${name} is the number ${text}; --input-text ${assignment} is the text`);
    return readAssignment(assignment);
  });
  const asText = inputText.map((assignment) => {
    const [name, text] = splitAssignment(assignment);
    return [name, JSON.stringify(text)] as const;
  });
  return composeJson(new Map([...memberTexts(fromFile), ...single, ...asText]));
}

/** A JSON object from a file; `-` is standard input. @throws CliError when it cannot be read or is none */
export async function readJsonObject(file: string, stdin: Readable): Promise<JsonObject> {
  const value = await readJsonFile(file, stdin);
  if (!isJsonObject(value)) throw usageError(`${nameOf(file)} must hold a JSON object`);
  return value;
}

/** The content of a file. @param stdin stands for the file `-` @throws CliError when it cannot be read */
export async function readBytes(file: string, stdin?: Readable): Promise<Buffer> {
  try {
    return await (stdin !== undefined && file === '-' ? readAll(stdin) : readFile(file));
  } catch (error) {
    const isFolder = error instanceof Error && 'code' in error && error.code === 'EISDIR';
    throw usageError(
      isFolder
        ? `${file} is a folder: name one file each, or mount a volume with the folder`
        : `cannot read ${file}: ${errorText(error)}`,
    );
  }
}

/** JSON from a file; `-` is standard input. @throws CliError when it cannot be read or is none */
export async function readJsonFile(file: string, stdin: Readable): Promise<unknown> {
  const bytes = await readBytes(file, stdin);
  try {
    return parseJson(bytes.toString());
  } catch (error) {
    throw usageError(`${nameOf(file)} holds no JSON: ${errorText(error)}`);
  }
}

function nameOf(file: string): string {
  return file === '-' ? 'standard input' : file;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
