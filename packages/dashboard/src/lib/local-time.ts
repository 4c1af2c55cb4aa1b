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
  const read = readLocalInput(text);
  return 'value' in read ? read.value : '';
}

/** The time of a browser's input in ISO 8601, or why it is none: a time that the local clock skips is refused. */
export function readLocalInput(text: string): { readonly value: string } | { readonly problem: string } {
  const none = { problem: 'Enter a date and a time.' };
  const time = Date.parse(text);
  if (Number.isNaN(time)) return none;
  const value = new Date(time).toISOString().replace('.000Z', 'Z');
  if (isShownAs(value, text)) return { value };
  // Date takes February 30 for a day of March, and moves a time that the clocks skip.
  if (toLocalInput(value).slice(0, 10) !== text.slice(0, 10)) return none;
  return {
    problem: `This time does not exist in ${zone()}: the clocks are put forward. The next is ${describeLocal(value)}.`,
  };
}

/** The offset of an entered time, and which of two is meant where the clocks are put back; undefined when it is no time. */
export function offsetHint(text: string): string | undefined {
  const read = readLocalInput(text);
  if ('problem' in read) return undefined;
  const { value } = read;
  const isTwice = GAPS_MS.some((gap) => isShownAs(new Date(Date.parse(value) + gap).toISOString(), text));
  return `${offsetOf(value)}, ${zone()}${isTwice ? ': the first of the two, as the clocks are put back' : ''}`;
}

/** A time in local digits with its offset: `2027-03-28 03:30 UTC+02:00`. */
export function describeLocal(iso: string): string {
  return `${toLocalInput(iso).replace('T', ' ')} ${offsetOf(iso)}`;
}

/** By how much clocks are put forward and back: half an hour on Lord Howe, two hours in Troll. */
const GAPS_MS = [30, 60, 120].map((minutes) => minutes * 60_000);

function isShownAs(iso: string, text: string): boolean {
  return toLocalInput(iso).slice(0, 16) === text.slice(0, 16);
}

function offsetOf(iso: string): string {
  const minutes = -new Date(iso).getTimezoneOffset();
  const digits = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60].map((part) =>
    String(part).padStart(2, '0'),
  );
  return `UTC${minutes < 0 ? '-' : '+'}${digits.join(':')}`;
}

function zone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}
