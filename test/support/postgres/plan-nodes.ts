/** All nodes of a plan that `explain (format json)` answers, the root first. */
export function planNodes<P extends { readonly Plans?: readonly P[] }>(plan: P): readonly P[] {
  return [plan, ...(plan.Plans ?? []).flatMap(planNodes)];
}
