import 'reflect-metadata';
import assert from 'node:assert/strict';
import type { Server } from 'node:http';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { setTimeout as delay } from 'node:timers/promises';
import { startEdge } from '../../support/app/http-edge-app.js';
import type { EdgeApp } from '../../support/app/http-edge-app.js';
import { RawConnection, requestText } from '../../support/http/raw-http.js';

const GET_LIST = requestText('GET', '/list');
const POST_SLOW = requestText('POST', '/slow');

describe('draining', () => {
  let edge: EdgeApp;
  beforeEach(async () => {
    edge = await startEdge();
  });
  afterEach(async () => {
    edge.state.release();
    await edge.app.close();
  });

  async function slowRequest(): Promise<RawConnection> {
    const before = edge.state.waiting;
    const connection = (await RawConnection.open(edge.port)).send(POST_SLOW);
    for (let tries = 0; tries < 500 && edge.state.waiting === before; tries += 1) await delay(10);
    assert.equal(edge.state.waiting, before + 1);
    return connection;
  }

  it('answers what is under way, says goodbye with it, and takes nobody new', async () => {
    const slow = await slowRequest();
    const drained = edge.drain.begin();
    assert.equal(edge.drain.signal.aborted, true);
    await assert.rejects(RawConnection.open(edge.port));
    await delay(200);
    edge.state.release();
    const answer = await slow.next();
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['connection'], 'close');
    await drained;
    await slow.closed();
  });

  it('closes idle connections, unused ones too', async () => {
    const used = await RawConnection.open(edge.port);
    await used.send(GET_LIST).next();
    const unused = await RawConnection.open(edge.port);
    await edge.drain.begin({ graceMs: 100, limitMs: 3_600_000 });
    assert.equal(await used.closed(), '');
    assert.equal(await unused.closed(), '');
  });

  it('is what an application does that is only closed, so that it does not wait for a silent client', async () => {
    const server: Server = edge.app.getHttpServer();
    server.setTimeout(0);
    server.headersTimeout = server.requestTimeout = 0;
    const unused = await RawConnection.open(edge.port);
    await edge.app.close();
    assert.equal(await unused.closed(), '');
  });

  it('answers a request that arrives on an open connection during the grace', async () => {
    const open = await RawConnection.open(edge.port);
    await open.send(GET_LIST).next();
    const drained = edge.drain.begin({ graceMs: 1000, limitMs: 10_000 });
    const answer = await open.send(GET_LIST).next();
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['connection'], 'close');
    await open.closed();
    await drained;
  });

  it('cuts off what is still under way at the limit', async () => {
    const slow = await slowRequest();
    await edge.drain.begin({ graceMs: 10, limitMs: 200 });
    assert.equal(await slow.closed(), '');
  });

  it('is the same drain when it is asked for twice', async () => {
    assert.equal(edge.drain.begin(), edge.drain.begin());
    await edge.drain.begin();
  });
});
