import { clip, escapeUnsafe } from '@longshore/common/json/text';
import { foreignWord } from '@longshore/common/foreign-words';
import { nearestName, plainName } from '@longshore/common/nearest-name';
import { InvalidRequest } from '../../errors/domain-error.js';

/** The `detail` of validation errors. */
export const VALIDATION_FAILED = 'Request validation failed';

const MAX_LINES = 100;
const MAX_KEY_LENGTH = 64;
const PLAIN_KEY = /^[A-Za-z_$][\w$-]*$/;
const PLAIN_PARAMETER = /^[\w$.[\]-]+$/;

/** Collects the problems of a request: one line per field, the first 100 of them and how many more. */
export class Problems {
  private readonly lines: string[] = [];
  private dropped = 0;

  add(line: string): void {
    if (this.isFull) this.drop();
    else this.lines.push(line);
  }

  /** Whether further lines are only counted. */
  get isFull(): boolean {
    return this.lines.length >= MAX_LINES;
  }

  /** Counts a line that nobody will read. */
  drop(): void {
    this.dropped += 1;
  }

  /** @throws InvalidRequest with the lines, if there are any */
  throwIfAny(): void {
    if (this.lines.length === 0) return;
    const rest = this.dropped === 0 ? [] : [`and ${this.dropped} more`];
    throw new InvalidRequest(VALIDATION_FAILED, [...this.lines, ...rest]);
  }
}

/** The path of a declared field inside an object. */
export function fieldPath(parent: string, name: string): string {
  return parent === '' ? name : `${parent}.${name}`;
}

/** The path of a key that the client chose: quoted, escaped and clipped unless it is a short plain name. */
export function keyPath(parent: string, key: string): string {
  return key.length <= MAX_KEY_LENGTH && PLAIN_KEY.test(key)
    ? fieldPath(parent, key)
    : `${parent}[${quoted(key)}]`;
}

/** The path of a list's item. */
export function itemPath(parent: string, index: number): string {
  return `${parent}[${index}]`;
}

/** A query parameter's name: quoted, escaped and clipped unless it is short and plain. */
export function parameterName(name: string): string {
  return name.length <= MAX_KEY_LENGTH && PLAIN_PARAMETER.test(name) ? name : quoted(name);
}

/** The problem of an undeclared query parameter. @param known the declared ones */
export function unknownParameter(name: string, known: Iterable<string>): string {
  // The operators of one parameter are too near each other.
  const nearest = name.includes('[') ? undefined : nearestName(name, known);
  return `${parameterName(name)} is not a known query parameter${nearest === undefined ? '' : `: did you mean ${nearest}?`}`;
}

/** The problem of an undeclared field of an object, with what was probably meant. @param known the declared fields */
export function unknownField(parent: string, name: string, known: readonly string[]): string {
  const problem = `${keyPath(parent, name)} is not a known field`;
  const nearest = nearestName(name, known);
  const isSame = nearest !== undefined && plainName(nearest) === plainName(name);
  const foreign = isSame ? undefined : foreignField(parent, name, known);
  if (foreign !== undefined) return `${problem}: ${foreign}`;
  return nearest === undefined ? problem : `${problem}: did you mean ${fieldPath(parent, nearest)}?`;
}

/** Where a word of another system is, if the object is a run's or a definition's or a part of it that has the field. */
function foreignField(parent: string, name: string, known: readonly string[]): string | undefined {
  const words = foreignWord(name);
  if (words === undefined) return undefined;
  const { field, note } = words;
  if (field === null) return known.includes('constraints') ? `it ${note}` : undefined;
  const [first = '', second] = field.split('.');
  const isHere = second !== undefined && known.includes(second) && parent.endsWith(first);
  return isHere || (known.includes(first) && known.includes('constraints'))
    ? `use ${field}${note === undefined ? '' : ` (${note})`}`
    : undefined;
}

/** The problem of a number that a double does not hold. */
export function outOfRange(path: string): string {
  return `${path} is a number out of range`;
}

function quoted(text: string): string {
  return escapeUnsafe(JSON.stringify(clip(text, MAX_KEY_LENGTH)));
}
