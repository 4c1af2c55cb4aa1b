import { clip } from '@longshore/common/json/text';
import { InvalidRequest } from '../errors/domain-error.js';

/** The detail of every refusal by the rules of fields and parameters; `errors` says which. */
export const VALIDATION_FAILED = 'Request validation failed';

const MOST_LINES = 100;
const MOST_KEY_UNITS = 64;
const PLAIN_KEY = /^[A-Za-z_$][\w$-]*$/;
const PLAIN_PARAMETER = /^[\w$.[\]-]+$/;

/** Collects what is wrong with a request: one line per field, the first 100 of them and how many more. */
export class Problems {
  private readonly lines: string[] = [];
  private dropped = 0;

  /** How many problems were found so far. */
  get count(): number {
    return this.lines.length + this.dropped;
  }

  add(line: string): void {
    if (this.lines.length < MOST_LINES) this.lines.push(line);
    else this.dropped += 1;
  }

  /** @throws InvalidRequest with the lines, if there are any */
  throwIfAny(): void {
    if (this.count > 0) throw new InvalidRequest(VALIDATION_FAILED, this.toLines());
  }

  private toLines(): string[] {
    return this.dropped === 0 ? [...this.lines] : [...this.lines, `and ${this.dropped} more`];
  }
}

/** The path of a declared field inside an object. */
export function fieldPath(parent: string, name: string): string {
  return parent === '' ? name : `${parent}.${name}`;
}

/** The path of a key of the sender's choosing: quoted, escaped and clipped unless it is a short plain name. */
export function keyPath(parent: string, key: string): string {
  return key.length <= MOST_KEY_UNITS && PLAIN_KEY.test(key)
    ? fieldPath(parent, key)
    : `${parent}[${JSON.stringify(clip(key, MOST_KEY_UNITS))}]`;
}

/** The path of a list's item. */
export function itemPath(parent: string, index: number): string {
  return `${parent}[${index}]`;
}

/** A query parameter's name as a client may see it again: quoted, escaped and clipped unless short and plain. */
export function parameterName(name: string): string {
  return name.length <= MOST_KEY_UNITS && PLAIN_PARAMETER.test(name)
    ? name
    : JSON.stringify(clip(name, MOST_KEY_UNITS));
}

/** The line about a query parameter that the route does not know. */
export function unknownParameter(name: string): string {
  return `${parameterName(name)} is not a known query parameter`;
}
