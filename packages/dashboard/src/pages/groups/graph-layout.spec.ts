import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { layoutGraph, NODE, type GraphLayout } from './graph-layout.js';

describe('the layout of the graph of a group', () => {
  test('a node is right of all that it waits for, in the layer behind the longest path to it', () => {
    const layout = lay('extract load report audit', 'extract>load load>report extract>report extract>audit');
    assert.deepEqual(columnsOf(layout), [['extract'], ['load', 'audit'], ['report']]);
  });

  test('nodes of a layer are in the order of those that they wait for, so that edges do not cross without need', () => {
    assert.deepEqual(columnsOf(lay('a b c z y x', 'a>x b>y c>z')), [
      ['a', 'b', 'c'],
      ['x', 'y', 'z'],
    ]);
  });

  test('an edge to a node that is not there is left out, and no nodes are an empty picture', () => {
    assert.equal(lay('a b', 'a>b a>gone gone>b').edges.length, 1);
    assert.deepEqual(layoutGraph([], []), { width: 0, height: 0, layers: [], nodes: [], edges: [] });
  });

  test('a layer of 198 nodes has as many columns as keep it within 16 rows, in one band', () => {
    const names = Array.from({ length: 198 }, (_, index) => `n${index}`);
    const layout = lay(`first ${names.join(' ')} last`, names.map((n) => `first>${n} ${n}>last`).join(' '));
    const columns = columnsOf(layout);
    assert.deepEqual([columns.length, columns[0], columns.at(-1)], [15, ['first'], ['last']]);
    assert.ok(columns.every((column) => column.length <= 16));
    assert.equal(layout.layers.length, 3);
  });

  test('nodes do not overlap, are inside the picture, and no edge passes through one, in graphs of 200 nodes', () => {
    let seed = 56;
    const random = (below: number): number => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    const names = Array.from({ length: 200 }, (_, index) => `n${index}`);
    const links = names.flatMap((name, index) =>
      Array.from(
        { length: index === 0 ? 0 : random(4) },
        () => `${names[random(Math.min(index, 60))]}>${name}`,
      ),
    );
    const { nodes, edges, width, height } = lay(names.join(' '), links.join(' '));
    assert.equal(new Set(nodes.map(({ x, y }) => `${x} ${y}`)).size, 200);
    for (const { x, y } of nodes) {
      assert.ok(x >= 0 && y >= 0 && x + NODE.width <= width && y + NODE.height <= height);
    }
    for (const { path } of edges) {
      for (const [x, y] of pointsOf(path)) {
        const hit = nodes.find(
          (node) => x > node.x && x < node.x + NODE.width && y > node.y && y < node.y + NODE.height,
        );
        assert.equal(hit, undefined, `${path} at ${x} ${y}`);
      }
    }
  });
});

type Layout = GraphLayout<{ readonly id: string }, { readonly from: string; readonly to: string }>;

/** The layout of nodes `a b` with edges `a>b`. */
function lay(nodes: string, edges: string): Layout {
  return layoutGraph(
    nodes.split(' ').map((id) => ({ id })),
    edges
      .split(' ')
      .filter((edge) => edge !== '')
      .map((edge) => edge.split('>'))
      .map(([from = '', to = '']) => ({ from, to })),
  );
}

/** The names of the nodes from left to right, and from above in each column. */
function columnsOf({ nodes }: Layout): string[][] {
  const columns = [...new Set(nodes.map(({ x }) => x))].toSorted((a, b) => a - b);
  return columns.map((column) =>
    nodes
      .filter(({ x }) => x === column)
      .toSorted((a, b) => a.y - b.y)
      .map(({ node }) => node.id),
  );
}

/** Points of a path of curves and horizontal lines, without its arrow. */
function pointsOf(path: string): [number, number][] {
  const points: [number, number][] = [];
  let [x, y] = [0, 0];
  for (const [, command, text = ''] of path.split(' m ')[0]?.matchAll(/([MCH])([^MCH]*)/g) ?? []) {
    const [a = 0, b = 0, c = 0, d = 0, toX = 0, toY = 0] = text.trim().split(' ').map(Number);
    const [startX, startY] = [x, y];
    for (let step = 1; step <= 50; step += 1) {
      const t = step / 50;
      const mix = (p0: number, p1: number, p2: number, p3: number): number =>
        (1 - t) ** 3 * p0 + 3 * (1 - t) ** 2 * t * p1 + 3 * (1 - t) * t ** 2 * p2 + t ** 3 * p3;
      [x, y] =
        command === 'C'
          ? [mix(startX, a, c, toX), mix(startY, b, d, toY)]
          : command === 'H'
            ? [startX + (a - startX) * t, startY]
            : [a, b];
      points.push([x, y]);
    }
  }
  return points;
}
