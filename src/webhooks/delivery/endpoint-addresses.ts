import { Inject, Injectable } from '@nestjs/common';
import { PublicAddresses } from '@longshore/common/public-addresses';
import { Settings } from '../../config/settings.js';

/** Decides which endpoints may be connected to, by the settings of the service. */
@Injectable()
export class EndpointAddresses extends PublicAddresses {
  constructor(@Inject(Settings) settings: Pick<Settings, 'webhookHttp' | 'webhookNetworks'>) {
    super({
      isHttpAllowed: settings.webhookHttp,
      networks: settings.webhookNetworks,
      setting: 'SERVICE_WEBHOOK_NETWORKS',
    });
  }
}
