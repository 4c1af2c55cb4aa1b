import { PairTable } from './pair-table.js';

/** Shorter texts are not searched for, in UTF-16 units. */
export const MIN_UNITS = 4;

/** Position of a search: where it is in the automaton, and the last units that it has read. */
export interface SearchState {
  /** 0: no text of {@link MIN_UNITS} units and more has begun. */
  node: number;
  /** Of the last {@link MIN_UNITS} units, by {@link hashOf}. */
  hash: number;
  /** The last units but two, but one, and the last. */
  third: number;
  second: number;
  last: number;
}

/** Nothing has been read. */
export function beginning(): SearchState {
  return { node: 0, hash: 0, third: 0, second: 0, last: 0 };
}

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

/**
 * Searches for many texts at once (Aho and Corasick, 1975): the time of a search is linear in what is read, whatever the texts
 * are. The nodes are numbers in typed arrays, 16 bytes for each unit of a text; those of the first three units are replaced by a
 * look at the last four units, because most positions begin no text.
 */
export class TextAutomaton {
  /** Nodes that searches have looked at. */
  steps = 0;
  /** Of each node: what a search needs at each unit; the node of its longest proper suffix; the number of units up to it. */
  private readonly ways: Int32Array;
  private readonly suffixes: Int32Array;
  private readonly depths: Int32Array;
  /** The number of the longest text that ends with it, plus 1; 0: none does. */
  private readonly ends: Int32Array;
  /** The children that are not the next node, by node and unit. */
  private readonly branches: PairTable;
  /** The nodes of depth {@link MIN_UNITS}, by their units. */
  private readonly starts: PairTable;
  /** 1 where {@link filterOf} such units leads: most positions need no more than a look at it. */
  private readonly mayStart: Uint8Array;
  private readonly filterShift: number;
  private readonly lengths: Int32Array;
  private count = 1;

  /** @param texts of {@link MIN_UNITS} units and more, without doubles */
  constructor(readonly texts: readonly string[]) {
    this.lengths = Int32Array.from(texts, ({ length }) => length);
    const most = this.lengths.reduce((sum, length) => sum + length, 2);
    this.ways = new Int32Array(most);
    this.suffixes = new Int32Array(most);
    this.depths = new Int32Array(most);
    this.ends = new Int32Array(most);
    this.branches = new PairTable(texts.length);
    this.starts = new PairTable(texts.length);
    const filterBits = Math.max(FILTER_BITS, Math.ceil(Math.log2(texts.length * FILTER_PLACES)));
    this.filterShift = 32 - filterBits;
    this.mayStart = new Uint8Array(2 ** filterBits);
    const parents = new Map<number, Parent>();
    // The longest first: no later text continues behind the end of another, so that a node's first child is the next number.
    const order = [...texts.keys()].toSorted((a, b) => Number(this.lengths[b]) - Number(this.lengths[a]));
    for (const number of order) this.insert(texts[number] ?? '', number, parents);
    this.linkSuffixes(parents);
  }

  /** Reads the units from `from` to `to`. */
  search(state: SearchState, units: Uint16Array, from: number, to: number, findings: Findings): void {
    const { ways, suffixes, mayStart, filterShift } = this;
    let { node, hash } = state;
    let way = Number(ways[node]);
    let steps = to - from;
    for (let at = from; at < to; at++) {
      let next = 0;
      if (node === 0) {
        // Most positions begin no text.
        for (; at < to; at++) {
          hash = hashOf(hash, Number(units[at]));
          if (mayStart[placeOf(hash, filterShift)] === 1) break;
        }
        if (at === to) break;
        next = this.start(state, units, from, at);
      } else {
        const unit = Number(units[at]);
        hash = hashOf(hash, unit);
        if ((way & NEXT) === unit + 1) next = node + 1;
        while (next === 0 && node !== 0) {
          next = this.child(node, unit);
          if (next !== 0) break;
          node = Number(suffixes[node]);
          steps += 1;
        }
        if (next === 0 && mayStart[placeOf(hash, filterShift)] === 1)
          next = this.start(state, units, from, at);
      }
      node = next;
      way = Number(ways[node]);
      if ((way & ENDS) === 0) continue;
      const text = Number(this.ends[node]) - 1;
      findings.add(at + 1, text, Number(this.lengths[text]));
    }
    this.steps += steps;
    state.node = node;
    state.hash = hash;
    for (let at = Math.max(from, to - MIN_UNITS + 1); at < to; at++) {
      state.third = state.second;
      state.second = state.last;
      state.last = Number(units[at]);
    }
  }

  /** How many of the last units that were read may begin a text. */
  begun({ node, third, second, last }: SearchState): number {
    if (node !== 0) return Number(this.depths[node]);
    if (this.childOf(this.childOf(this.childOf(0, third), second), last) > 0) return 3;
    if (this.childOf(this.childOf(0, second), last) > 0) return 2;
    return this.childOf(0, last) > 0 ? 1 : 0;
  }

  /** Whether a text ends within the units from `from` to `to`. */
  finds(units: Uint16Array, from: number, to: number): boolean {
    let isFound = false;
    this.search(beginning(), units, from, to, { add: () => (isFound = true) });
    return isFound;
  }

  /** -1: there is none. */
  private childOf(node: number, unit: number): number {
    return node < 0 ? -1 : this.child(node, unit) || -1;
  }

  private child(node: number, unit: number): number {
    const way = Number(this.ways[node]);
    if ((way & NEXT) === unit + 1) return node + 1;
    return (way & BRANCHES) === 0 ? 0 : this.branches.get(node, unit);
  }

  /** The node of the unit at `at` and those before it, of which `state` has the ones before `from`. */
  private start({ third, second, last }: SearchState, units: Uint16Array, from: number, at: number): number {
    const before = at - from;
    const first = before > 2 ? units[at - 3] : before === 2 ? last : before === 1 ? second : third;
    const next = before > 1 ? units[at - 2] : before === 1 ? last : second;
    const previous = before > 0 ? units[at - 1] : last;
    return this.starts.get(pairOf(Number(first), Number(next)), pairOf(Number(previous), Number(units[at])));
  }

  private insert(text: string, number: number, parents: Map<number, Parent>): void {
    let node = 0;
    let at = 0;
    for (let next = 0; at < text.length; at++) {
      next = this.child(node, text.charCodeAt(at));
      if (next === 0) break;
      node = next;
    }
    if (at < text.length) node = this.append(node, text, at, parents);
    this.ends[node] = number + 1;
  }

  /** Adds nodes for the units of the text from `from` on. @returns the last of them */
  private append(parent: number, text: string, from: number, parents: Map<number, Parent>): number {
    const { ways, depths, count: first } = this;
    for (let at = from; at < text.length; at++) {
      const node = first + at - from;
      depths[node] = at + 1;
      if (at + 1 < text.length) ways[node] = text.charCodeAt(at + 1) + 1;
    }
    this.count += text.length - from;
    const unit = text.charCodeAt(from);
    if (first === parent + 1) ways[parent] = unit + 1;
    else {
      parents.set(first, { node: parent, unit });
      ways[parent] = Number(ways[parent]) | BRANCHES;
      this.branches.set(parent, unit, first);
    }
    if (from < MIN_UNITS) {
      let hash = 0;
      for (let at = 0; at < MIN_UNITS; at++) hash = hashOf(hash, text.charCodeAt(at));
      this.mayStart[placeOf(hash, this.filterShift)] = 1;
      const high = pairOf(text.charCodeAt(0), text.charCodeAt(1));
      const low = pairOf(text.charCodeAt(2), text.charCodeAt(3));
      this.starts.set(high, low, first + MIN_UNITS - 1 - from);
    }
    return this.count - 1;
  }

  private linkSuffixes(parents: ReadonlyMap<number, Parent>): void {
    const { ways, suffixes, depths, ends } = this;
    const nodes = this.byDepth();
    for (const node of nodes) {
      const isNext = depths[node] === Number(depths[node - 1]) + 1;
      const parent = isNext ? undefined : parents.get(node);
      const unit = parent?.unit ?? (Number(ways[node - 1]) & NEXT) - 1;
      let suffix = 0;
      for (let from = parent?.node ?? node - 1; from !== 0 && suffix === 0;) {
        from = Number(suffixes[from]);
        suffix = this.child(from, unit);
      }
      suffixes[node] = suffix;
      if (ends[node] === 0) ends[node] = Number(ends[suffix]);
      if (ends[node] !== 0) ways[node] = Number(ways[node]) | ENDS;
    }
    for (const node of nodes) {
      const suffix = Number(suffixes[node]);
      if (Number(depths[suffix]) < MIN_UNITS) suffixes[node] = 0;
      // It would end the search for the same unit (Knuth, Morris and Pratt, 1977).
      else if ((Number(ways[suffix]) & (NEXT | BRANCHES)) === (Number(ways[node]) & NEXT))
        suffixes[node] = Number(suffixes[suffix]);
    }
  }

  /** The nodes but the first, those of fewer units before those of more. */
  private byDepth(): Int32Array {
    const { depths, count } = this;
    const nodes = new Int32Array(count - 1);
    const deepest = depths.reduce((most, depth) => Math.max(most, depth), 0);
    const ends = new Int32Array(deepest + 2);
    for (let node = 1; node < count; node++)
      ends[Number(depths[node]) + 1] = Number(ends[Number(depths[node]) + 1]) + 1;
    for (let depth = 1; depth < ends.length; depth++)
      ends[depth] = Number(ends[depth]) + Number(ends[depth - 1]);
    for (let node = 1; node < count; node++) {
      const depth = Number(depths[node]);
      const at = Number(ends[depth]);
      nodes[at] = node;
      ends[depth] = at + 1;
    }
    return nodes;
  }
}

/** The node before a node that is not the next one, and the unit between them. */
interface Parent {
  readonly node: number;
  readonly unit: number;
}

/** The hash of {@link MIN_UNITS} units, from that of the units up to the last but one. */
function hashOf(hash: number, unit: number): number {
  return (hash << 8) ^ unit;
}

/** The place of a hash in the filter. */
function placeOf(hash: number, shift: number): number {
  return Math.imul(hash, 0x9e3779b1) >>> shift;
}

function pairOf(a: number, b: number): number {
  return (a << 16) | b;
}
