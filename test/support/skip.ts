declare module 'vitest' {
  interface TaskMeta {
    /** Why the test is skipped. */
    readonly skippedFor?: string;
  }
}

/** Options of a test or suite that is skipped for a reason, which the report of the run names; false: it runs. */
export function skipFor(reason: string | false | undefined): {
  readonly skip: boolean;
  readonly meta: { readonly skippedFor?: string };
} {
  const isSkipped = reason !== undefined && reason !== false;
  return { skip: isSkipped, meta: isSkipped ? { skippedFor: reason } : {} };
}
