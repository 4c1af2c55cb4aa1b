import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Settings } from '../config/settings.js';
import { FeedRepository, type FeedAppend } from './feed.repository.js';

/** What the journal writes the feeds through. */
@Injectable()
export class FeedMirror {
  constructor(
    private readonly repository: FeedRepository,
    @Inject(Settings) private readonly settings: Pick<Settings, 'feedEnabled'>,
  ) {}

  /**
   * Appends entries to their topics' feeds and has the commit announce them; does nothing while the feed is switched
   * off. The last statement of its transaction.
   * @returns how many it appended
   */
  async append(manager: EntityManager, entries: readonly FeedAppend[]): Promise<number> {
    if (entries.length === 0 || !this.settings.feedEnabled) return 0;
    await this.repository.append(manager, entries);
    return entries.length;
  }
}
