/** Milliseconds of a clock that never goes back; it may stand still while the machine is suspended. */
export function monotonicMs(): number {
  return performance.now();
}
