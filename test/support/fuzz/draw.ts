import * as fc from 'fast-check';

/** Where drawn values come from: fast-check's generator inside a property. */
export type Generator = fc.GeneratorValue;

const ODD_NAMES = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '',
  'a.b',
  'ключ',
  '😀',
  '0',
  'n',
];

/** Draws values one by one; the same seed draws the same ones. */
export class Draw {
  constructor(private readonly generator: Generator) {}

  int(min: number, max: number): number {
    return this.generator(integer, min, max);
  }

  /** True in so many of a hundred cases. */
  chance(percent: number): boolean {
    return this.generator(evenly, 100) < percent;
  }

  /** One of the items. */
  pick<T>(items: readonly [T, ...T[]]): T;
  pick<T>(items: readonly T[]): T | undefined;
  pick<T>(items: readonly T[]): T | undefined {
    return items[this.generator(evenly, Math.max(1, items.length))];
  }

  /** Text of so many characters, of all alphabets, well-formed and without NUL. */
  text(min: number, max: number): string {
    const unit = this.chance(60) ? letters : graphemes;
    return this.generator(unit, min, Math.max(min, Math.min(max, min + 12)));
  }

  /** Any JSON value that the service stores as it is. */
  json(depth = 3): unknown {
    const kinds = depth > 0 ? 8 : 6;
    switch (this.generator(evenly, kinds)) {
      case 0:
        return null;
      case 1:
        return this.chance(50);
      case 2:
        return this.int(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
      case 3:
        return this.int(-1_000_000, 1_000_000) / 1024;
      case 4:
      case 5:
        return this.text(0, 20);
      case 6:
        return Array.from({ length: this.int(0, 3) }, () => this.json(depth - 1));
      default:
        return this.object(depth - 1);
    }
  }

  /** A JSON object with names of all kinds. */
  object(depth = 2): object {
    const names = Array.from({ length: this.int(0, 3) }, () =>
      this.chance(40) ? (this.pick(ODD_NAMES) ?? '') : this.text(0, 12),
    );
    // fromEntries defines own properties, so that __proto__ is a name like any other.
    return Object.fromEntries(names.map((name) => [name, this.json(depth)]));
  }
}

function integer(min: number, max: number): fc.Arbitrary<number> {
  return fc.integer({ min, max });
}

function evenly(count: number): fc.Arbitrary<number> {
  return fc.noBias(fc.nat({ max: count - 1 }));
}

function letters(minLength: number, maxLength: number): fc.Arbitrary<string> {
  return fc.string({ unit: fc.constantFrom(...'abcXYZ019._-'), minLength, maxLength });
}

function graphemes(minLength: number, maxLength: number): fc.Arbitrary<string> {
  return fc.string({ unit: 'grapheme', minLength, maxLength });
}
