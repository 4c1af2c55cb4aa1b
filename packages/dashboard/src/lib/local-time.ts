/** A time as an input of a browser has it: local, to the second. @param iso ISO 8601 */
export function toLocalInput(iso: string): string {
  if (iso === '') return '';
  const date = new Date(iso);
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString();
  // As browsers write it: another text for the same time would be put into the input at every change of the page.
  return local.slice(0, local.slice(16, 19) === ':00' ? 16 : 19);
}

/** The time of a browser's input in ISO 8601; empty when it is none. */
export function fromLocalInput(text: string): string {
  const time = Date.parse(text);
  return Number.isNaN(time) ? '' : new Date(time).toISOString().replace('.000Z', 'Z');
}
