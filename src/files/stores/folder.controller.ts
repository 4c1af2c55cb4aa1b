import { Controller, Get, Param, Put, Req, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { create as contentDisposition } from 'content-disposition';
import type { Request, Response } from 'express';
import { Public } from '../../auth/access.js';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { bodyStates, ClientGone } from '../../common/http/request/body-reader.js';
import { StreamsBody } from '../../common/http/request/handler-inputs.js';
import type { FolderStore } from './folder-store.js';
import { FOLDER_ROUTE, type UrlTerms } from './folder-urls.js';
import { StoreMetrics } from './store-metrics.js';
import { FilesNotConfigured } from '../../common/errors/domain-error.js';
import { ObjectNotFound } from './stores.errors.js';
import { Stores } from './stores.js';

/** Headers of what programs of others have made: a browser saves it, and executes nothing of it. */
const DOWNLOAD_HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; sandbox",
  'Cache-Control': 'private',
} as const;

/** Serves the objects of a folder at signed URLs, which need no API key. They are not part of the API's description. */
@ApiExcludeController()
@Controller(FOLDER_ROUTE)
export class FolderController {
  constructor(
    private readonly stores: Stores,
    private readonly metrics: StoreMetrics,
  ) {}

  /** Sends an object, or a range of it. */
  @Get('*key')
  @Public()
  @StreamsBody()
  async download(
    @Req() request: Request,
    @Res() response: Response,
    @Param('key') parts: readonly string[],
  ): Promise<void> {
    const { folder, key, terms } = this.#read('GET', request, parts);
    const object = await folder.head(key);
    const path = object && (await folder.pathOf(key));
    if (path === undefined) throw new ObjectNotFound();
    const headers = {
      ...DOWNLOAD_HEADERS,
      ETag: object?.etag ?? '',
      'Content-Type': terms.contentType ?? 'application/octet-stream',
      'Content-Disposition': contentDisposition(terms.name ?? parts.at(-1)),
    };
    // Express's own would add a charset.
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    const { socket } = request;
    const before = socket.bytesWritten;
    response.once('close', () => this.metrics.moved('out', socket.bytesWritten - before));
    await send(response, path);
  }

  /** Stores an object. */
  @Put('*key')
  @Public()
  @StreamsBody()
  async upload(
    @Req() request: Request,
    @Res() response: Response,
    @Param('key') parts: readonly string[],
  ): Promise<void> {
    const { folder, key, terms } = this.#read('PUT', request, parts);
    const length = request.headers['content-length'];
    if (terms.bytes !== null && length !== undefined && Number(length) !== terms.bytes) {
      throw new InvalidRequest(`The URL takes ${terms.bytes} bytes, and Content-Length is another number`);
    }
    const body = readPieces(request, response, (bytes) => this.metrics.moved('in', bytes));
    const object = await folder.receive(key, body, terms, Number(length ?? terms.bytes ?? 0));
    response.setHeader('ETag', object.etag);
    response.status(200).end();
  }

  /** @throws FilesNotConfigured, UrlRefused */
  #read(
    method: 'GET' | 'PUT',
    { originalUrl }: Request,
    parts: readonly string[],
  ): { readonly folder: FolderStore; readonly key: string; readonly terms: UrlTerms } {
    const { folder } = this.stores;
    if (folder === null) throw new FilesNotConfigured();
    const key = parts.join('/');
    const query = originalUrl.slice(`${originalUrl}?`.indexOf('?') + 1);
    return { folder, key, terms: folder.urls.verify(method, key, query) };
  }
}

/** Sends a file by Express, which answers ranges and conditions. */
function send(response: Response, path: string): Promise<void> {
  const options = { dotfiles: 'allow', cacheControl: false, etag: false } as const;
  return new Promise((resolve, reject) => {
    response.sendFile(path, options, (error?: Error) => {
      if (error === undefined) resolve();
      // The client may ask for the rest with the next request.
      else reject(response.destroyed || response.headersSent ? new ClientGone() : error);
    });
  });
}

/** The body as it arrives. What is not read of it is not wanted. @throws ClientGone when it breaks off */
async function* readPieces(
  request: Request,
  response: Response,
  onBytes: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  if (bodyStates.get(request) === 'held-back') response.writeContinue();
  bodyStates.set(request, 'reading');
  // Without a listener, an error after the last piece that is read would be thrown.
  request.on('error', () => undefined);
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      const bytes: Uint8Array = chunk;
      onBytes(bytes.length);
      yield bytes;
    }
  } catch (error) {
    throw request.complete ? error : new ClientGone();
  } finally {
    if (request.complete) bodyStates.delete(request);
    else bodyStates.set(request, 'refused');
  }
}
