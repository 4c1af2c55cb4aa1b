import { Check, Column, Entity, Index, PrimaryColumn } from 'typeorm';
import type { ExtraConstraints, Labels, OnLimit } from './run.entity.js';
import type { JsonObject, JsonValue } from '@longshore/common/json/json-value';

/** The declaration of an input. */
export interface InputSpec {
  /** A type that is checked, or any other text as a label. */
  readonly type: string;
  readonly required: boolean;
  /** null: no default. */
  readonly default: JsonValue;
  readonly description?: string;
  /** The values that are allowed. */
  readonly enum?: readonly JsonValue[];
  readonly minimum?: number;
  readonly maximum?: number;
  /** Characters of a string at most. */
  readonly max_length?: number;
}

/** What `longshore apply` stored last. */
export interface Applied {
  /** Name of the set of files. */
  readonly set: string;
  /** Fields that the file gives. */
  readonly given: string[];
  /** A digest of each field as it was stored. */
  readonly fields: Readonly<Record<string, string>>;
}

/** A row of `definitions`: one version of a template. */
@Entity('definitions')
@Check('definitions_attempt_timeout_s_check', 'attempt_timeout_s >= 1')
@Check('definitions_backoff_s_check', 'backoff_s >= 0')
@Check('definitions_cpu_check', 'cpu >= 0')
@Check('definitions_max_attempts_check', 'max_attempts between 1 and 1000')
@Check('definitions_max_backoff_s_check', 'max_backoff_s >= 0')
@Check('definitions_ram_mb_check', 'ram_mb >= 0')
@Check('definitions_start_within_s_check', 'start_within_s >= 1')
@Check('definitions_vram_mb_check', 'vram_mb >= 0')
@Index('definitions_latest', { synchronize: false })
export class DefinitionEntity {
  @PrimaryColumn('text', { primaryKeyConstraintName: 'definitions_pkey' }) id: string;
  @PrimaryColumn('text', { primaryKeyConstraintName: 'definitions_pkey' }) version: string;
  @Column('text') image: string;
  @Column('json', { name: 'input_specs' }) inputSpecs: Record<string, InputSpec>;
  @Column('json', { name: 'output_specs' }) outputSpecs: Record<string, { readonly type: string }>;
  @Column('integer', { name: 'ram_mb' }) ramMb: number;
  @Column('integer', { name: 'vram_mb' }) vramMb: number;
  @Column('integer') cpu: number;
  @Column('json', { name: 'extra_constraints', nullable: true }) extraConstraints: ExtraConstraints | null;
  @Column('integer', { name: 'max_attempts' }) maxAttempts: number;
  @Column('integer', { name: 'backoff_s', default: 0 }) backoffS: number;
  /** 0: unlimited. */
  @Column('integer', { name: 'max_backoff_s', default: 0 }) maxBackoffS: number;
  @Column('integer', { name: 'start_within_s', nullable: true }) startWithinS: number | null;
  @Column('integer', { name: 'attempt_timeout_s', nullable: true }) attemptTimeoutS: number | null;
  @Column('text', { nullable: true }) topic: string | null;
  @Column('json', { nullable: true }) attributes: Record<string, string> | null;
  /** Of its runs; null: none. */
  @Column('json', { nullable: true }) labels: Labels | null;
  @Column('text', { nullable: true }) description: string | null;
  @Column('json', { nullable: true }) options: JsonObject | null;
  @Column('json', { nullable: true }) selector: readonly string[] | null;
  @Column('text', { name: 'concurrency_key', nullable: true }) concurrencyKey: string | null;
  @Column('integer', { name: 'concurrency_limit', nullable: true }) concurrencyLimit: number | null;
  @Column('text', { name: 'concurrency_on_limit', nullable: true }) concurrencyOnLimit: OnLimit | null;
  @Column('text', { name: 'retry_on', nullable: true }) retryOn: string | null;
  /** null: it was not stored by `longshore apply`. */
  @Column('json', { nullable: true }) applied: Applied | null;
  /** API key that created the version, and its name then, as in `runs`. */
  @Column('uuid', { name: 'created_by', nullable: true }) createdBy: string | null;
  @Column('text', { name: 'created_by_name', nullable: true }) createdByName: string | null;
  /** API key that stored it last. */
  @Column('uuid', { name: 'updated_by', nullable: true }) updatedBy: string | null;
  @Column('text', { name: 'updated_by_name', nullable: true }) updatedByName: string | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'updated_at' }) updatedAt: Date;
  /** Orders versions that were created in the same millisecond. A bigint as decimal string. */
  @Column({ type: 'bigint', name: 'creation_order', generated: 'identity', generatedIdentity: 'ALWAYS' })
  creationOrder: string;
}
