import { Injectable } from '@nestjs/common';
import { LostRunRepository, type HolderPage } from '../../runs/storage/lost-run.repository.js';
import { EmptyClaimPredictor } from '../claims/empty-claim-predictor.js';

/** What the reaper reads, and tells the outlook for claims: idle workers then need no statements of their own. */
@Injectable()
export class ObservedHolders extends LostRunRepository {
  constructor(private readonly outlook: EmptyClaimPredictor) {
    super();
  }

  override listHolders(...args: Parameters<LostRunRepository['listHolders']>): Promise<HolderPage> {
    const [, after, , limit] = args;
    const ask = (): Promise<HolderPage> => super.listHolders(...args);
    return after === '' ? this.outlook.observe(limit, ask) : ask();
  }
}
