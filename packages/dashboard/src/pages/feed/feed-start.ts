/** Where following a feed begins, and its words. */
export const STARTS = [
  ['', 'Newest 100 and new ones'],
  ['new', 'New ones only'],
  ['oldest', 'From the beginning'],
] as const;

/** Where following a feed begins. */
export type Start = (typeof STARTS)[number][0];

/** @param text as it stands in the address */
export function startOf(text: string): Start {
  return STARTS.find(([value]) => value === text)?.[0] ?? '';
}
