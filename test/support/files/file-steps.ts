import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import type { DataSource } from 'typeorm';
import { KEYS, type Send, type TestAnswer } from '../app/test-app.js';
import { bodyOf } from '../http/answer-shapes.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

/** What tests do with files over HTTP, as a client. */
export class FileSteps {
  private workers = 0;

  constructor(private readonly send: Send) {}

  /** Makes a file; the answer is whatever it is. */
  create(body: object, key: string = KEYS.client): Promise<TestAnswer> {
    return this.send('POST', '/files', { body, key });
  }

  /** Sends the bytes of an upload, or of a part of one. */
  put(
    { url, headers }: { readonly url: string; readonly headers: Readonly<Record<string, string>> },
    content: string | Uint8Array<ArrayBuffer>,
  ): Promise<Response> {
    return fetch(url, { method: 'PUT', headers, body: content });
  }

  async get(id: string): Promise<any> {
    return bodyOf(await this.send('GET', `/files/${id}`, { key: KEYS.client }), 'File');
  }

  /** The URL of the content; the answer is whatever it is. */
  content(id: string): Promise<TestAnswer> {
    return this.send('GET', `/files/${id}/content?redirect=false`, { key: KEYS.client });
  }

  /** A new file with this content that the store has. @param body in place of a name and the size alone */
  async stored(
    content: string | Uint8Array<ArrayBuffer>,
    body: object = { name: 'f', bytes: content.length },
  ): Promise<any> {
    const created = bodyOf(await this.create(body), 'FileCreated', 201);
    assert.equal((await this.put(created.upload, content)).status, 200);
    assert.equal((await this.get(created.id)).state, 'stored');
    return created;
  }

  /**
   * Lets a new worker execute the one run that waits, and leave files by their names.
   * @param report their media types, if not that of a picture, and the outputs
   * @returns what the worker got
   */
  async execute(
    left: Readonly<Record<string, Uint8Array<ArrayBuffer>>>,
    { types = {}, outputs = {} }: { types?: Readonly<Record<string, string>>; outputs?: object } = {},
  ): Promise<any> {
    const id = `files-${(this.workers += 1)}`;
    const key = KEYS.worker;
    const resources = { cpu_cores: 4, ram_mb: 1000, gpus: [] };
    const beat = { worker_id: id, capabilities: ['artifacts'], resources, tags: [] };
    await this.send('POST', '/workers/heartbeat', { key, body: beat });
    const [op] = (await this.send('POST', `/workers/${id}/claim?max=1`, { key })).body.ops;
    const headers = { 'X-Worker-Id': id, 'X-Run-Attempt': String(op.attempt) };
    const post = async (path: string, body: object): Promise<any> => {
      const answer = await this.send('POST', `/runs/${op.id}/${path}`, { key, headers, body });
      assert.equal(answer.status, 200, answer.text);
      return answer.body;
    };
    await post('events', { type: 'STARTED', msg: '', payload: { worker_id: id } });
    const { urls } = await post('artifact-urls', { names: Object.keys(left) });
    const artifacts = [];
    for (const [name, content] of Object.entries(left)) {
      assert.equal((await this.put(urls[name], content)).status, 200);
      const sum = { bytes: content.length, sha256: hash('sha256', content) };
      artifacts.push({ name, path: `/out/${name}`, ...sum, content_type: types[name] ?? 'image/png' });
    }
    await post('events', { type: 'COMPLETED', msg: '', payload: { outputs, artifacts } });
    return op;
  }
}

/** Lets hours pass for files and for runs that have ended, by moving their times back by that much. */
export async function passHours(dataSource: DataSource, hours: number): Promise<void> {
  const by = `interval '1 hour' * $1::float8`;
  await dataSource.query(
    `update files
        set created_at = created_at - ${by}, last_used_at = last_used_at - ${by}, due_at = due_at - ${by},
            removed_at = removed_at - ${by}`,
    [hours],
  );
  await dataSource.query(`update runs set finished_at = finished_at - ${by} where finished_at is not null`, [
    hours,
  ]);
}
