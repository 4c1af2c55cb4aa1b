import { getMetadataArgsStorage } from 'typeorm';
import { UnnestColumns } from './sql.js';

type ColumnArgs = ReturnType<typeof getMetadataArgsStorage>['columns'][number];

/** Names of the columns of an entity, as its properties. */
export type Field<E> = keyof E & string;

/**
 * Table, columns and types of an entity for SQL text. A column is declared in its entity only. Build the text when a
 * module is loaded, not for each statement.
 */
export class EntityTable<E extends object> {
  /** The table's name. */
  readonly name: string;
  /** Every column. */
  readonly fields: readonly Field<E>[];
  readonly #columns: ReadonlyMap<string, ColumnArgs>;

  /** @throws TypeError unless the class and its properties are decorated with explicit types */
  constructor(entity: new () => E) {
    const storage = getMetadataArgsStorage();
    const name = storage.tables.find(({ target }) => target === entity)?.name;
    if (name === undefined) throw new TypeError(`${entity.name} has no @Entity with a table name`);
    this.name = name;
    const columns = storage.columns.filter(({ target }) => target === entity);
    this.#columns = new Map(columns.map((column) => [column.propertyName, column]));
    // Every decorated property is one of the entity's.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    this.fields = [...this.#columns.keys()] as Field<E>[];
  }

  /** All columns but these. */
  except<X extends Field<E>>(...fields: readonly X[]): Exclude<Field<E>, X>[] {
    const left: ReadonlySet<string> = new Set(fields);
    return this.fields.filter((field): field is Exclude<Field<E>, X> => !left.has(field));
  }

  /** The name of a column. */
  column(field: Field<E>): string {
    return this.#column(field).options.name ?? field;
  }

  /** Names for the column list of an `insert`, or with an alias for what it selects. */
  columns(fields: readonly Field<E>[] = this.fields, alias?: string): string {
    const prefix = alias === undefined ? '' : `${alias}.`;
    return fields.map((field) => `${prefix}"${this.column(field)}"`).join(', ');
  }

  /** A `select` list whose results have the names of the entity's properties. */
  select(alias: string, fields: readonly Field<E>[] = this.fields): string {
    return fields.map((field) => `${alias}."${this.column(field)}" as "${field}"`).join(', ');
  }

  /** The `set` list of an `update` that copies columns from another table expression. */
  set(fields: readonly Field<E>[], from: string): string {
    return fields.map((field) => `"${this.column(field)}" = ${from}."${this.column(field)}"`).join(', ');
  }

  /**
   * Rows with these columns as parameters.
   * @param extra names and types of columns that the table does not have
   */
  unnest<F extends Field<E>, X extends string = never>(
    fields: readonly F[],
    {
      extra,
      firstParam,
    }: { readonly extra?: Readonly<Record<X, string>>; readonly firstParam?: number } = {},
  ): UnnestColumns<F | X> {
    const columns = fields.map((field) => ({
      key: field,
      name: this.column(field),
      type: this.#type(field),
    }));
    const others = Object.entries<string>(extra ?? {}).map(([name, type]) => ({ key: name, name, type }));
    return new UnnestColumns<F | X>([...columns, ...others], firstParam);
  }

  #type(field: string): string {
    const { type, array } = this.#column(field).options;
    if (typeof type !== 'string' || array === true)
      throw new TypeError(`${this.name}.${field}: no plain type`);
    return type;
  }

  #column(field: string): ColumnArgs {
    const column = this.#columns.get(field);
    if (column === undefined) throw new TypeError(`${this.name} has no column '${field}'`);
    return column;
  }
}
