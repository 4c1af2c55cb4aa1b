const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

/** A colour of the terminal. */
export type Colour = keyof typeof CODES;

const ESC = '\u001b';

/** Control characters but for line feed and tab; what a container printed must not act on the terminal. */
const CONTROLS = /[^\P{Cc}\n\t]/gu;
/** What sets colours: the only one that lines of a log keep. */
const SET_COLOUR = new RegExp(`${ESC}\\[[\\d;]*m`, 'g');

/** The text in a colour, if colours are wanted. */
export function paint(text: string, colour: Colour | undefined, wanted: boolean): string {
  return wanted && colour !== undefined && text !== '' ? `${ESC}[${CODES[colour]}m${text}\u001b[0m` : text;
}

/** The colour of a state of a run. */
export function colourOfState(state: string): Colour | undefined {
  switch (state) {
    case 'PENDING':
      return 'dim';
    case 'RUNNING':
      return 'cyan';
    case 'COMPLETED':
      return 'green';
    case 'FAILED':
      return 'red';
    case 'ASSIGNED':
    case 'CANCELLED':
      return 'yellow';
    default:
      return undefined;
  }
}

/** A line of a log as a terminal may show it: colours stay if they are wanted, and end with the line. */
export function safeLine(text: string, colours: boolean): string {
  const kept = [...text.matchAll(SET_COLOUR)].map(([sequence]) => sequence);
  const parts = text.split(SET_COLOUR).map((part) => part.replaceAll(CONTROLS, '\ufffd'));
  if (!colours || kept.length === 0) return parts.join('');
  return `${parts.map((part, index) => part + (kept[index] ?? '')).join('')}${ESC}[0m`;
}

/** Any text on one line, without control characters. */
export function oneLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
}
