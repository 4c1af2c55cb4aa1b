import { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { StreamableFile } from '@nestjs/common';
import type { Response } from 'express';
import { stringifyJson } from '@longshore/common/json/json-text';
import { JSON_TYPE } from '../../common/http/errors/error-response.js';
import { endDatabaseTurn } from '../../common/http/server/database-turns.js';
import { linkNextPage } from '../../common/http/next-page.js';
import type { Page } from '../../database/sql/read-page.js';
import type { PolledEventDto, PolledEventsDto } from '../dto/event.dto.js';

/**
 * The response to a poll: one page as a plain object, several as a stream, so that a long timeline is never in memory as
 * a whole. A failure in the middle closes the connection, so that the response does not look complete.
 */
export async function answerPoll(
  pages: AsyncIterable<PolledEventDto[]>,
): Promise<PolledEventsDto | StreamableFile> {
  const iterator = pages[Symbol.asyncIterator]();
  const first = await iterator.next();
  if (first.done) return { events: [] };
  const second = await iterator.next();
  if (second.done) return { events: first.value };
  const rest: AsyncIterable<PolledEventDto[]> = { [Symbol.asyncIterator]: () => iterator };
  return streamJson(pollText([first.value, second.value], rest));
}

/**
 * Streams a page item by item, so that its text is never in memory as a whole, and names the next page if there is one.
 * @param cursorOf what the next page takes as `after`
 */
export function answerPage<T extends object>(
  response: Response,
  { items, hasMore }: Page<T>,
  cursorOf: (last: T) => string | number,
): StreamableFile {
  endDatabaseTurn(response);
  const last = items.at(-1);
  if (hasMore && last) linkNextPage(response, cursorOf(last));
  return streamJson(listText(items));
}

function streamJson(chunks: Iterable<Buffer> | AsyncIterable<Buffer>): StreamableFile {
  const stream = Readable.from(chunks, { objectMode: false });
  return new StreamableFile(stream, { type: JSON_TYPE }).setErrorHandler((_error, response) => {
    if (response instanceof ServerResponse) response.destroy();
  });
}

function* listText(items: Iterable<object>): Generator<Buffer> {
  let separator = '[';
  for (const item of items) {
    yield Buffer.from(separator + stringifyJson(item));
    separator = ',';
  }
  yield Buffer.from(separator === '[' ? '[]' : ']');
}

async function* pollText(
  first: readonly PolledEventDto[][],
  rest: AsyncIterable<PolledEventDto[]>,
): AsyncGenerator<Buffer> {
  yield Buffer.from(`{"events":[${first.map(commaSeparated).join(',')}`);
  for await (const page of rest) yield Buffer.from(`,${commaSeparated(page)}`);
  yield Buffer.from(']}');
}

function commaSeparated(events: readonly PolledEventDto[]): string {
  return events.map((event) => stringifyJson(event)).join(',');
}
