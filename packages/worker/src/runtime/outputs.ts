import { isUtf8 } from 'node:buffer';
import { compactJson } from '@longshore/common/json/exact-parser';
import { jsonText, lazyObject } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { JsonRefused } from '@longshore/common/json/read-json';
import { RunFault } from './runtime.js';
import { readStorable, REPLACEMENT, type StorableJson } from './storable-json.js';
import { errorText } from '@longshore/common/errors';

/** Limit of the output file, in bytes. The limit of the service may be lower. */
export const MAX_OUTPUT_BYTES = 16 * 2 ** 20;

/** Initial content of the output file. */
export function templateText(outputTemplate: JsonObject): string {
  return Object.keys(outputTemplate).length > 0 ? jsonText(outputTemplate) : '';
}

/** The outputs of a file. */
export interface ParsedOutputs {
  readonly outputs: JsonObject;
  /** Number of characters that could not be stored and became U+FFFD. */
  readonly replaced: number;
}

/**
 * Parses the content of an output file; null: there is none. A byte order mark is ignored. NUL characters, lone surrogates and
 * invalid UTF-8 become U+FFFD; keys that become equal by that get a number.
 * @returns undefined when it is missing, empty or blank
 * @throws RunFault when it is no JSON object
 */
export function parseOutputs(file: Buffer | null): ParsedOutputs | undefined {
  if (file === null) return undefined;
  const { bytes, replaced: invalid } = asUtf8(file);
  if (bytes.every(isWhiteSpace)) return undefined;
  const { text, value, replaced } = parse(bytes.toString());
  if (!isJsonObject(value)) throw refusedOutputs('it holds no JSON object');
  // What is parsed may take many times as much memory as its text.
  return { outputs: lazyObject(compactJson(text)), replaced: invalid + replaced };
}

export function refusedOutputs(why: string): RunFault {
  return new RunFault(`The run's output file cannot be used: ${why}`);
}

function parse(text: string): StorableJson {
  try {
    return readStorable(text);
  } catch (error) {
    if (error instanceof JsonRefused && error.reason === 'syntax')
      throw refusedOutputs('it is not valid JSON (NaN and Infinity are not JSON)');
    throw refusedOutputs(errorText(error));
  }
}

/** The content in UTF-8, without a byte order mark. */
function asUtf8(content: Buffer): { readonly bytes: Buffer; readonly replaced: number } {
  const mark = content.toString('hex', 0, 3);
  const file = mark === 'efbbbf' ? content.subarray(3) : content;
  const utf16 = mark.startsWith('fffe') ? 'utf-16le' : mark.startsWith('feff') ? 'utf-16be' : null;
  if (utf16 === null && isUtf8(file)) return { bytes: file, replaced: 0 };
  const text = utf16 === null ? file.toString() : new TextDecoder(utf16).decode(file);
  const known = utf16 === null ? countOf(file, Buffer.from(REPLACEMENT)) : 0;
  return { bytes: Buffer.from(text), replaced: text.split(REPLACEMENT).length - 1 - known };
}

function countOf(bytes: Buffer, searched: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(searched); at >= 0; at = bytes.indexOf(searched, at + searched.length))
    count += 1;
  return count;
}

function isWhiteSpace(byte: number): boolean {
  return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);
}
