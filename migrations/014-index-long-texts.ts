import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * A topic and an image together may be longer than an index entry can be (2,704 bytes), so the index of both has a hash of
 * the image. It is built while others write; an invalid index that an interrupted build left behind is replaced.
 */
export class IndexLongTexts1795000000014 implements MigrationInterface {
  transaction = false;

  async up(q: QueryRunner): Promise<void> {
    const [{ timeout }] = await q.query(`select current_setting('lock_timeout') as timeout`);
    // The build waits for every transaction that began before it; no other session waits for the build meanwhile.
    await q.query('set lock_timeout = 0');
    try {
      await q.query('drop index concurrently if exists runs_by_topic_and_image_hash');
      await q.query(`
        create index concurrently runs_by_topic_and_image_hash
          on runs (topic, hashtextextended(image, 0), state, created_at desc, id desc)
          where topic is not null`);
      await q.query('drop index concurrently if exists runs_by_topic_and_image');
    } finally {
      await q.query(`select set_config('lock_timeout', $1, false)`, [timeout]);
    }
  }

  /** Fails while there is a run whose topic and image are too long for the index. */
  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      create index runs_by_topic_and_image on runs (topic, image, state, created_at desc, id desc)
        where topic is not null;
      drop index runs_by_topic_and_image_hash;
    `);
  }
}
