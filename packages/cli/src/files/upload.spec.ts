import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test, vi } from 'vitest';
import { Session } from '../service/session.js';
import { Output } from '../terminal/output.js';
import { uploadFile } from './upload.js';

/** What is said of a folder of this size that is sent. */
async function toldOf(bytes: number): Promise<string> {
  const upload = { method: 'PUT', url: 'http://store/x', headers: {}, expires_at: '' };
  vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
    if (typeof input === 'string') return new Response();
    const isCreation = init === undefined && input instanceof Request && input.method === 'POST';
    return Response.json(isCreation ? { id: 'f', upload } : { state: 'stored' });
  });
  const err = new PassThrough();
  const connection = { url: 'http://fake', apiKey: 'key' };
  const session = new Session(
    connection,
    new Output(new PassThrough(), err, {}),
    new AbortController().signal,
  );
  const source = {
    said: './src',
    name: 'src.tar.gz',
    path: import.meta.filename,
    bytes,
    sha256: '',
    entries: [],
  };
  assert.equal(await uploadFile(session, source), 'f');
  return String(err.read());
}

test('says how much is sent, and warns above 200 MB', async () => {
  assert.equal(await toldOf(200_000_000), 'sending ./src: 0 files, 200.0 MB\n');
  const [sending, warning, rest] = (await toldOf(200_000_001)).split('\n');
  assert.match(sending ?? '', /^sending \.\/src/);
  assert.match(warning ?? '', /^longshore: warning: \.\/src is large: /);
  assert.equal(rest, '');
});
