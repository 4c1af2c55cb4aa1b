declare module 'vitest' {
  interface TaskMeta {
    /** Why the test is skipped. */
    readonly skippedFor?: string;
  }
}

/** Options of a test or suite that is skipped for a reason, which the report of the run names; false: it runs. */
export function skipFor(reason: string | false | undefined): {
  readonly skip?: true;
  readonly meta: { readonly skippedFor?: string };
} {
  // A suite's `skip: false` would run those of its tests that skipIf skips.
  if (reason === undefined || reason === false) return { meta: {} };
  return { skip: true, meta: { skippedFor: reason } };
}
