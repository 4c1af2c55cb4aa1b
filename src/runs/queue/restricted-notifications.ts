/** Channel that announces runs of the restricted queue that became claimable. */
export const RESTRICTED_CHANNEL = 'longshore_restricted';

/** Most distinct requirements that a notification names; with more, it names none. */
export const MAX_NAMED = 100;

export interface RestrictedNotification {
  readonly count: number;
  /** What workers must have for one of the runs, each as `requirementList`; null: unknown. */
  readonly required: readonly (readonly string[])[] | null;
  /** Whether some of the runs may avoid a worker. */
  readonly mayAvoid: boolean;
}

/** Reads a notification; one by another version of the service may lack the requirements. */
export function parseRestrictedNotification(text: string): RestrictedNotification {
  const unknown = { count: 1, required: null, mayAvoid: true };
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed !== 'object' || parsed === null || !('count' in parsed)) return unknown;
    const count = Number(parsed.count);
    const required = 'required' in parsed && Array.isArray(parsed.required) ? parsed.required : null;
    const mayAvoid = !('avoids' in parsed) || parsed.avoids !== false;
    return { count: Number.isInteger(count) && count > 0 ? count : 1, required, mayAvoid };
  } catch {
    return unknown;
  }
}
