import { createHash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import { FeedEpochHeadEntity } from '../database/entities/feed.entity.js';
import { FeedCursorInvalid, FeedCursorLost } from './feed.errors.js';
import { FeedRepository, UNUSED } from './feed.repository.js';
import { PromotionCheck } from '../database/failover/promotion-check.js';

const POSITION_BYTES = 8;
const HASH_BYTES = 6;
const TOKEN_AT = POSITION_BYTES + HASH_BYTES;

/** 19 characters in the first epoch, which has no token; 27 in later ones. */
const FORM = /^[A-Za-z0-9_-]{19}(?:[A-Za-z0-9_-]{8})?$/;

export interface FeedCursor {
  /** Position of the last entry that was read; 0 for none. */
  readonly position: number;
  /** Whether it was made for the topic. */
  readonly isOfTopic: boolean;
  /** Token of its feed epoch; null for the first one, before any restore of the database. */
  readonly epoch: string | null;
}

/** Makes cursors of one topic in one epoch. */
export function cursorsOf(topic: string, epoch: string | null): (position: number) => string {
  const tail = Buffer.concat([hashOf(topic), Buffer.from(epoch ?? '', 'base64url')]);
  return (position) => {
    const bytes = Buffer.alloc(POSITION_BYTES + tail.length);
    bytes.writeBigUInt64BE(BigInt(position));
    tail.copy(bytes, POSITION_BYTES);
    return bytes.toString('base64url');
  };
}

/** Reads a client's cursor for a topic; null if it is malformed. */
export function decodeCursor(topic: string, text: string): FeedCursor | null {
  if (!FORM.test(text)) return null;
  const bytes = Buffer.from(text, 'base64url');
  // The last character has two spare bits: only one spelling of a cursor is valid.
  if (bytes.toString('base64url') !== text) return null;
  const position = bytes.readBigUInt64BE();
  if (position > BigInt(Number.MAX_SAFE_INTEGER)) return null;
  const token = bytes.subarray(TOKEN_AT);
  return {
    position: Number(position),
    isOfTopic: bytes.subarray(POSITION_BYTES, TOKEN_AT).equals(hashOf(topic)),
    epoch: token.length === 0 ? null : token.toString('base64url'),
  };
}

function hashOf(topic: string): Buffer {
  return createHash('sha256').update(topic).digest().subarray(0, HASH_BYTES);
}

/** Makes cursors of the current feed epoch. One of an earlier epoch is valid up to the start of the next epoch. */
@Injectable()
export class FeedCursors {
  constructor(
    @InjectRepository(FeedEpochHeadEntity) private readonly heads: Repository<FeedEpochHeadEntity>,
    private readonly feeds: FeedRepository,
    @Inject(PromotionCheck) private readonly check: Pick<PromotionCheck, 'epochs'>,
  ) {}

  /** Token of the current epoch; null before the first restore. */
  get epoch(): string | null {
    return this.check.epochs.at(-1)?.token ?? null;
  }

  of(topic: string): (position: number) => string {
    return cursorsOf(topic, this.epoch);
  }

  /** Reads a client's cursor. @throws FeedCursorInvalid for one that was not made for the topic */
  decode(topic: string, cursor: string): FeedCursor {
    const decoded = decodeCursor(topic, cursor);
    if (decoded === null) throw new FeedCursorInvalid('Malformed cursor');
    if (!decoded.isOfTopic) throw new FeedCursorInvalid('The cursor belongs to the feed of another topic');
    return decoded;
  }

  /**
   * Checks that the current epoch shares a position of an earlier one.
   * @throws FeedCursorLost; FeedCursorInvalid for one of another epoch where the database has only the first
   */
  async requirePosition(epoch: string | null, topic: string, position: number): Promise<void> {
    if (epoch === this.epoch) return;
    // Another process may have begun an epoch that this one learns of by its next query.
    const bounds = await this.feeds.findBounds(this.heads.manager, [topic]);
    const { first } = bounds.get(topic) ?? UNUSED;
    if (epoch === this.epoch) return;
    if (this.epoch === null) throw new FeedCursorInvalid('Malformed cursor');
    const toCursor = this.of(topic);
    const shared = await this.#lastSharedPosition(epoch, topic);
    if (shared !== undefined && position <= shared) return;
    // Retention may have removed more than what is shared.
    throw new FeedCursorLost(toCursor(Math.max(shared ?? 0, first - 1)));
  }

  /** The last position that an earlier epoch shares with the next one; undefined for an unknown epoch. */
  async #lastSharedPosition(token: string | null, topic: string): Promise<number | undefined> {
    const { epochs } = this.check;
    const index = epochs.findIndex((epoch) => epoch.token === token);
    if (index < 0 && token !== null) return undefined;
    const next = epochs[index + 1];
    if (!next) return undefined;
    const head = await this.heads.findOneBy({ number: next.number, topic });
    return Number(head?.lastPosition ?? 0);
  }
}
