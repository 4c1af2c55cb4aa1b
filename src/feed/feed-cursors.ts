import { Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import { FeedEpochEntity, FeedEpochStartEntity } from '../database/entities/feed.entity.js';
import { cursorsOf, decodeCursor } from './feed-cursor.js';
import { FeedCursorInvalid, FeedCursorLost } from './feed.errors.js';
import { FeedRepository } from './feed.repository.js';

/** Makes cursors of the current feed epoch. One of an earlier epoch is valid up to the start of the next epoch. */
@Injectable()
export class FeedCursors implements OnApplicationBootstrap {
  /** Loaded once: an epoch only starts while no process serves. */
  #epochs: readonly FeedEpochEntity[] = [];

  constructor(
    @InjectRepository(FeedEpochEntity) private readonly epochs: Repository<FeedEpochEntity>,
    @InjectRepository(FeedEpochStartEntity) private readonly starts: Repository<FeedEpochStartEntity>,
    private readonly feeds: FeedRepository,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    this.#epochs = await this.epochs.find({ order: { number: 'ASC' } });
  }

  of(topic: string): (position: number) => string {
    return cursorsOf(topic, this.#current);
  }

  /**
   * The position of a client's cursor.
   * @throws FeedCursorInvalid for a cursor that was not made for the topic, FeedCursorLost after a restore
   */
  async positionOf(topic: string, cursor: string): Promise<number> {
    const decoded = decodeCursor(topic, cursor);
    if (decoded === null) throw new FeedCursorInvalid('Malformed cursor');
    if (!decoded.isOfTopic) throw new FeedCursorInvalid('The cursor belongs to the feed of another topic');
    const { position, epoch } = decoded;
    if (epoch === this.#current) return position;
    // Without a restore there is no other epoch, so the service did not make the cursor.
    if (this.#epochs.length === 0) throw new FeedCursorInvalid('Malformed cursor');
    const shared = await this.#lastSharedPosition(epoch, topic);
    if (shared !== undefined && position <= shared) return position;
    const { first } = await this.feeds.findBounds(this.epochs.manager, topic);
    // Retention may have removed more than what is shared.
    throw new FeedCursorLost(this.of(topic)(Math.max(shared ?? 0, first - 1)));
  }

  get #current(): string | null {
    return this.#epochs.at(-1)?.token ?? null;
  }

  /** The last position that an earlier epoch shares with the next one; undefined for an unknown epoch. */
  async #lastSharedPosition(token: string | null, topic: string): Promise<number | undefined> {
    const index = this.#epochs.findIndex((epoch) => epoch.token === token);
    if (index < 0 && token !== null) return undefined;
    const next = this.#epochs[index + 1];
    if (!next) return undefined;
    const start = await this.starts.findOneBy({ number: next.number, topic });
    return Number(start?.lastPosition ?? 0);
  }
}
