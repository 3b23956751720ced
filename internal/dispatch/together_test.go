package dispatch

import (
	"testing"
	"time"
)

func TestCircuitsThatOpenedWithinAnHourOpenedTogether(t *testing.T) {
	t.Parallel()
	at := func(minutes ...int) (since []time.Time) {
		for _, m := range minutes {
			since = append(since, time.Unix(0, 0).Add(time.Duration(m)*time.Minute))
		}
		return since
	}
	byHand := make([]time.Time, 5)
	for name, tt := range map[string]struct {
		since []time.Time
		want  int
	}{
		"none":                              {nil, 0},
		"one":                               {at(5), 1},
		"those of an hour, in any order":    {at(60, 30, 0, 200), 3},
		"one by one":                        {at(0, 61, 122, 183), 1},
		"the hour that slides":              {at(0, 40, 80, 99, 100, 300), 4},
		"old ones beside an outage":         {append(at(0, 1000, 2000), at(5000, 5001, 5002, 5003)...), 4},
		"a person's do not count":           {append(byHand, at(10, 20)...), 2},
		"of a person's alone there is none": {byHand, 0},
	} {
		if got := openedTogether(tt.since); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}
