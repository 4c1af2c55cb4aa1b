import type { RunState } from '@longshore/client/constants';
import { escapeUnsafe } from '@longshore/common/json/text';
import { colouredLine, shownLine } from '@longshore/common/shown-text';

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

/** A colour of the terminal. */
export type Colour = keyof typeof CODES;

const ESC = '\u001b';

/** Colour sequences, the only ones that are printed. */
const SET_COLOUR = new RegExp(`${ESC}\\[[\\d;]*m`, 'g');

/** Colours the text when colours are enabled. */
export function paint(text: string, colour: Colour | undefined, wanted: boolean): string {
  return wanted && colour !== undefined && text !== '' ? `${ESC}[${CODES[colour]}m${text}\u001b[0m` : text;
}

/** The colours of a run's states. */
export const STATE_COLOURS: Readonly<Record<RunState, Colour>> = {
  PENDING: 'dim',
  RUNNING: 'cyan',
  COMPLETED: 'green',
  FAILED: 'red',
  ASSIGNED: 'yellow',
  CANCELLED: 'yellow',
};

/** The text with visible escapes for what could control a terminal, except colours and line feeds. */
export function safeText(text: string): string {
  const kept = text.match(SET_COLOUR) ?? [];
  return text
    .split(SET_COLOUR)
    .map((part, index) => escapeUnsafe(part) + (kept[index] ?? ''))
    .join('');
}

/** Line feeds as `\n`: a line that holds one must not look like two. */
export function escapeLineFeeds(text: string): string {
  return text.replaceAll('\n', String.raw`\n`);
}

/** A line of a log as a terminal shows it. Colours stay when enabled, and end with the line. */
export function safeLine(text: string, colours: boolean): string {
  const line = escapeLineFeeds(text);
  return colours ? safeText(colouredLine(line)) : escapeUnsafe(shownLine(line));
}
