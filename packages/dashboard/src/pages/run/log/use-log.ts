import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useRef, useState, type RefObject } from 'react';
import { ApiError } from '../../../api/answers.js';
import { useApi } from '../../../api/use-api.js';
import { useSse, type StreamStatus } from '../../../api/use-sse.js';
import { useStore } from '../../../lib/store.js';
import { readLogPage, type LogEntry } from './log-page.js';
import { LogStore, type LogView } from './log-store.js';

/** Lines after which a search waits for the user to scroll. */
const FIRST_FOUND = 200;

/** Which log, and what of it. */
export interface LogSource {
  readonly runId: string;
  readonly attempt: number;
  readonly contains: string;
  /** Cursor behind a line to show first; empty: the newest lines. */
  readonly place: string;
}

/** A log, kept up to date at its end. */
export interface Log extends LogView {
  readonly store: LogStore;
  readonly stream: StreamStatus;
  /** Set it to false while the user reads further up. */
  readonly isFollowed: RefObject<boolean>;
}

/** Reads one log. Use it with a key of the whole source: another source needs another component. */
export function useLog({ runId, attempt, contains, place }: LogSource): Log {
  const api = useApi();
  const [store] = useState(
    () => new LogStore((query, signal) => readLogPage(api, runId, { ...query, attempt }, signal), contains),
  );
  const view = useStore(store);
  const isFollowed = useRef(place === '');
  const open = useEffectEvent(() => (place === '' ? store.toEnd() : store.toPlace(place)));
  useEffect(() => {
    void open();
    return () => store.stop();
  }, [store]);
  const { window, error } = view;
  const isIdle = !view.isLoading && !view.isPausing;
  const hasFailed = isIdle && error !== undefined && window === undefined;
  useEffect(() => {
    if (hasFailed) void open();
  }, [hasFailed]);

  // A search goes on by itself until there is something to look at; the rest comes as it is scrolled to.
  const isShort = contains !== '' && window !== undefined && window.entries.length < FIRST_FOUND;
  const isSearching = isShort && window.hasOlder && isIdle;
  useEffect(() => {
    if (isSearching) void store.older();
  }, [isSearching, store]);

  const queries = useQueryClient();
  const isGone = error instanceof ApiError && error.status === 404;
  useEffect(() => {
    // The run may be gone with its log: then the page says so.
    if (isGone) void queries.invalidateQueries({ queryKey: ['runs', runId, 'run'] });
  }, [isGone, queries, runId]);

  const isOpen = window !== undefined && window.isAtEnd && !window.isComplete && !view.isJumping;
  const stream = useSse({
    path: isOpen ? `/runs/${encodeURIComponent(runId)}/logs/stream?attempt=${attempt}` : null,
    ...(window === undefined ? {} : { after: window.after }),
    onEvents: (events) =>
      store.follow(
        events.map(({ data }): LogEntry => JSON.parse(data)),
        isFollowed.current,
      ),
  });
  useEffect(() => {
    if (stream.state === 'ended') void store.complete();
  }, [stream.state, store]);
  return { ...view, store, stream, isFollowed };
}
