import { Registry } from 'prom-client';

/**
 * Gauges that are the same in every process, such as what the database holds. A scrape reads them once; those of the other
 * registry are added up over the processes.
 */
export class ServiceRegistry extends Registry {}
