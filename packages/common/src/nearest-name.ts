/** Longer names are not compared. */
const MAX_LENGTH = 64;

/**
 * The known name that a name was probably meant to be: the same but for case, `-` and `_`, or with at most one letter in
 * four missing, added, changed or swapped with the next. Undefined: none is that near.
 */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  if (name.length > MAX_LENGTH) return undefined;
  const plain = plainName(name);
  let nearest: string | undefined;
  let most = Math.min(2, Math.floor(plain.length / 4));
  for (const candidate of known) {
    const other = plainName(candidate);
    if (other === plain && candidate !== name) return candidate;
    if (Math.abs(other.length - plain.length) > most) continue;
    const distance = editDistance(plain, other);
    if (distance > most || distance === 0) continue;
    nearest = candidate;
    most = distance - 1;
  }
  return nearest;
}

/** The name as it is compared: `retryPolicy` is `retry_policy`, `--mem-limit` is `mem_limit`. */
export function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[-_. ]/g, '');
}

/** Letters to insert, remove, change or swap with the next (optimal string alignment). */
function editDistance(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const isEqual = from[row - 1] === to[column - 1];
      const isSwapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      current.push(
        Math.min(
          at(last, column) + 1,
          at(current, column - 1) + 1,
          at(last, column - 1) + (isEqual ? 0 : 1),
          row > 1 && column > 1 && isSwapped ? at(beforeLast, column - 2) + 1 : Infinity,
        ),
      );
    }
    beforeLast = last;
    last = current;
  }
  return at(last, to.length);
}

function at(distances: readonly number[], column: number): number {
  return distances[column] ?? Infinity;
}
