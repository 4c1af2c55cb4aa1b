import { Column, Entity, PrimaryColumn } from 'typeorm';
import type { JsonObject } from '../../json/json-value.js';

/** A row of `definitions`: one version of a template. */
@Entity('definitions')
export class DefinitionEntity {
  @PrimaryColumn('text') id: string;
  @PrimaryColumn('text') version: string;
  @Column('text') image: string;
  @Column('json', { name: 'input_specs' }) inputSpecs: JsonObject;
  @Column('json', { name: 'output_specs' }) outputSpecs: JsonObject;
  @Column('integer', { name: 'ram_mb' }) ramMb: number;
  @Column('integer', { name: 'vram_mb' }) vramMb: number;
  @Column('integer') cpu: number;
  @Column('integer', { name: 'max_attempts' }) maxAttempts: number;
  @Column('integer', { name: 'backoff_s' }) backoffS: number;
  /** 0: no bound of its own. */
  @Column('integer', { name: 'max_backoff_s' }) maxBackoffS: number;
  @Column('integer', { name: 'start_within_s', nullable: true }) startWithinS: number | null;
  @Column('integer', { name: 'attempt_timeout_s', nullable: true }) attemptTimeoutS: number | null;
  @Column('text', { nullable: true }) topic: string | null;
  @Column('json', { nullable: true }) attributes: Record<string, string> | null;
  @Column('timestamptz', { name: 'created_at' }) createdAt: Date;
  @Column('timestamptz', { name: 'updated_at' }) updatedAt: Date;
}
