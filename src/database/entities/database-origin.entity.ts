import { Check, Column, Entity, PrimaryColumn } from 'typeorm';

/** The row of `database_origin`: values by which a restored database differs from the original. */
@Entity('database_origin')
@Check('database_origin_only_row_check', 'only_row')
export class DatabaseOriginEntity {
  @PrimaryColumn('boolean', {
    name: 'only_row',
    default: true,
    primaryKeyConstraintName: 'database_origin_pkey',
  })
  onlyRow: boolean;
  @Column('jsonb') marks: Record<string, string>;
}
