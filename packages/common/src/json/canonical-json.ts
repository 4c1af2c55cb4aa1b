import { isPrintedAs, type JsonMember, type JsonPart } from './exact-parser.js';
import { literalsOf, partOf, readExactly } from './json-text.js';
import { isJsonObject, type JsonValue } from './json-value.js';

/** The exponent has at most 15 digits, so that a double holds every sum with the number of digits of a text. */
const LITERAL = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,15}))?$/;

/** A double holds 15 digits, so that such a number is printed with all of them. */
const SHORT = /^-?[\d.]{1,15}(?:[eE][+-]?\d{1,2})?$/;

/**
 * The same text for equal values: sorted keys, no white space. Numbers are compared by their exact decimal value: `1`, `1.0`
 * and `1e0` are equal, numbers that differ in any digit are not. Numbers whose exponent has more than 15 digits are compared
 * as text. Linear in the length of the text, except for the sorting.
 */
export function canonicalJson(value: JsonValue): string {
  const isObject = isJsonObject(value);
  if (!isObject && !Array.isArray(value)) return JSON.stringify(value);
  const part = partOf(value);
  if (part !== undefined) return canonicalPart(part);
  if (!isObject) return `[${value.map(canonicalJson).join(',')}]`;
  const literals = literalsOf(value);
  return printObject(
    Object.entries(value).map(([key, member]) => {
      const literal = literals?.get(key);
      return [key, literal === undefined ? canonicalJson(member) : canonicalScalar(literal)];
    }),
  );
}

/** Whether two JSON texts are equal as {@link canonicalJson} compares values. */
export function isSameJson(left: string, right: string): boolean {
  return (
    left === right || canonicalJson(readExactly(`[${left}]`)) === canonicalJson(readExactly(`[${right}]`))
  );
}

/** Compares two JSON numbers by their exact decimal value. @returns negative, zero or positive */
export function compareNumbers(left: string, right: string): number {
  const [a, b] = [readDecimal(left), readDecimal(right)];
  if (a.sign !== b.sign) return a.sign - b.sign;
  if (a.sign === 0) return 0;
  if (a.top !== b.top) return a.top < b.top ? -a.sign : a.sign;
  return a.digits === b.digits ? 0 : a.digits < b.digits ? -a.sign : a.sign;
}

/** The sign of a number, the power of ten of its first digit, and its digits without zeros at the ends. */
function readDecimal(literal: string): {
  readonly sign: number;
  readonly top: number;
  readonly digits: string;
} {
  const sign = literal.startsWith('-') ? -1 : 1;
  if (!/^-?[0.]*[1-9]/.test(literal)) return { sign: 0, top: 0, digits: '' };
  const [, digits = '', power] = /^-?(\d+)e(-?\d+)$/.exec(decimalOf(literal)) ?? [];
  const isTiny = /e-/i.test(literal);
  if (power === undefined) return { sign, top: isTiny ? -Infinity : Infinity, digits: '' };
  return { sign, top: digits.length + Number(power), digits };
}

function canonicalPart(part: JsonPart): string {
  const members = part.members();
  const print = ({ text, part: inner }: JsonMember): string =>
    inner === undefined ? canonicalScalar(text) : canonicalPart(inner);
  if (part.isList) return `[${members.map(print).join(',')}]`;
  return printObject(members.map((member) => [member.key, print(member)]));
}

function printObject(members: [key: string, text: string][]): string {
  const texts = new Map(members);
  const sorted = [...texts.keys()].toSorted();
  return `{${sorted.map((key) => `${JSON.stringify(key)}:${texts.get(key)}`).join(',')}}`;
}

function canonicalScalar(text: string): string {
  if (!/^[-\d]/.test(text)) return JSON.stringify(JSON.parse(text));
  if (SHORT.test(text)) return String(Number(text));
  return isPrintedAs(text) ? text : canonicalNumber(text);
}

/** As JSON.stringify prints the number if that is exact, otherwise its digits and exponent. */
function canonicalNumber(literal: string): string {
  const digits = decimalOf(literal);
  const printed = JSON.stringify(Number(literal));
  return decimalOf(printed) === digits ? printed : digits;
}

/** The decimal value as an integer without trailing zeros, and a power of ten; the literal itself if its exponent is long. */
function decimalOf(literal: string): string {
  const parts = LITERAL.exec(literal);
  if (parts === null) return literal;
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = parts;
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = trimZeros(digits);
  if (significant === '') return '0';
  const power = Number(exponent) - fraction.length + (digits.length - significant.length);
  return `${sign}${significant}e${power}`;
}

function trimZeros(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  return digits.slice(0, end);
}
