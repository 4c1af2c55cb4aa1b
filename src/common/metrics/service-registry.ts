import { Registry } from 'prom-client';

/**
 * Gauges of what is the same whichever process is asked: what the database holds. Whoever is scraped reads them once,
 * while those of the other registry are added up over the processes.
 */
export class ServiceRegistry extends Registry {}
