import { useQuery } from '@tanstack/react-query';
import { useCallback, useEffect, useState } from 'react';
import { unwrap, type ApiError } from '../../api/answers.js';
import { useApi } from '../../api/use-api.js';
import { useSse, type StreamEvent, type StreamState } from '../../api/use-sse.js';
import { showToast } from '../../components/feedback/toasts.js';
import { append, EMPTY_BUFFER, type FeedBuffer, type FeedEvent } from './feed-buffer.js';

/** Events that were there before one came. */
const BACK = 100;

/** What has arrived, and the cursor of the last of it. */
interface Tail {
  readonly buffer: FeedBuffer;
  readonly cursor: string | undefined;
}

const NOTHING: Tail = { buffer: EMPTY_BUFFER, cursor: undefined };

/** A feed as it is followed. */
interface Feed {
  readonly buffer: FeedBuffer;
  readonly state: StreamState;
  /** Why the service does not let it be followed. */
  readonly error: ApiError | Error | undefined;
  /** Begins again where `start` says, after an error. */
  readonly restart: () => void;
}

/**
 * Follows a topic's feed. While it is paused nothing is asked for; afterwards it goes on behind the last event, as after
 * a break of the connection, so nothing is missed and nothing is there twice. Where retention was faster it says so and
 * goes on with the oldest event that is kept.
 */
export function useFeed(topic: string, start: Start, isPaused: boolean): Feed {
  const api = useApi();
  const [{ buffer, cursor }, setTail] = useState(NOTHING);
  // A round begins anew; one after a refused cursor begins with the oldest event that is kept.
  const [round, setRound] = useState({ number: 0, isFromOldest: start === 'oldest' });

  const place = useQuery({
    queryKey: ['feed-cursor', topic, start, round.number],
    queryFn: ({ signal }) => {
      const query = { topic, back: start === 'new' ? 0 : BACK };
      return unwrap(api.GET('/feed/cursor', { params: { query }, signal }));
    },
    // Asked until there is an answer: it is where this page began, whatever happens later.
    enabled: ({ state }) => !round.isFromOldest && state.data === undefined,
    gcTime: 0,
  });
  const begin = cursor ?? place.data?.cursor;
  const isReady = !isPaused && (round.isFromOldest || place.data !== undefined);
  const onEvents = useCallback((arrived: readonly StreamEvent[]) => {
    setTail((known) => ({
      buffer: append(known.buffer, arrived.map(toEvent)),
      cursor: arrived.at(-1)?.id ?? known.cursor,
    }));
  }, []);
  const stream = useSse({
    path: isReady ? `/feed/stream?topic=${encodeURIComponent(topic)}` : null,
    round: round.number,
    ...(begin === undefined ? {} : { after: begin }),
    onEvents,
  });

  const isOvertaken = stream.error?.status === 410;
  useEffect(() => {
    if (!isOvertaken) return;
    showToast(
      'bad',
      'The feed no longer continues at this place: retention removed events, or the database was restored. Continuing with the oldest event.',
    );
    // oxlint-disable-next-line react/set-state-in-effect -- the answer to what the stream says, not to a change of state
    setTail((known) => ({ ...known, cursor: undefined }));
    setRound(({ number }) => ({ number: number + 1, isFromOldest: true }));
  }, [isOvertaken]);

  const restart = useCallback(() => {
    setTail(NOTHING);
    setRound(({ number }) => ({ number: number + 1, isFromOldest: start === 'oldest' }));
  }, [start]);

  const error = stream.error ?? place.error ?? undefined;
  return { buffer, state: stream.state, error: isOvertaken ? undefined : error, restart };
}

function toEvent({ data }: StreamEvent): FeedEvent {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the service's own format
  return JSON.parse(data) as FeedEvent;
}

/** Where following a feed begins, and its words. */
export const STARTS = [
  ['', 'Newest 100 and new ones'],
  ['new', 'New ones only'],
  ['oldest', 'From the beginning'],
] as const;

/** Where following a feed begins. */
export type Start = (typeof STARTS)[number][0];

/** @param text as it stands in the address */
export function startOf(text: string): Start {
  return STARTS.find(([value]) => value === text)?.[0] ?? '';
}
