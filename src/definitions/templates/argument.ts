import { isJsonObject, type JsonValue } from '@longshore/common/json/json-value';

/** An entry of `args` that stands for the words of an input. */
export interface FlagArgument {
  readonly flag: string;
  /** The input's name. */
  readonly input: string;
  /** Joins flag and value to one word. */
  readonly join?: string;
}

/** An entry of a definition's `args`. */
export type Argument = string | FlagArgument;

/** Reads a stored entry of `command` or `args`. */
export function readArgument(entry: JsonValue): Argument {
  if (!isJsonObject(entry)) return textOf(entry);
  const { flag, input, join } = entry;
  return { flag: textOf(flag), input: textOf(input), ...(typeof join === 'string' && { join }) };
}

/** A stored text. */
export function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}
