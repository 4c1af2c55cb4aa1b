import { hasExactText, memberTexts } from './json-text.js';
import { isJsonObject, type JsonValue } from './json-value.js';

const LITERAL = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

/**
 * The same text for equal values: sorted keys, no white space. Numbers are compared by their exact decimal value: `1`, `1.0`
 * and `1e0` are equal, numbers that differ in any digit are not.
 */
export function canonicalJson(value: JsonValue): string {
  if (Array.isArray(value)) {
    const literals = literalsOf(value);
    return `[${value.map((item, index) => canonicalMember(item, literals?.get(String(index)))).join(',')}]`;
  }
  if (!isJsonObject(value)) return JSON.stringify(value);
  const literals = literalsOf(value);
  const members = Object.keys(value)
    .toSorted()
    .map((key) => `${JSON.stringify(key)}:${canonicalMember(value[key] ?? null, literals?.get(key))}`);
  return `{${members.join(',')}}`;
}

function literalsOf(value: object): ReadonlyMap<string, string> | undefined {
  return hasExactText(value) ? memberTexts(value) : undefined;
}

function canonicalMember(value: JsonValue, literal: string | undefined): string {
  return typeof value === 'number' && literal !== undefined ? canonicalNumber(literal) : canonicalJson(value);
}

/** As JSON.stringify prints the number if that is exact, otherwise its digits and exponent. */
function canonicalNumber(literal: string): string {
  const digits = decimalOf(literal);
  const printed = JSON.stringify(Number(literal));
  return decimalOf(printed) === digits ? printed : digits;
}

/** The decimal value as an integer without trailing zeros, and a power of ten. */
function decimalOf(literal: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = LITERAL.exec(literal) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = trimZeros(digits);
  if (significant === '') return '0';
  const power = BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - significant.length);
  return `${sign}${significant}e${power}`;
}

function trimZeros(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  return digits.slice(0, end);
}
