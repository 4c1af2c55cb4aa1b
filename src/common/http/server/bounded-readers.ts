import type { ServerResponse } from 'node:http';
import { currentSpan } from '@longshore/common/tracing/current-span';
import type { DomainError } from '../errors/domain-error.js';
import { HELD, type HeldRequest, type HeldRequests } from './held-requests.js';

/** How many readers are taken, and what happens around that. */
export interface ReaderBounds {
  /** Open streams and waiting polls together, of one process. */
  readonly max: number;
  /** Told of every change. */
  readonly show: (open: number) => void;
  /** Makes what the reader is refused with that is one too many. */
  readonly refuse: () => DomainError;
}

/** Keeps account of the requests that are held open for what is yet to come. */
export class BoundedReaders {
  #open = 0;

  constructor(
    private readonly requests: HeldRequests,
    private readonly bounds: ReaderBounds,
  ) {}

  /**
   * Admits the reader whose answer this is; closing it gives its place to others.
   * @throws DomainError when this process is full
   */
  open(response: ServerResponse): HeldRequest {
    if (this.#open >= this.bounds.max) throw this.bounds.refuse();
    const request = this.requests.open(response);
    currentSpan()?.set(HELD);
    this.#count(1);
    return {
      signal: request.signal,
      close: () => {
        request.close();
        this.#count(-1);
      },
    };
  }

  #count(change: number): void {
    this.#open += change;
    this.bounds.show(this.#open);
  }
}
