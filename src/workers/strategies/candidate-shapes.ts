import type { Shape } from '../../runs/scheduling-strategy.js';

/** Constraints of runs are integers up to this. */
const LARGEST = 2 ** 31 - 1;

/**
 * The distinct shapes among these, no more than `most` of them: where there are more, the last one stands for all that
 * are left and is as large as the largest of them in each resource.
 */
export function distinctShapes(shapes: readonly Shape[], most: number): Shape[] {
  const distinct = new Map(shapes.map(bounded).map((shape) => [Object.values(shape).join(), shape]));
  const all = [...distinct.values()];
  if (all.length <= most) return all;
  return [...all.slice(0, most - 1), all.slice(most - 1).reduce(larger)];
}

function bounded({ cpu, ramMb, vramMb }: Shape): Shape {
  return { cpu: Math.min(cpu, LARGEST), ramMb: Math.min(ramMb, LARGEST), vramMb: Math.min(vramMb, LARGEST) };
}

function larger(a: Shape, b: Shape): Shape {
  return {
    cpu: Math.max(a.cpu, b.cpu),
    ramMb: Math.max(a.ramMb, b.ramMb),
    vramMb: Math.max(a.vramMb, b.vramMb),
  };
}
