/** Shorter texts are not searched for, in UTF-16 units. */
export const MIN_UNITS = 4;

/** Receives the texts that end, in the order of their ends. */
export interface Findings {
  /** @param end in units. @param text number of the longest that ends there, of `length` units */
  add(end: number, text: number, length: number): void;
}

/** In {@link TextAutomaton.ways}: the unit of the child that is the next node, plus 1; 0: there is none. */
const NEXT = 2 ** 17 - 1;
/** The node has other children. */
const BRANCHES = 2 ** 17;
/** A text ends with the node. */
const ENDS = 2 ** 18;

/** Size of the filter: bits of the hash at least, and places for each text. */
const FILTER_BITS = 16;
const FILTER_PLACES = 8;

/** Units that are searched: to read them here takes a fraction of the time of `charCodeAt`, unless there are few. */
const units = new Uint16Array(2 ** 14);
const bytes = Buffer.from(units.buffer);
const SHORT = 64;

/**
 * Searches for many texts at once (Aho and Corasick, 1975): the time of a search is linear in what is read, whatever the texts
 * are. A node is a number, 16 bytes in typed arrays; 0 is the root, where a search begins. Most positions begin no text: a filter
 * of the first {@link MIN_UNITS} units passes over these.
 */
export class TextAutomaton {
  /** Nodes that searches have looked at. */
  steps = 0;
  /** Of each node: what a search needs at each unit; where it goes on when that has no child; the number of units up to it. */
  private readonly ways: Int32Array;
  private readonly fallbacks: Int32Array;
  private readonly depths: Int32Array;
  /** The number of the longest text that ends with it, plus 1; 0: none does. */
  private readonly ends: Int32Array;
  /** The children that are not the next node: a hash table with two numbers for each, that of its parent with its unit, and its own. */
  private readonly branches: Float64Array;
  private readonly branchShift: number;
  /** 1 where {@link placeOf} the first units of a text leads. */
  private readonly mayStart: Uint8Array;
  private readonly filterShift: number;
  private count = 1;

  /** @param texts of {@link MIN_UNITS} units and more, without doubles */
  constructor(readonly texts: readonly string[]) {
    const most = texts.reduce((sum, { length }) => sum + length, 2);
    this.ways = new Int32Array(most);
    this.fallbacks = new Int32Array(most);
    this.depths = new Int32Array(most);
    this.ends = new Int32Array(most);
    const branchBits = Math.max(4, Math.ceil(Math.log2(texts.length * 2)));
    this.branchShift = 32 - branchBits;
    this.branches = new Float64Array(2 * 2 ** branchBits);
    const filterBits = Math.max(FILTER_BITS, Math.ceil(Math.log2(texts.length * FILTER_PLACES)));
    this.filterShift = 32 - filterBits;
    this.mayStart = new Uint8Array(2 ** filterBits);
    // The longest first: no later text continues behind the end of another, so that a node's first child is the next number.
    const longestFirst = [...texts.entries()].toSorted(([, a], [, b]) => b.length - a.length);
    for (const [number, text] of longestFirst) this.insert(text, number);
    this.link(longestFirst.map(([, text]) => text));
  }

  /** Reads the units from `from` to `to`. @returns the node after them, from the one before them */
  search(begin: number, text: string, from: number, to: number, findings: Findings): number {
    let node = begin;
    for (let at = from; at < to; at += units.length) {
      const count = Math.min(units.length, to - at);
      if (count < SHORT) for (let unit = 0; unit < count; unit++) units[unit] = text.charCodeAt(at + unit);
      else bytes.write(text.slice(at, at + count), 'utf16le');
      node = this.searchUnits(node, count, at, findings);
    }
    return node;
  }

  /** How many of the units up to a node may begin a text: the last ones that were read. */
  begun(node: number): number {
    return Number(this.depths[node]);
  }

  /** Whether a text ends within the units from `from` to `to`. */
  finds(text: string, from: number, to: number): boolean {
    let isFound = false;
    this.search(0, text, from, to, { add: () => (isFound = true) });
    return isFound;
  }

  /** @param shift of the first of {@link units} in the text */
  private searchUnits(begin: number, count: number, shift: number, findings: Findings): number {
    const { ways, fallbacks } = this;
    let node = begin;
    let way = Number(ways[node]);
    let steps = count;
    for (let at = 0; at < count; at++) {
      if (node === 0) at = this.nextStart(at, count);
      const unit = Number(units[at]);
      let next = (way & NEXT) === unit + 1 ? node + 1 : this.child(node, unit);
      while (next === 0 && node !== 0) {
        node = Number(fallbacks[node]);
        next = this.child(node, unit);
        steps += 1;
      }
      node = next;
      way = Number(ways[node]);
      if ((way & ENDS) === 0) continue;
      const number = Number(this.ends[node]) - 1;
      findings.add(shift + at + 1, number, this.texts[number]?.length ?? 0);
    }
    this.steps += steps;
    return node;
  }

  /** The first of {@link units} that may begin a text, or that too few follow to tell. */
  private nextStart(from: number, count: number): number {
    const { mayStart, filterShift } = this;
    let hash = 0;
    let at = from - MIN_UNITS + 1;
    for (let end = from; end < count; end++, at++) {
      hash = hashOf(hash, Number(units[end]));
      if (at >= from && mayStart[placeOf(hash, filterShift)] === 1) break;
    }
    return Math.max(from, at);
  }

  /** 0: there is none. */
  private child(node: number, unit: number): number {
    const way = Number(this.ways[node]);
    if ((way & NEXT) === unit + 1) return node + 1;
    return (way & BRANCHES) === 0 ? 0 : Number(this.branches[this.slotOf(node, unit) + 1]);
  }

  /** Where {@link branches} has a child, or would get it. */
  private slotOf(node: number, unit: number): number {
    const { branches, branchShift } = this;
    const key = node * 2 ** 16 + unit;
    let slot = 2 * (Math.imul(Math.imul(node, 0x9e3779b1) ^ unit, 0x85ebca6b) >>> branchShift);
    while (branches[slot + 1] !== 0 && branches[slot] !== key) slot = (slot + 2) & (branches.length - 1);
    return slot;
  }

  private insert(text: string, number: number): void {
    const { ways, depths } = this;
    let node = 0;
    let hash = 0;
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at);
      if (at < MIN_UNITS) hash = hashOf(hash, unit);
      let next = this.child(node, unit);
      if (next === 0) {
        next = this.count++;
        depths[next] = at + 1;
        if (next === node + 1) ways[node] = unit + 1;
        else {
          ways[node] = Number(ways[node]) | BRANCHES;
          this.branches.set([node * 2 ** 16 + unit, next], this.slotOf(node, unit));
        }
      }
      node = next;
    }
    this.ends[node] = number + 1;
    this.mayStart[placeOf(hash, this.filterShift)] = 1;
  }

  /** Finds the longest proper suffix of each node, which has fewer units, and from it where a search goes on. */
  private link(longestFirst: readonly string[]): void {
    const { ways, fallbacks, ends } = this;
    const suffixes = new Int32Array(this.count).fill(-1, 1);
    const nodes = new Int32Array(longestFirst.length);
    let left = longestFirst.length;
    for (let depth = 0; left > 0; depth++) {
      for (let index = 0; index < left; index++) {
        const text = longestFirst[index] ?? '';
        if (text.length === depth) {
          left = index;
          break;
        }
        const unit = text.charCodeAt(depth);
        let from = Number(nodes[index]);
        const node = this.child(from, unit);
        nodes[index] = node;
        if (Number(suffixes[node]) >= 0) continue;
        let suffix = 0;
        while (from !== 0 && suffix === 0) {
          from = Number(suffixes[from]);
          suffix = this.child(from, unit);
        }
        suffixes[node] = suffix;
        if (ends[node] === 0) ends[node] = Number(ends[suffix]);
        if (ends[node] !== 0) ways[node] = Number(ways[node]) | ENDS;
        // It would end the search for the same unit (Knuth, Morris and Pratt, 1977).
        const isSame = (Number(ways[suffix]) & (NEXT | BRANCHES)) === (Number(ways[node]) & NEXT);
        fallbacks[node] = isSame ? Number(fallbacks[suffix]) : suffix;
      }
    }
  }
}

/** The hash of {@link MIN_UNITS} units, from that of the units up to the last but one. */
function hashOf(hash: number, unit: number): number {
  return (hash << 8) ^ unit;
}

/** The place of a hash in the filter. */
function placeOf(hash: number, shift: number): number {
  return Math.imul(hash, 0x9e3779b1) >>> shift;
}
