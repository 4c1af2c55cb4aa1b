import { Column, Entity, PrimaryColumn } from 'typeorm';

/** A row of `api_keys`. The key itself is nowhere: `hash` is its SHA-256. */
@Entity('api_keys')
export class ApiKeyEntity {
  @PrimaryColumn('uuid') id: string;
  @Column('text') name: string;
  @Column('text', { array: true }) scopes: string[];
  /** The readable beginning of the key. */
  @Column('text') prefix: string;
  @Column('text') hash: string;
  @Column('timestamptz', { name: 'created_at' }) createdAt: Date;
  @Column('timestamptz', { name: 'expires_at', nullable: true }) expiresAt: Date | null;
  @Column('timestamptz', { name: 'last_used_at', nullable: true }) lastUsedAt: Date | null;
  @Column('timestamptz', { name: 'revoked_at', nullable: true }) revokedAt: Date | null;
}
