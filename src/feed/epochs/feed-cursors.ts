import { Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import { FeedBranchEntity, FeedBranchHeadEntity } from '../../database/entities/feed.entity.js';
import { cursorsOf, decodeCursor } from '../feed-cursor.js';
import { FeedCursorInvalid, FeedCursorLost } from '../feed.errors.js';
import { FeedRepository } from '../feed.repository.js';

/**
 * Makes the cursors of the feeds, on the branch that the last restore of the database began, and judges those that
 * clients bring. One of an earlier branch goes on where its branch is shared; behind that, what it stands for is lost.
 */
@Injectable()
export class FeedCursors implements OnApplicationBootstrap {
  /** Another one can only begin while no process serves. */
  #branches: readonly FeedBranchEntity[] = [];

  constructor(
    @InjectRepository(FeedBranchEntity) private readonly branches: Repository<FeedBranchEntity>,
    @InjectRepository(FeedBranchHeadEntity) private readonly heads: Repository<FeedBranchHeadEntity>,
    private readonly feeds: FeedRepository,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    this.#branches = await this.branches.find({ order: { number: 'ASC' } });
  }

  /** Makes cursors of one topic. */
  of(topic: string): (position: number) => string {
    return cursorsOf(topic, this.#branches.at(-1)?.token ?? null);
  }

  /**
   * The position that a client's cursor stands for.
   * @throws FeedCursorInvalid when the topic's feed did not make it, FeedCursorLost when a restore has lost its place
   */
  async positionOf(topic: string, cursor: string): Promise<number> {
    const decoded = decodeCursor(topic, cursor);
    if (decoded === null) throw new FeedCursorInvalid('Malformed cursor');
    if (!decoded.isOfTopic) throw new FeedCursorInvalid('The cursor belongs to the feed of another topic');
    const { position, branch } = decoded;
    if (branch === (this.#branches.at(-1)?.token ?? null)) return position;
    const shared = await this.#sharedWith(branch, topic);
    if (shared !== undefined && position <= shared) return position;
    const { first } = await this.feeds.findBounds(this.branches.manager, topic);
    // Retention may have come past the end of what is shared.
    throw new FeedCursorLost(this.of(topic)(Math.max(shared ?? 0, first - 1)));
  }

  /** How far the topic's feed is shared with an earlier branch; undefined for a branch that is none of this database's. */
  async #sharedWith(token: string | null, topic: string): Promise<number | undefined> {
    const place = this.#branches.findIndex((branch) => branch.token === token);
    if (place < 0 && token !== null) return undefined;
    const next = this.#branches[place + 1];
    if (!next) return undefined;
    const head = await this.heads.findOneBy({ number: next.number, topic });
    return Number(head?.lastPosition ?? 0);
  }
}
