import { escapeUnsafe, UNSAFE_CHARACTERS } from './json/text.js';

const ESC = '\u001b';

/**
 * Escape sequences: colours and movements, then titles and links with their content, then all others. No ESC is left without them.
 * @param except characters of a content that make it none, in a class of a regular expression
 */
function sequences(except: string): string {
  return [
    // At the end of a text the final letter may be missing.
    String.raw`(?:\u001b\[|\u009b)[0-?]*[ -/]*(?:[@-~]|$)`,
    String.raw`(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\u0007\u001b\u0080-\u009f${except}]*(?:\u0007|\u001b\\|\u009c)`,
    String.raw`\u001b(?:[ -/]+[0-~]|[0-~])?`,
  ].join('|');
}

const SEQUENCES = new RegExp(sequences(''), 'g');

/** What {@link shownLine} leaves out between two characters that it shows beside each other. A backspace leaves out more. */
const UNSHOWN = new RegExp(
  String.raw`${sequences(String.raw`\r\n\\'`)}|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]+`,
  'g',
);

// oxlint-disable-next-line no-control-regex -- control characters are what this looks for
const HAS_UNSHOWN = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/;

/** A colour or another look of the characters that follow. */
const SET_COLOUR = new RegExp(String.raw`^${ESC}\[[\d;]*m$`);

/** Movements of the cursor to another row, such as those of several progress bars. */
const TO_OTHER_ROW = new RegExp(String.raw`(${ESC}(?:\[[\d;]*[ABEFHdf]|[DEM]))`);

/** Control characters except tab and line feed. */
// oxlint-disable-next-line no-control-regex -- control characters are what this looks for
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;
// oxlint-disable-next-line no-control-regex -- as above
const HAS_CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/;

/** A colour, which takes no place, or a character. */
// oxlint-disable-next-line no-control-regex -- as above
const CELLS = /\u001b\[[\d;]*m|[^]/gu;

const BLANKS = new RegExp(String.raw`[${UNSAFE_CHARACTERS}\s]+`, 'g');

/**
 * A line of a log, or a piece of one, without what carriage returns have written over. The rule of all that store or show logs;
 * `packages/python/longshore/lines.py` has the same. What is left is a stretch of what was printed, so that no text comes together that
 * was apart. Rows to which the cursor was moved are not written over.
 * @param isBegun the text goes on with a line: a carriage return in front stays, because it writes over what was there before
 */
export function lastState(text: string, isBegun = false): string {
  if (!text.includes('\r')) return text;
  if (!text.includes(ESC)) return lastStateOfRow(text, isBegun);
  return text
    .split(TO_OTHER_ROW)
    .map((row, index) => (index % 2 === 1 ? row : lastStateOfRow(row, isBegun || index > 0)))
    .join('');
}

function lastStateOfRow(text: string, isBegun: boolean): string {
  let end = text.length;
  while (text[end - 1] === '\r') end -= 1;
  // It writes over nothing yet, but a further piece may follow.
  const isOpen = end < text.length;
  if (end === 0) return isOpen ? '\r' : '';
  const begin = text.lastIndexOf('\r', end - 1) + 1;
  return `${isBegun && begin > 0 ? '\r' : ''}${text.slice(begin, end)}${isOpen ? '\r' : ''}`;
}

/** Whether a further piece of a line, in its last state, writes over what was before it. */
export function writesOver(piece: string): boolean {
  return piece.length > 1 && piece.startsWith('\r');
}

/** A line as a terminal would show it: its last state without escape sequences and control characters. */
export function shownLine(text: string): string {
  return HAS_CONTROLS.test(text) ? rowsOf(text, '') : text;
}

/** As {@link shownLine}, with its colours, which end with the line. Every ESC that is left belongs to a colour. */
export function colouredLine(text: string): string {
  if (!HAS_CONTROLS.test(text)) return text;
  const shown = rowsOf(text, ESC);
  return shown.includes(ESC) ? `${shown}${ESC}[0m` : shown;
}

/** What a search in a line compares: all that is stored of it, each state on a row of its own, without escape sequences. */
export function searchedText(text: string): string {
  return HAS_CONTROLS.test(text) ? text.split('\r').map(shownLine).join('\n') : text;
}

/** Whether parts of a text come together when it is shown. */
export function hasUnshown(text: string): boolean {
  return HAS_UNSHOWN.test(text);
}

/**
 * Where a text has escape sequences and control characters, so that what is before and after comes together when it is shown: not
 * carriage returns, which part it, and not backspaces. A title or a link in which something may be written with escapes counts as shown.
 * @returns begin and end of each, in UTF-16 units
 */
export function unshownParts(text: string): number[] {
  return [...text.matchAll(UNSHOWN)].flatMap(({ index, 0: part }) => [index, index + part.length]);
}

/** A text of several lines as a terminal would show them, with visible escapes for what could still control it. */
export function plainText(text: string): string {
  return escapeUnsafe(text.split('\n').map(shownLine).join('\n'));
}

/** A text on one line, as words for people: without escape sequences, control characters and line breaks. */
export function oneLine(text: string): string {
  return withoutSequences(text, '').toWellFormed().replaceAll(BLANKS, ' ').trim();
}

/** @param kept ESC: colours stay */
function rowsOf(text: string, kept: '' | typeof ESC): string {
  return lastState(text)
    .split(TO_OTHER_ROW)
    .flatMap((row, index) => (index % 2 === 1 ? [] : [withoutControls(withoutSequences(row, kept), kept)]))
    .filter((row) => row !== '')
    .join(' ');
}

function withoutSequences(text: string, kept: '' | typeof ESC): string {
  return text.replaceAll(SEQUENCES, (sequence) => (kept !== '' && SET_COLOUR.test(sequence) ? sequence : ''));
}

function withoutControls(text: string, kept: '' | typeof ESC): string {
  const written = text.includes('\b') ? withoutBackspaces(text) : text;
  return written.replaceAll(CONTROLS, (character) => (character === kept ? character : ''));
}

/** A backspace goes one character back, and what follows is written over it. */
function withoutBackspaces(text: string): string {
  const cells: string[] = [];
  let at = 0;
  let colours = '';
  for (const [cell] of text.matchAll(CELLS)) {
    if (cell === '\b') at = Math.max(0, at - 1);
    else if (cell.startsWith(ESC)) colours += cell;
    else {
      cells[at] = colours + cell;
      colours = '';
      at += 1;
    }
  }
  return cells.join('') + colours;
}
