/** A time as an input of a browser has it: local, to the second. @param iso ISO 8601 */
export function toLocalInput(iso: string): string {
  if (iso === '') return '';
  const date = new Date(iso);
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString();
  // As browsers write it: another text for the same time would be put into the input at every change of the page.
  return local.slice(0, local.slice(16, 19) === ':00' ? 16 : 19);
}

/** The time of a browser's input in ISO 8601; empty when it is none that the clock here shows. */
export function fromLocalInput(text: string): string {
  const time = Date.parse(text);
  if (Number.isNaN(time)) return '';
  const iso = new Date(time).toISOString();
  // Date takes February 30 for a day of March, and moves a time that the clocks skip.
  return toLocalInput(iso).slice(0, 16) === text.slice(0, 16) ? iso.replace('.000Z', 'Z') : '';
}
