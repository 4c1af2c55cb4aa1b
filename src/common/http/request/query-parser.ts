import { isCleanText } from '@longshore/common/json/text';
import { LIST_PARAMETERS } from '../validation/query-decorators.js';
import { parameterName, Problems } from '../validation/problems.js';

/** Query parameters by their literal names (`created[gte]`); without prototype, so any name is safe. */
export type ParsedQuery = Record<string, string | string[]>;

/** What a request target may hold once other characters are percent-encoded. */
const PRINTABLE_ASCII = /^[!-~]*$/;

/**
 * Parses a query string strictly: each parameter once, unless it is a list, with a value, in percent-encoded UTF-8 without
 * NUL; `+` is a space. Names are literal, brackets mean nothing.
 * @throws InvalidRequest with one line per problem
 */
export function parseQuery(text: string): ParsedQuery {
  const query: ParsedQuery = Object.create(null);
  const problems = new Problems();
  if (!PRINTABLE_ASCII.test(text)) problems.add('the query string must be percent-encoded');
  else for (const pair of text.split('&')) if (pair !== '') readPair(pair, query, problems);
  problems.throwIfAny();
  return query;
}

function readPair(pair: string, query: ParsedQuery, problems: Problems): void {
  const equals = pair.indexOf('=');
  const name = decode(equals < 0 ? pair : pair.slice(0, equals));
  const value = decode(equals < 0 ? '' : pair.slice(equals + 1));
  if (name === undefined) {
    problems.add('a query parameter has a name that is not percent-encoded UTF-8 text');
  } else if (value === undefined) {
    problems.add(`${parameterName(name)} must be percent-encoded UTF-8 text`);
  } else if (value === '') {
    problems.add(`${parameterName(name)} must not be empty`);
  } else if (LIST_PARAMETERS.has(name)) {
    query[name] = [...(query[name] ?? []), value];
  } else if (name in query) {
    problems.add(`${parameterName(name)} must not be given more than once`);
  } else {
    query[name] = value;
  }
}

function decode(text: string): string | undefined {
  const spaced = text.includes('+') ? text.replaceAll('+', ' ') : text;
  if (!spaced.includes('%')) return spaced;
  try {
    const decoded = decodeURIComponent(spaced);
    return isCleanText(decoded) ? decoded : undefined;
  } catch {
    return undefined;
  }
}
