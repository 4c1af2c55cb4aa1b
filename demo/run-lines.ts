import type { Schemas } from '@longshore/client';
import type { RunState } from '@longshore/client/constants';

type PolledEvent = Schemas['PolledEvent'];

/** What the terminal can show. */
export interface LineStyle {
  readonly colours: boolean;
  /** Block characters for bars; otherwise ASCII. */
  readonly blocks: boolean;
}

/** A run as its status line shows it. */
export interface RunStatus {
  readonly name: string;
  readonly state: RunState;
  /** 0-100. */
  readonly progress: number;
}

const BAR_CELLS = 24;
const NAME_CELLS = 11;
const STATE_CELLS = 9;

const CODES = { dim: 2, bold: 1, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

const STATE_COLOURS: Readonly<Record<RunState, keyof typeof CODES>> = {
  PENDING: 'dim',
  ASSIGNED: 'yellow',
  RUNNING: 'cyan',
  COMPLETED: 'green',
  FAILED: 'red',
  CANCELLED: 'yellow',
};

/** The text in a colour, if the style has colours. */
export function paint(text: string, colour: keyof typeof CODES, { colours }: LineStyle): string {
  return colours && text !== '' ? `\u001b[${CODES[colour]}m${text}\u001b[0m` : text;
}

/** One line for one event of a run's timeline, at most `columns` wide. */
export function eventLine(name: string, event: PolledEvent, columns: number, style: LineStyle): string {
  const time = event.t.slice(11, 23);
  const head = `${time}  ${name.padEnd(NAME_CELLS)} `;
  const type = event.type.padEnd(STATE_CELLS);
  const room = Math.max(columns - head.length - type.length - 1, 0);
  return `${paint(head, 'dim', style)}${paint(type, colourOf(event.type), style)} ${cut(detailOf(event), room)}`;
}

/** One line with a run's state and a bar for its progress. */
export function statusLine({ name, state, progress }: RunStatus, style: LineStyle): string {
  const filled = Math.round((progress / 100) * BAR_CELLS);
  const [full, empty] = style.blocks ? ['█', '░'] : ['#', '.'];
  const colour = STATE_COLOURS[state];
  const bar =
    paint(full.repeat(filled), colour, style) + paint(empty.repeat(BAR_CELLS - filled), 'dim', style);
  const title = `${name.padEnd(NAME_CELLS)} ${paint(state.padEnd(STATE_CELLS), colour, style)}`;
  return `${title} ${bar} ${`${progress} %`.padStart(5)}`;
}

function colourOf(type: string): keyof typeof CODES {
  switch (type) {
    case 'COMPLETED':
      return 'green';
    case 'FAILED':
      return 'red';
    case 'STARTED':
    case 'PROGRESS':
      return 'cyan';
    default:
      return 'yellow';
  }
}

function detailOf({ type, msg, payload }: PolledEvent): string {
  const said = type === 'PROGRESS' ? `${msg} %` : String(msg);
  const more = payload['error_message'] ?? payload['outputs'];
  const shown = typeof more === 'string' || more === undefined ? more : JSON.stringify(more);
  const text = shown === undefined || shown === msg ? said : `${said} ${shown}`;
  // What a container printed must not act on the terminal.
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, Math.max(length - 3, 0))}...` : text;
}
