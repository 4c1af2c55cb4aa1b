const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

/** A colour of the terminal. */
export type Colour = keyof typeof CODES;

const ESC = '\u001b';

/** Control characters except line feed and tab: log text must not control the terminal. */
const CONTROLS = /[^\P{Cc}\n\t]/gu;
/** Colour sequences, the only ones that log lines keep. */
const SET_COLOUR = new RegExp(`${ESC}\\[[\\d;]*m`, 'g');

/** Colours the text when colours are enabled. */
export function paint(text: string, colour: Colour | undefined, wanted: boolean): string {
  return wanted && colour !== undefined && text !== '' ? `${ESC}[${CODES[colour]}m${text}\u001b[0m` : text;
}

const STATE_COLOURS: Readonly<Record<string, Colour>> = {
  PENDING: 'dim',
  RUNNING: 'cyan',
  COMPLETED: 'green',
  FAILED: 'red',
  ASSIGNED: 'yellow',
  CANCELLED: 'yellow',
};

/** The colour of a run's state. */
export function colourOfState(state: string): Colour | undefined {
  return STATE_COLOURS[state];
}

/** Makes a log line safe for a terminal. Colours stay when enabled, and end with the line. */
export function safeLine(text: string, colours: boolean): string {
  const kept = [...text.matchAll(SET_COLOUR)].map(([sequence]) => sequence);
  const parts = text.split(SET_COLOUR).map((part) => part.replaceAll(CONTROLS, '\ufffd'));
  if (!colours || kept.length === 0) return parts.join('');
  return `${parts.map((part, index) => part + (kept[index] ?? '')).join('')}${ESC}[0m`;
}

/** The text on one line, without control characters. */
export function oneLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
}
