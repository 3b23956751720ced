package config

import (
	"github.com/postrider/postrider"
)

// QuotaConfig has the limits of accounts that have no limits of their own. 0 means no limit.
type QuotaConfig struct {
	QuotaEvents    int64 `name:"quota-events" setting:"" group:"Quotas" default:"0" help:"Events that an account may publish in a second, on average, over all servers together, at most 1000000; 0: no limit. An account may have limits of its own: postrider accounts quotas."`
	QuotaBurst     int64 `name:"quota-burst" setting:"" group:"Quotas" default:"0" help:"Events that an account may publish at once, at most 10000000; 0: as many as --quota-events."`
	QuotaBytes     int64 `name:"quota-bytes" setting:"" group:"Quotas" default:"0" help:"Bytes of data that the events of an account may have on a day of UTC; 0: no limit."`
	QuotaEndpoints int64 `name:"quota-endpoints" setting:"" group:"Quotas" default:"0" help:"Endpoints that an account may have, at most 1000000; 0: no limit."`
	QuotaBacklog   int64 `name:"quota-backlog" setting:"" group:"Quotas" default:"0" help:"Deliveries that may wait for one endpoint, at most 1000000; 0: no limit. When as many wait, new events are skipped for the endpoint, and can be replayed."`
}

// Quotas returns the limits as a domain type.
func (c QuotaConfig) Quotas() postrider.Quotas {
	return postrider.Quotas{
		EventsPerSecond: c.QuotaEvents, Burst: c.QuotaBurst, BytesPerDay: c.QuotaBytes, Endpoints: c.QuotaEndpoints, Backlog: c.QuotaBacklog,
	}
}

// quotaSettings has the name of the setting for each limit.
var quotaSettings = map[string]string{
	"events_per_second": "quota-events", "burst": "quota-burst", "bytes_per_day": "quota-bytes",
	"endpoints": "quota-endpoints", "backlog": "quota-backlog",
}

func (c QuotaConfig) check(f *faultList) {
	for _, wrong := range postrider.Faults(c.Quotas().Check()) {
		f.refuse(true, quotaSettings[wrong.Field], wrong.Reason)
	}
}
