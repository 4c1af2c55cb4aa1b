import { storeRefusal } from '@longshore/common/store-answer';
import { toApiError, unwrap } from '../api/answers.js';
import type { LongshoreClient, Schemas } from '../api/use-api.js';
import { SERVICE_URL } from '../lib/addresses.js';
import { reachableUrl } from './file-refs.js';

type Piece = Pick<Schemas['FilePart'], 'method' | 'url' | 'headers'>;

/** What an upload is about. */
interface Upload {
  readonly file: File;
  readonly signal: AbortSignal;
  /** @param share of the bytes that are sent, from 0 to 1 */
  readonly onProgress: (share: number) => void;
}

/** Sends a file to the store. @returns its id @throws ApiError, Error when it does not arrive */
export async function uploadFile(
  api: LongshoreClient,
  { file, signal, onProgress }: Upload,
): Promise<string> {
  const body = { name: file.name, bytes: file.size, ...(file.type !== '' && { content_type: file.type }) };
  const made = await unwrap<Schemas['FileCreated'] | Schemas['File']>(api.POST('/files', { body, signal }));
  const params = { path: { id: made.id } };
  if (!('upload' in made)) return made.id;
  const { upload } = made;
  let first = 0;
  const etags: string[] = [];
  for (const { bytes, ...piece } of 'parts' in upload ? upload.parts : [{ ...upload, bytes: file.size }]) {
    const start = first;
    const onMoved = (moved: number): void => onProgress((start + moved) / file.size);
    // Without the type of the file, which the browser would send where the store does not want it.
    etags.push(await send(piece, file.slice(start, start + bytes, ''), signal, onMoved));
    first += bytes;
  }
  if ('parts' in upload) await unwrap(api.POST('/files/{id}/complete', { params, body: { etags }, signal }));
  const { state } = await unwrap(api.GET('/files/{id}', { params, signal }));
  if (state !== 'stored') throw new Error(`The store has not got all of ${file.name}`);
  return made.id;
}

/** Sends a part by what tells how far it is, as `fetch` does not. @returns its entity tag */
function send(
  { method, url, headers }: Piece,
  content: Blob,
  signal: AbortSignal,
  onMoved: (bytes: number) => void,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    // Of a request that has ended, it changes nothing.
    signal.addEventListener('abort', () => request.abort(), { once: true });
    request.open(method, reachableUrl(url, SERVICE_URL));
    for (const [name, value] of Object.entries(headers)) {
      // The browser sets it itself, and lets no page do so.
      if (name.toLowerCase() !== 'content-length') request.setRequestHeader(name, value);
    }
    request.upload.addEventListener('progress', ({ loaded }) => onMoved(loaded));
    request.addEventListener('load', () => {
      if (request.status < 300) resolve(request.getResponseHeader('ETag') ?? '');
      else reject(refusalOf(request));
    });
    request.addEventListener('error', () =>
      reject(new Error('The store cannot be reached, or does not allow this page to use it (CORS)')),
    );
    request.addEventListener('abort', () =>
      reject(new DOMException('The upload was cancelled', 'AbortError')),
    );
    request.send(content);
  });
}

/** What the service says, or a bucket. */
function refusalOf({ status, responseText }: XMLHttpRequest): Error {
  try {
    return toApiError(status, JSON.parse(responseText));
  } catch {
    return new Error(`The file is not stored: ${storeRefusal(status, responseText)}`);
  }
}
