import { compactJson } from '@longshore/common/json/exact-parser';
import { jsonText, lazyJson } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { JsonRefused, readJson } from '@longshore/common/json/read-json';
import { RunFault } from './runtime.js';

/** Limit of the output file, in bytes. The limit of the service may be lower. */
export const MAX_OUTPUT_BYTES = 16 * 2 ** 20;

/** Initial content of the output file. */
export function templateText(outputTemplate: JsonObject): string {
  return Object.keys(outputTemplate).length > 0 ? jsonText(outputTemplate) : '';
}

/**
 * Parses the content of an output file; null: there is none.
 * @returns undefined when it is missing, empty or blank
 * @throws RunFault when it is no JSON object
 */
export function parseOutputs(bytes: Buffer | null): JsonObject | undefined {
  if (bytes === null || bytes.every(isWhiteSpace)) return undefined;
  const value = parse(bytes);
  if (!isJsonObject(value)) throw refusedOutputs('it holds no JSON object');
  // What is parsed may take many times as much memory as its text.
  const outputs = lazyJson(compactJson(bytes.toString()));
  return isJsonObject(outputs) ? outputs : value;
}

export function refusedOutputs(why: string): RunFault {
  return new RunFault(`The run's output file cannot be used: ${why}`);
}

function parse(bytes: Buffer): unknown {
  try {
    return readJson(bytes);
  } catch (error) {
    if (error instanceof JsonRefused && error.reason === 'syntax')
      throw refusedOutputs('it is not valid JSON (NaN and Infinity are not JSON)');
    throw refusedOutputs(error instanceof Error ? error.message : String(error));
  }
}

function isWhiteSpace(byte: number): boolean {
  return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);
}
