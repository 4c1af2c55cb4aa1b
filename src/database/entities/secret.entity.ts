import { Check, Column, Entity, PrimaryColumn } from 'typeorm';

/** What a secret's value is: any text, the login of a container registry, or environment variables with their names. */
export const SECRET_KINDS = ['opaque', 'registry', 'map'] as const;
export type SecretKind = (typeof SECRET_KINDS)[number];

/** A row of `secrets`. */
@Entity('secrets')
@Check('secrets_kind_check', "kind in ('opaque', 'registry', 'map')")
export class SecretEntity {
  @PrimaryColumn('text', { primaryKeyConstraintName: 'secrets_pkey' }) name: string;
  @Column('text') kind: SecretKind;
  /** The encrypted value in the format of `SecretCipher`; selected only on request. */
  @Column('bytea', { select: false }) ciphertext: Buffer;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'updated_at' }) updatedAt: Date;
}
