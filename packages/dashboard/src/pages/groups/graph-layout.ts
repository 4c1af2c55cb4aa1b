/** Pixels of a node. */
export const NODE = { width: 168, height: 38 } as const;
/** Pixels from a node to the next one, to the right and down. */
const STEP = { x: 216, y: 50 } as const;
const GAP = (STEP.y - NODE.height) / 2;
const CHANNEL = STEP.x - NODE.width;
/** Nodes above each other; a layer of more has several columns. */
const MOST_ROWS = 16;

/** A graph as it is drawn, in pixels. */
export interface GraphLayout<N, E> {
  readonly width: number;
  readonly height: number;
  readonly layers: readonly { readonly x: number; readonly width: number }[];
  /** From left to right, in the order of the keyboard. */
  readonly nodes: readonly { readonly node: N; readonly x: number; readonly y: number }[];
  /** With the path of a line that crosses no node. */
  readonly edges: readonly { readonly edge: E; readonly path: string }[];
}

interface Node {
  readonly id: string;
}

interface Edge {
  readonly from: string;
  readonly to: string;
}

interface Placed<N> {
  readonly node: N;
  readonly column: number;
  readonly x: number;
  readonly y: number;
}

/**
 * Places the nodes of a graph without cycles in layers from left to right: each in the first one behind all from which an
 * edge leads to it. Edges from or to other nodes are left out.
 */
export function layoutGraph<N extends Node, E extends Edge>(
  nodes: readonly N[],
  edges: readonly E[],
): GraphLayout<N, E> {
  const layers = sortLayers(toLayers(nodes, edges), edges);
  const highest = Math.min(MOST_ROWS, Math.max(0, ...layers.map((layer) => layer.length)));
  const placed = new Map<string, Placed<N>>();
  const bands = [];
  let first = 0;
  for (const layer of layers) {
    const columns = Math.ceil(layer.length / MOST_ROWS);
    const rows = Math.ceil(layer.length / columns);
    const top = Math.floor((highest - rows) / 2);
    for (const [index, node] of layer.entries()) {
      const column = first + Math.floor(index / rows);
      const y = GAP + (top + (index % rows)) * STEP.y;
      placed.set(node.id, { node, column, x: CHANNEL / 2 + column * STEP.x, y });
    }
    bands.push({ x: CHANNEL / 4 + first * STEP.x, width: columns * STEP.x - CHANNEL / 2 });
    first += columns;
  }
  return {
    width: first * STEP.x,
    height: highest * STEP.y,
    layers: bands,
    nodes: [...placed.values()],
    edges: edges.flatMap((edge) => {
      const [from, to] = [placed.get(edge.from), placed.get(edge.to)];
      return from === undefined || to === undefined ? [] : [{ edge, path: toPath(from, to) }];
    }),
  };
}

/** The layers by the longest path to each node. */
function toLayers<N extends Node>(nodes: readonly N[], edges: readonly Edge[]): N[][] {
  const depths = new Map(nodes.map(({ id }) => [id, 0]));
  // A path has fewer edges than there are nodes: the rounds are enough.
  for (let round = 1, isChanged = true; isChanged && round < nodes.length; round += 1) {
    isChanged = false;
    for (const { from, to } of edges) {
      const [start, end] = [depths.get(from), depths.get(to)];
      if (start === undefined || end === undefined || end > start) continue;
      depths.set(to, start + 1);
      isChanged = true;
    }
  }
  const layers: N[][] = [];
  for (const node of nodes) (layers[depths.get(node.id) ?? 0] ??= []).push(node);
  return layers;
}

/** Sorts each layer by the mean place of those from which edges lead to a node, so that fewer edges cross. */
function sortLayers<N extends Node>(layers: readonly N[][], edges: readonly Edge[]): N[][] {
  const ranks = new Map<string, number>();
  return layers.map((layer) => {
    const sums = new Map(layer.map(({ id }) => [id, { sum: 0, count: 0 }]));
    for (const { from, to } of edges) {
      const [mean, rank] = [sums.get(to), ranks.get(from)];
      if (mean === undefined || rank === undefined) continue;
      mean.sum += rank;
      mean.count += 1;
    }
    const meanOf = ({ id }: N): number => {
      const { sum = 0, count = 0 } = sums.get(id) ?? {};
      return sum / Math.max(count, 1);
    };
    const sorted = layer.toSorted((a, b) => meanOf(a) - meanOf(b));
    for (const [index, { id }] of sorted.entries()) ranks.set(id, (index + 0.5) / sorted.length);
    return sorted;
  });
}

/** From the end of a node to the beginning of one to its right, with an arrow; past columns between them it goes above the row of the end. */
function toPath(from: Placed<unknown>, to: Placed<unknown>): string {
  const [x, y] = [from.x + NODE.width, from.y + NODE.height / 2];
  const end = { x: to.x, y: to.y + NODE.height / 2 };
  const arrow = 'm -6 -4 l 6 4 l -6 4';
  if (to.column === from.column + 1) return `M ${x} ${y} ${curve(x, y, end.x, end.y)} ${arrow}`;
  const gap = to.y - GAP;
  const [left, right] = [x + CHANNEL, end.x - CHANNEL];
  return `M ${x} ${y} ${curve(x, y, left, gap)} H ${right} ${curve(right, gap, end.x, end.y)} ${arrow}`;
}

function curve(x: number, y: number, toX: number, toY: number): string {
  const middle = (x + toX) / 2;
  return `C ${middle} ${y} ${middle} ${toY} ${toX} ${toY}`;
}
