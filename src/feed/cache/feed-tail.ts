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
  /** Of the run; null: it has none. */
  readonly name: string | null;
  /** JSON text of the run's labels; null: it has none. */
  readonly labels: string | null;
}

/** By the type of an event that may end a run, the state in which it has ended it. */
const ENDS: ReadonlyMap<string, string> = new Map([
  ['COMPLETED', 'COMPLETED'],
  ['FAILED', 'FAILED'],
  ['CANCELLED', 'CANCELLED'],
  ['RECLAIMED', 'FAILED'],
]);

/** Estimated bytes of an entry's objects and of its JSON, besides its texts of any length. */
const FIXED_BYTES = 500;

interface EntryText {
  readonly cursor: string;
  readonly json: string;
}

/** An event at its position in a feed. All readers of a process share its JSON, which is built once. */
export class FeedEntry {
  readonly t: Date;
  /** Bytes of message, payload, attributes, name and labels. */
  readonly bytes: number;
  #content: FeedEvent | EntryText;

  constructor(
    readonly position: number,
    event: FeedEvent,
    private readonly toCursor: (position: number) => string,
  ) {
    const { msg, payload, attributes, name, labels, t } = event;
    this.t = t;
    this.bytes = [msg, payload, attributes, name, labels].reduce(
      (sum, text) => sum + Buffer.byteLength(text ?? ''),
      0,
    );
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
  const { runId, attempt, type, msg, t, state, payload, attributes, name, labels } = event;
  const ended = ENDS.get(type) === state;
  const json =
    `{"cursor":"${cursor}","run_id":"${runId}","attempt":${attempt},"type":${JSON.stringify(type)},` +
    `"msg":${msg},"t":"${t.toISOString()}","state":"${state}","payload":${payload}` +
    (ended ? ',"ended":true' : '') +
    (name === null ? '' : `,"name":${JSON.stringify(name)}`) +
    (labels === null ? '' : `,"labels":${labels}`) +
    (attributes === null ? '}' : `,"attributes":${attributes}}`);
  return { cursor, json };
}

/** Consecutive events of a topic's feed. Readers share one object, and with it its JSON. */
export class FeedSlice {
  /** Estimated bytes of memory. */
  readonly memory: number;
  #page: Buffer | undefined;
  #frames: Buffer | undefined;

  /**
   * @param end position after which the feed continues; it may have no entry
   * @param entries oldest first
   * @param last position of the feed's newest entry, as far as it is known
   * @param epoch token of the epoch in which its positions are valid
   */
  constructor(
    readonly end: number,
    readonly entries: readonly FeedEntry[],
    readonly hasMore: boolean,
    readonly last: number,
    readonly epoch: string | null,
  ) {
    this.memory = entries.reduce((sum, { memory }) => sum + memory, 0);
  }

  static empty(end: number, epoch: string | null): FeedSlice {
    return new FeedSlice(end, [], false, end, epoch);
  }

  /** A FeedPage of the API as JSON; all readers at this place are sent the same bytes. */
  get page(): Buffer {
    this.#page ??= Buffer.from(this.#buildPage());
    return this.#page;
  }

  /** The events in the format of Server-Sent Events. */
  get frames(): Buffer {
    this.#frames ??= Buffer.from(
      this.entries.map(({ cursor, json }) => `id: ${cursor}\ndata: ${json}\n\n`).join(''),
    );
    return this.#frames;
  }

  #buildPage(): string {
    const next = this.entries.at(-1)?.cursor ?? null;
    const events = this.entries.map(({ json }) => json).join();
    return `{"events":[${events}],"next_cursor":${JSON.stringify(next)},"has_more":${this.hasMore}}`;
  }
}

/** Estimated bytes of a tail without entries. */
const EMPTY_BYTES = 500;

/** The share of its bytes that a tail keeps when it has too many, so that it is not cut at every event. */
const KEPT = 0.75;

/** All entries of a feed after one position up to another. */
export interface FeedPart {
  /** Position after which it starts. */
  readonly from: number;
  /** Position up to which it holds all entries. There is none at positions whose rows were removed by hand. */
  readonly to: number;
  /** Oldest first. */
  readonly entries: readonly FeedEntry[];
}

export interface PageLimits {
  readonly limit: number;
  /** Bytes at which a page ends; its first entry may be larger. */
  readonly maxBytes: number;
}

/** The part of a topic's feed that ends with its newest known entry. */
export class FeedTail implements FeedPart {
  #from: number;
  #to: number;
  #entries: FeedEntry[];
  #bytes: number;

  constructor(
    part: FeedPart,
    private readonly maxBytes: number,
  ) {
    this.#from = part.from;
    this.#to = part.to;
    this.#entries = [...part.entries];
    this.#bytes = EMPTY_BYTES + memoryOf(part.entries);
    this.#cut();
  }

  get from(): number {
    return this.#from;
  }

  get to(): number {
    return this.#to;
  }

  get entries(): readonly FeedEntry[] {
    return this.#entries;
  }

  /** Estimated bytes of memory. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds what a part that overlaps or touches this one has beyond it. @returns false if there is a gap between them */
  merge(part: FeedPart): boolean {
    if (part.from > this.#to || part.to < this.#from) return false;
    if (part.to > this.#to) {
      const newer = part.entries.filter(({ position }) => position > this.#to);
      this.#entries.push(...newer);
      this.#bytes += memoryOf(newer);
      this.#to = part.to;
      this.#cut();
    }
    if (part.from < this.#from) {
      const older = part.entries.filter(({ position }) => position <= this.#from);
      const bytes = memoryOf(older);
      if (this.#bytes + bytes > this.maxBytes) return true;
      this.#entries.unshift(...older);
      this.#bytes += bytes;
      this.#from = part.from;
    }
    return true;
  }

  /** The part for a page that begins after a position; undefined if the tail does not reach back to it. */
  page(start: number, { limit, maxBytes }: PageLimits): FeedPart | undefined {
    if (start < this.#from || start > this.#to) return undefined;
    const first = this.#indexBehind(start);
    let end = first;
    for (let bytes = 0; end < this.#entries.length && end - first < limit && bytes < maxBytes; end += 1) {
      bytes += this.#entries[end]?.bytes ?? 0;
    }
    const entries = this.#entries.slice(first, end);
    const isCut = end < this.#entries.length;
    return { from: start, to: isCut ? (entries.at(-1)?.position ?? start) : this.#to, entries };
  }

  #indexBehind(position: number): number {
    let [low, high] = [0, this.#entries.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      const entry = this.#entries[middle];
      if (entry !== undefined && entry.position <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Forgets the oldest entries if there are too many bytes; keeps the newest one whatever its size. */
  #cut(): void {
    if (this.#bytes <= this.maxBytes) return;
    let count = 0;
    for (; this.#bytes > this.maxBytes * KEPT && count < this.#entries.length - 1; count += 1) {
      const entry = this.#entries[count];
      if (entry === undefined) break;
      this.#bytes -= entry.memory;
      this.#from = entry.position;
    }
    this.#entries.splice(0, count);
  }
}

function memoryOf(entries: readonly FeedEntry[]): number {
  return entries.reduce((sum, { memory }) => sum + memory, 0);
}
