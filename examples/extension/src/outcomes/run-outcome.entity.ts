import { Column, Entity, PrimaryColumn } from 'typeorm';

/** How many runs of an image have ended in a state. */
@Entity('run_outcomes')
export class RunOutcomeEntity {
  @PrimaryColumn('text')
  image: string;

  @PrimaryColumn('text')
  state: string;

  @Column('integer')
  runs: number;
}

/** How far the events have been counted: one row. */
@Entity('run_outcomes_cursor')
export class OutcomesCursorEntity {
  @PrimaryColumn('integer')
  id: number;

  /** Null: from the oldest event. */
  @Column('text', { nullable: true })
  cursor: string | null;
}
