import assert from 'node:assert/strict';
import { until } from '../service-process.js';
import type { Send } from '../app/test-app.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

/** What tests with real workers ask and wait for. */
export class RunViews {
  constructor(private readonly send: Send) {}

  /** Creates a run of the image. */
  async create(image: string, body: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const created = await this.send('POST', '/runs', { body: { image, ...body } });
    assert.equal(created.status, 201, created.text);
    return created.body.id;
  }

  /** The run as it is now. */
  async get(id: string): Promise<any> {
    const answer = await this.send('GET', `/runs/${id}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.body;
  }

  /** Waits until the run satisfies the condition; answers it then. */
  async until(id: string, what: string, condition: (run: any) => boolean): Promise<any> {
    let last: any;
    await until(
      async () => condition((last = await this.get(id))),
      `run ${id} ${what}: ${JSON.stringify(last)}`,
    );
    return last;
  }

  untilState(id: string, ...states: string[]): Promise<any> {
    return this.until(id, `is ${states.join(' or ')}`, ({ state }) => states.includes(state));
  }

  /** The timeline as `attempt TYPE`, oldest first. */
  async timeline(id: string): Promise<string[]> {
    const { events } = await this.get(id);
    return events.map(({ attempt, type }: any) => `${attempt} ${type}`);
  }

  /** The run, its timeline and the feed of a topic, byte for byte. */
  async bytes(id: string, topic: string): Promise<string[]> {
    const paths = [
      `/runs/${id}`,
      `/runs/${id}/events`,
      `/runs/${id}/attempts`,
      `/feed?topic=${topic}&limit=500`,
    ];
    const answers = await Promise.all(paths.map((path) => this.send('GET', path)));
    for (const { status, text } of answers) assert.equal(status, 200, text);
    return answers.map(({ text }) => text);
  }
}
