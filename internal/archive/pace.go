package archive

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/batch"
)

// pace rests while a part is made, so that deliveries do not wait for the processors that
// the part and the database's reading of it take. A rest after the whole part would not help
// them: on two cores it kept both busy for a tenth of a second.
type pace struct {
	begun time.Time // of the work since the last rest
}

const (
	// workTime is how long the work goes on before a rest.
	workTime = 500 * time.Microsecond
	// restFactor is how many times as long as the work a rest is.
	restFactor = 9
	// maxRest bounds a rest, so that a slow database does not use up PartTime.
	maxRest = 100 * time.Millisecond
)

// rest rests if it is time. It is called often: after each row, and each block of a segment.
func (p *pace) rest(ctx context.Context) {
	if worked := time.Since(p.begun); worked >= workTime {
		batch.SleepOr(ctx, min(restFactor*worked, maxRest), nil)
		p.begun = time.Now()
	}
}
