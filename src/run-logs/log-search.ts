/** Whether a line is one that the reader wants. */
export type LineFilter = (text: string) => boolean;

/** Lines that hold the text, whatever the case; every line without one. */
export function filterOf(contains: string | undefined): LineFilter {
  if (contains === undefined) return () => true;
  const wanted = contains.toLowerCase();
  return (text) => text.toLowerCase().includes(wanted);
}
