import { PairTable } from './pair-table.js';

/** Shorter texts are not searched for, in UTF-16 units. */
export const MIN_UNITS = 4;

const FILTER_SIZE = 2 ** 16;

/** Position of a search: where it is in the automaton, and the last {@link MIN_UNITS} units that it has read. */
export interface SearchState {
  /** 0: no text of {@link MIN_UNITS} units and more has begun. */
  node: number;
  /** The two units before those in `low`, 16 bits each. */
  high: number;
  low: number;
}

/** Nothing has been read. */
export function beginning(): SearchState {
  return { node: 0, high: 0, low: 0 };
}

/** Receives the end and the length of a text, in units. */
type OnFound = (end: number, length: number) => void;

/**
 * Searches for many texts at once (Aho and Corasick, 1975): the time of a search is linear in what is read, whatever the texts
 * are. The nodes are numbers in typed arrays, 15 bytes for each unit of a text; those of the first three units are replaced by a
 * look at the last four units, because most positions begin no text.
 */
export class TextAutomaton {
  /** Nodes that searches have looked at. */
  steps = 0;
  /** Of each node: its unit, the number of units up to it, the node of its longest proper suffix, the longest text that ends. */
  private readonly units: Uint16Array;
  private readonly depths: Int32Array;
  private readonly suffixes: Int32Array;
  private readonly lengths: Int32Array;
  /** 1: the node has children beside the one that follows it. */
  private readonly hasBranches: Uint8Array;
  /** These children by node and unit. */
  private readonly branches: PairTable;
  /** The nodes of depth {@link MIN_UNITS}, by their units. */
  private readonly starts: PairTable;
  /** 1 where {@link filterOf} such units leads: most positions need no more than a look at it. */
  private readonly mayStart = new Uint8Array(FILTER_SIZE);
  private count = 1;

  /** @param texts of {@link MIN_UNITS} units and more, without doubles */
  constructor(texts: readonly string[]) {
    const most = texts.reduce((sum, { length }) => sum + length, 2);
    this.units = new Uint16Array(most);
    this.depths = new Int32Array(most);
    this.suffixes = new Int32Array(most);
    this.lengths = new Int32Array(most);
    this.hasBranches = new Uint8Array(most);
    this.branches = new PairTable(texts.length);
    this.starts = new PairTable(texts.length);
    const parents = new Map<number, number>();
    // The longest first: no later text continues behind the end of another, so that a node's first child is the next number.
    for (const text of texts.toSorted((a, b) => b.length - a.length)) this.insert(text, parents);
    this.linkSuffixes(parents);
  }

  /** Reads the units of `text` from `from` to `to`. */
  search(state: SearchState, text: string, from: number, to: number, onFound: OnFound): void {
    const { lengths, mayStart, suffixes, starts } = this;
    let { node, high, low } = state;
    let steps = to - from;
    for (let at = from; at < to; at++) {
      const unit = text.charCodeAt(at);
      high = (high << 16) | (low >>> 16);
      low = (low << 16) | unit;
      let next = 0;
      while (node !== 0) {
        next = this.child(node, unit);
        if (next !== 0) break;
        node = suffixes[node] ?? 0;
        steps += 1;
      }
      if (next === 0 && mayStart[filterOf(high, low)] === 1) next = starts.get(high, low);
      node = next;
      if (node === 0) continue;
      const length = lengths[node] ?? 0;
      if (length > 0) onFound(at + 1, length);
    }
    this.steps += steps;
    state.node = node;
    state.high = high;
    state.low = low;
  }

  /** How many of the last units that were read may begin a text. */
  begun({ node, high, low }: SearchState): number {
    if (node !== 0) return this.depths[node] ?? 0;
    const third = this.childOf(0, high & 0xffff);
    const second = low >>> 16;
    const last = low & 0xffff;
    if (this.childOf(this.childOf(third, second), last) > 0) return 3;
    if (this.childOf(this.childOf(0, second), last) > 0) return 2;
    return this.childOf(0, last) > 0 ? 1 : 0;
  }

  /** Whether a text ends within the units of `text` from `from` to `to`. */
  finds(text: string, from: number, to: number): boolean {
    let isFound = false;
    this.search(beginning(), text, from, to, () => (isFound = true));
    return isFound;
  }

  /** -1: there is none. */
  private childOf(node: number, unit: number): number {
    return node < 0 ? -1 : this.child(node, unit) || -1;
  }

  private child(node: number, unit: number): number {
    const next = node + 1;
    if (this.units[next] === unit && this.isFirstChild(next)) return next;
    return this.hasBranches[node] === 0 ? 0 : this.branches.get(node, unit);
  }

  private isFirstChild(node: number): boolean {
    return this.depths[node] === Number(this.depths[node - 1]) + 1;
  }

  private insert(text: string, parents: Map<number, number>): void {
    let node = 0;
    let at = 0;
    for (let next = 0; at < text.length; at++) {
      next = this.child(node, text.charCodeAt(at));
      if (next === 0) break;
      node = next;
    }
    if (at < text.length) node = this.append(node, text, at, parents);
    this.lengths[node] = text.length;
  }

  /** Adds nodes for the units of the text from `from` on. @returns the last of them */
  private append(parent: number, text: string, from: number, parents: Map<number, number>): number {
    const { units, depths, count: first } = this;
    for (let at = from; at < text.length; at++) {
      const node = first + at - from;
      units[node] = text.charCodeAt(at);
      depths[node] = at + 1;
    }
    this.count += text.length - from;
    if (first !== parent + 1) {
      parents.set(first, parent);
      this.hasBranches[parent] = 1;
      this.branches.set(parent, text.charCodeAt(from), first);
    }
    if (from < MIN_UNITS) {
      const high = (text.charCodeAt(0) << 16) | text.charCodeAt(1);
      const low = (text.charCodeAt(2) << 16) | text.charCodeAt(3);
      this.mayStart[filterOf(high, low)] = 1;
      this.starts.set(high, low, first + MIN_UNITS - 1 - from);
    }
    return this.count - 1;
  }

  private linkSuffixes(parents: ReadonlyMap<number, number>): void {
    const { depths, lengths, suffixes, units, count } = this;
    for (const node of this.byDepth()) {
      const parent = this.isFirstChild(node) ? node - 1 : (parents.get(node) ?? 0);
      const unit = units[node] ?? 0;
      let suffix = 0;
      for (let from = parent; from !== 0 && suffix === 0;) {
        from = suffixes[from] ?? 0;
        suffix = this.child(from, unit);
      }
      suffixes[node] = suffix;
      if (lengths[node] === 0) lengths[node] = lengths[suffix] ?? 0;
    }
    for (let node = 1; node < count; node++) {
      if (Number(depths[suffixes[node] ?? 0]) < MIN_UNITS) suffixes[node] = 0;
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

/** A hash of four units. */
function filterOf(high: number, low: number): number {
  return (low ^ (low >>> 12) ^ (high << 8)) & (FILTER_SIZE - 1);
}
