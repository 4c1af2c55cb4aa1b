import assert from 'node:assert/strict';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { KEYS } from '../app/test-app.js';

/** An event as it was received. */
export interface StreamedEvent {
  readonly id: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into events of any shape
  readonly data: any;
}

/** How a stream is opened. */
export interface StreamOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly key?: string;
}

const PATIENCE_MS = 120_000;

/** A reader of Server-Sent Events that keeps everything and fails on anything but whole events and comments. */
export class EventStreamReader {
  readonly events: StreamedEvent[] = [];
  comments = 0;
  /** Events that had come before each comment. */
  readonly eventsBeforeComments: number[] = [];
  /** Names of events that have one; such an event is not among the others. */
  readonly named: string[] = [];
  /** undefined while the stream is open. */
  ended: 'whole' | 'broken' | undefined;
  #text = '';
  #wake: () => void = () => undefined;

  private constructor(
    private readonly sent: ClientRequest,
    readonly response: IncomingMessage,
    private readonly onEvent: (event: StreamedEvent) => void,
  ) {
    response.setEncoding('utf8');
    response.on('data', (text: string) => this.#take(text));
    response.on('end', () => this.#end('whole'));
    response.on('error', () => this.#end('broken'));
    response.on('close', () => this.#end('broken'));
    sent.on('error', () => this.#end('broken'));
  }

  /** Opens a stream, and waits for the response headers. */
  static open(
    url: string,
    path: string,
    { headers = {}, key = KEYS.client }: StreamOptions = {},
    onEvent: (event: StreamedEvent) => void = () => undefined,
  ): Promise<EventStreamReader> {
    return new Promise((resolve, reject) => {
      const sent = request(url + path, { headers: { 'X-API-Key': key, ...headers }, agent: false });
      sent.once('error', reject);
      sent.once('response', (response) => {
        sent.off('error', reject);
        resolve(new EventStreamReader(sent, response, onEvent));
      });
      sent.end();
    });
  }

  /** Id of the newest event. */
  get lastId(): string | undefined {
    return this.events.at(-1)?.id;
  }

  /** What came after the last whole event; the body of an answer that is no stream. */
  get unread(): string {
    return this.#text;
  }

  /** Stops reading from the connection. */
  pause(): void {
    this.response.pause();
  }

  /** Reads on. */
  resume(): void {
    this.response.resume();
  }

  /** Closes the connection. */
  close(): void {
    this.sent.destroy();
  }

  /** Waits until the condition holds. @throws AssertionError after two minutes */
  async until(condition: () => boolean, what: string): Promise<this> {
    const deadline = performance.now() + PATIENCE_MS;
    while (!condition()) {
      const left = deadline - performance.now();
      assert.ok(left > 0, `timeout: ${what}; ${this.events.length} events, ${this.ended ?? 'open'}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(left, 250));
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return this;
  }

  /** Waits for a number of events. */
  async count(events: number): Promise<this> {
    return this.until(() => this.events.length >= events, `${events} events`);
  }

  /** Waits for the end of the stream. */
  async end(): Promise<this> {
    return this.until(() => this.ended !== undefined, 'the end of the stream');
  }

  #take(text: string): void {
    this.#text += text;
    const blocks = this.#text.split('\n\n');
    this.#text = blocks.pop() ?? '';
    for (const block of blocks) this.#read(block);
    this.#wake();
  }

  #read(block: string): void {
    if (block === ':') {
      this.comments += 1;
      this.eventsBeforeComments.push(this.events.length);
      return;
    }
    const [, name] = /^(?:id: \S+\n)?event: (\S+)\ndata: [^\n\r]+$/.exec(block) ?? [];
    if (name !== undefined) {
      this.named.push(name);
      return;
    }
    const [, id, data] = /^id: (\S+)\ndata: ([^\n\r]+)$/.exec(block) ?? assert.fail(`not an event: ${block}`);
    const event = { id: id ?? '', data: JSON.parse(data ?? '') as unknown };
    this.events.push(event);
    this.onEvent(event);
  }

  #end(how: 'whole' | 'broken'): void {
    this.ended ??= how;
    this.#wake();
  }
}
