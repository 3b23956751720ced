package archive

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/batch"
)

// pace makes the work on a part sleep often, so that deliveries do not wait for processors that
// the part and the database's reads of its rows use. One long rest after the whole part does not
// help: measured on two cores, a part kept both busy for a tenth of a second.
type pace struct {
	begun time.Time // of the work since the last rest; set by rest
}

const (
	// workTime is how long the work lasts before a rest.
	workTime = 500 * time.Microsecond
	// restFactor is the length of a rest divided by the length of the work before it.
	restFactor = 9
	// maxRest limits a rest, so that a slow database does not use up PartTime.
	maxRest = 100 * time.Millisecond
)

// rest sleeps if workTime has passed. It is called after each row, and each block of a segment.
func (p *pace) rest(ctx context.Context) {
	if worked := time.Since(p.begun); worked >= workTime {
		batch.SleepOr(ctx, min(restFactor*worked, maxRest), nil)
		p.begun = time.Now()
	}
}
