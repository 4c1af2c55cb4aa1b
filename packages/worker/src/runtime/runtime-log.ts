/** What a runtime tells the operator; a pino logger fits. */
export interface RuntimeLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}
