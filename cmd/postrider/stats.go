package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// statsCmd shows the numbers of an endpoint, of an account, or of all accounts that the key may
// see.
type statsCmd struct {
	target `embed:""`

	Account  string               `xor:"of" help:"Only of this account, by id or uid. Default: all accounts."`
	Endpoint postrider.EndpointID `xor:"of" placeholder:"ID" help:"Only of this endpoint, ep_…"`
	From     instant              `placeholder:"TIME" help:"From this time on: RFC 3339, a date in UTC, or a time before now, for example -1h or -7d. Default: an hour ago, by hours a day, by days 30 days."`
	To       instant              `placeholder:"TIME" help:"Before this time, in the same forms. Default: now."`
	Step     string               `enum:"minute,hour,day" default:"hour" help:"Length of a step: minute, hour or day."`
	Type     string               `help:"Only of events of this type."`
	TZ       string               `name:"tz" placeholder:"ZONE" help:"With --step day: the time zone of the days, for example Europe/Berlin. Default: UTC."`
	LeftOut  bool                 `help:"With --endpoint: also count the events that its filter left out. This reads events, so it takes longer."`
}

// Run shows the numbers.
func (c *statsCmd) Run(ctx context.Context, t terminal) error {
	if c.LeftOut && c.Endpoint.IsZero() {
		return misused("--left-out needs --endpoint")
	}
	return ask(t, c.target, printStats, func(api *client.Client) (apitypes.Stats, error) {
		q := client.StatsQuery{From: c.From.Time, To: c.To.Time, Step: c.Step, Type: c.Type, TZ: c.TZ, LeftOut: c.LeftOut}
		switch {
		case !c.Endpoint.IsZero():
			return api.EndpointStats(ctx, c.Endpoint, q)
		case c.Account != "":
			return api.AccountStats(ctx, c.Account, q)
		}
		return api.Stats(ctx, q)
	})
}

// printStats prints a row for each step with numbers, a row for the whole range, and the deliveries
// that wait now.
func printStats(t terminal, asJSON bool, s apitypes.Stats) error {
	if asJSON {
		return printJSON(t.out, s)
	}
	rows := make([][]string, 0, len(s.Points)+1)
	for _, p := range s.Points {
		rows = append(rows, statsRow(moment(&p.At), p.StatsNumbers))
	}
	rows = append(rows, statsRow("total", s.Total))
	head := []string{
		"FROM", "DELIVERED", "DEAD", "SUCCESS", "FIRST TRY", "ATTEMPTS", "RESPONSE P50", "P95", "P99", "LATENCY P50", "P95",
		"P99",
	}
	if err := printTable(t.out, head, rows); err != nil {
		return err
	}
	if !s.DaysFit {
		if _, err := fmt.Fprintf(t.out, "\nThe days of %s do not begin with a full hour of UTC: up to an hour is counted one day late.\n",
			s.TZ); err != nil {
			return err
		}
	}
	if x := s.LeftOut; x != nil {
		about := ""
		if x.About {
			about = "about "
		}
		_, err := fmt.Fprintf(t.out, "\nLeft out by the filter: %s%d of %d events since %s.\n", about, x.Count, x.Events, moment(&x.From))
		if err != nil {
			return err
		}
	}
	oldest := "none is due"
	if s.Now.OldestDueMS != nil {
		oldest = "the oldest is due for " + span(*s.Now.OldestDueMS)
	}
	_, err := fmt.Fprintf(t.out, "\nNow: %s pending deliveries, %s; %s unresolved dead letters.\n", upTo(s.Now.Pending), oldest,
		upTo(s.Now.DeadLetters))
	return err
}

// upTo returns a count for people. Counts stop at 10,000.
func upTo(n int) string {
	if n >= 10_000 {
		return "10000 or more"
	}
	return strconv.Itoa(n)
}

func statsRow(from string, n apitypes.StatsNumbers) []string {
	row := []string{
		from, strconv.FormatInt(n.Deliveries.Delivered, 10), strconv.FormatInt(n.Deliveries.Dead, 10), percent(n.SuccessRate),
		percent(n.FirstSuccessRate), strconv.FormatInt(n.Attempts.Total, 10),
	}
	for _, q := range []apitypes.StatsQuantiles{n.ResponseTime, n.DeliveryLatency} {
		row = append(row, spanText(q.P50MS), spanText(q.P95MS), spanText(q.P99MS))
	}
	return row
}

// percent returns a share in per cent. It never rounds up to 100 %.
func percent(share *float64) string {
	if share == nil {
		return ""
	}
	return fmt.Sprintf("%.1f%%", float64(int(*share*1000))/10)
}
