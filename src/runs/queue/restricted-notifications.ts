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

/** A notification; without `required` if that is too long. */
interface Announced {
  readonly count: number;
  readonly avoids: boolean;
  readonly required?: readonly (readonly string[])[] | null;
}

export function parseRestrictedNotification(text: string): RestrictedNotification {
  const { count, avoids, required = null }: Announced = JSON.parse(text);
  return { count, required, mayAvoid: avoids };
}
