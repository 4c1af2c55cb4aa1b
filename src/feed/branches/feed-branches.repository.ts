import { Injectable } from '@nestjs/common';
import { rows, type SqlExecutor } from '../../database/sql.js';

/** A branch that a restore began. */
export interface FeedBranch {
  /** 1 for the first restore; 0 is the branch before it, which has no row. */
  readonly number: number;
  /** What its cursors carry: 8 characters of base64url. */
  readonly token: string;
}

/** SQL of the branches of the feeds. */
@Injectable()
export class FeedBranchesRepository {
  /** All branches in the order in which they began. */
  list(executor: SqlExecutor): Promise<FeedBranch[]> {
    return rows<FeedBranch>(executor, `select number, token from feed_branches order by number`);
  }

  /** Position up to which a branch shares a topic's feed with the branch before it; 0: nothing of it. */
  async findHead(executor: SqlExecutor, number: number, topic: string): Promise<number> {
    const [row] = await rows<{ position: string }>(
      executor,
      `select last_position as position
         from feed_branch_heads
        where number = $1::integer
          and topic = $2::text`,
      [number, topic],
    );
    return Number(row?.position ?? 0);
  }

  /** Begins a branch at the present ends of all feeds. @returns its number, and how many topics there are */
  async begin(manager: SqlExecutor, token: string): Promise<{ number: number; topics: number }> {
    const [row] = await rows<{ number: number; topics: string }>(
      manager,
      `with begun as (
         insert into feed_branches (number, token, began_at)
         select coalesce(max(number), 0) + 1, $1::text, now()
           from feed_branches
      returning number
       ),
       heads as (
         insert into feed_branch_heads (number, topic, last_position)
         select b.number, t.topic, t.last_position
           from feed_topics t
          cross join begun b
      returning topic
       )
       select number, (select count(*) from heads) as topics
         from begun`,
      [token],
    );
    if (row === undefined) throw new Error('no branch was begun');
    return { number: row.number, topics: Number(row.topics) };
  }
}
