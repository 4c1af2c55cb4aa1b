/** What a feed shows of an event. */
export interface FeedEvent {
  readonly runId: string;
  readonly attempt: number;
  readonly type: string;
  /** JSON text. */
  readonly msg: string;
  readonly t: Date;
  /** State of the run after the event. */
  readonly state: string;
  /** JSON text. */
  readonly payload: string;
  /** JSON text of the attributes of the run's event_delivery; null if it has none. */
  readonly attributes: string | null;
}

/** Estimated bytes of an entry's objects and of its JSON, besides message, payload and attributes. */
const FIXED_BYTES = 500;

interface EntryText {
  readonly cursor: string;
  readonly json: string;
}

/** An event at its position in a feed. All readers of a process share its JSON, which is built once. */
export class FeedEntry {
  readonly t: Date;
  /** Bytes of message, payload and attributes. */
  readonly bytes: number;
  #content: FeedEvent | EntryText;

  constructor(
    readonly position: number,
    event: FeedEvent,
    private readonly toCursor: (position: number) => string,
  ) {
    const { msg, payload, attributes, t } = event;
    this.t = t;
    this.bytes = Buffer.byteLength(msg) + Buffer.byteLength(payload) + Buffer.byteLength(attributes ?? '');
    this.#content = event;
  }

  /** Estimated bytes of memory. */
  get memory(): number {
    return FIXED_BYTES + this.bytes;
  }

  get cursor(): string {
    return this.#text.cursor;
  }

  /** A FeedEvent of the API, in one line. */
  get json(): string {
    return this.#text.json;
  }

  get #text(): EntryText {
    if ('json' in this.#content) return this.#content;
    const text = textOf(this.#content, this.toCursor(this.position));
    this.#content = text;
    return text;
  }
}

function textOf(event: FeedEvent, cursor: string): EntryText {
  const { runId, attempt, type, msg, t, state, payload, attributes } = event;
  const json =
    `{"cursor":"${cursor}","run_id":"${runId}","attempt":${attempt},"type":${JSON.stringify(type)},` +
    `"msg":${msg},"t":"${t.toISOString()}","state":"${state}","payload":${payload}` +
    (attributes === null ? '}' : `,"attributes":${attributes}}`);
  return { cursor, json };
}
