import { Inject, Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import { FeedEpochHeadEntity } from '../database/entities/feed.entity.js';
import { cursorsOf, decodeCursor, type FeedCursor } from './feed-cursor.js';
import { FeedCursorInvalid, FeedCursorLost } from './feed.errors.js';
import { FeedRepository, UNUSED } from './feed.repository.js';
import { PromotionCheck } from '../database/failover/promotion-check.js';

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
