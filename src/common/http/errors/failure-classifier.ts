import type { DomainError } from './domain-error.js';

/**
 * Says what a failure from below (a database, say) means to a client, so that the error filter needs to
 * know nothing about it. The application binds one implementation; without any, such failures are 500.
 */
export abstract class FailureClassifier {
  /** @returns what to answer, or undefined for a failure that is a fault of the service */
  abstract classify(error: unknown): DomainError | undefined;
}
