import { isJsonObject, type JsonValue } from '@longshore/common/json/json-value';

interface CheckedType {
  readonly names: readonly string[];
  /** Follows "must be" in a message. */
  readonly description: string;
  readonly accepts: (value: JsonValue) => boolean;
}

const CHECKED_TYPES: readonly CheckedType[] = [
  { names: ['string', 'str'], description: 'a string', accepts: (value) => typeof value === 'string' },
  { names: ['integer', 'int'], description: 'an integer', accepts: Number.isInteger },
  { names: ['number', 'float'], description: 'a number', accepts: (value) => typeof value === 'number' },
  { names: ['boolean', 'bool'], description: 'a boolean', accepts: (value) => typeof value === 'boolean' },
  { names: ['object', 'dict'], description: 'an object', accepts: isJsonObject },
  { names: ['array', 'list'], description: 'an array', accepts: Array.isArray },
];

/** The type of this name; undefined: it is a label. */
export function checkedTypeOf(type: string): CheckedType | undefined {
  return CHECKED_TYPES.find(({ names }) => names.includes(type.toLowerCase()));
}

/** Why a value does not fit a type, to follow its name; undefined if it fits or the type is a label: none of the checked ones. */
export function typeProblem(type: string, value: JsonValue): string | undefined {
  const checked = checkedTypeOf(type);
  return !checked || checked.accepts(value) ? undefined : `must be ${checked.description}`;
}
