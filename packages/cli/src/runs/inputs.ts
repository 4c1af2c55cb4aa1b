import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { buffer as readAll } from 'node:stream/consumers';
import { composeJson, memberTexts, parseJson } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { usageError } from '../cli-error.js';
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

/** Inputs from a file, with single ones on top. @throws CliError when they cannot be read */
export async function readInputs(
  {
    inputs,
    input = [],
  }: { readonly inputs?: string | undefined; readonly input?: readonly string[] | undefined },
  stdin: Readable,
): Promise<JsonObject> {
  const fromFile = inputs === undefined ? {} : await readJsonObject(inputs, stdin);
  return composeJson(new Map([...memberTexts(fromFile), ...input.map(readAssignment)]));
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
    throw usageError(`cannot read ${file}: ${errorText(error)}`);
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
