package sqlite

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestPieces(t *testing.T) {
	t.Parallel()
	full := func(size int) (int, error) { return size, nil }
	ended := errors.New("ended")
	for name, tt := range map[string]struct {
		limit int
		do    func(size int) (int, error)
		sizes []int
		done  int
		rests int
		err   error
	}{
		"nothing":                   {0, full, nil, 0, 0, nil},
		"less than a piece":         {20, full, []int{20}, 20, 0, nil},
		"pieces":                    {120, full, []int{50, 50, 20}, 120, 2, nil},
		"a piece that is not full":  {120, func(int) (int, error) { return 7, nil }, []int{50}, 7, 0, nil},
		"an error ends the pieces":  {120, func(int) (int, error) { return 50, ended }, []int{50}, 50, 0, ended},
		"as many as full pieces do": {100, full, []int{50, 50}, 100, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var sizes []int
				done, err := inPieces(t.Context(), tt.limit, func(size int) (int, error) {
					sizes = append(sizes, size)
					return tt.do(size)
				})
				if !slices.Equal(sizes, tt.sizes) || done != tt.done || !errors.Is(err, tt.err) {
					t.Errorf("pieces of %v, %d rows and %v, want %v, %d and %v", sizes, done, err, tt.sizes, tt.done, tt.err)
				}
				if took, want := time.Since(begun), time.Duration(tt.rests)*pieceRest; took != want {
					t.Errorf("rests of %v, want %v", took, want)
				}
			})
		})
	}
}

func TestPiecesEndWithTheirContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	done, err := inPieces(ctx, 120, func(size int) (int, error) {
		cancel(over)
		return size, nil
	})
	if done != pieceRows || !errors.Is(err, over) {
		t.Errorf("%d rows and %v, want %d and %v", done, err, pieceRows, over)
	}
}
