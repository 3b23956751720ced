package expunge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
)

// line is one line of the list, in JSON.
type line struct {
	ID       postrider.ExpungeID  `json:"id"`
	Event    postrider.EventID    `json:"event,omitzero"`
	Endpoint postrider.EndpointID `json:"endpoint,omitzero"`
	Account  postrider.AccountID  `json:"account"`

	// Withdrawn says that the expunge was not begun. The lines of it that come before do not count.
	Withdrawn bool `json:"withdrawn,omitzero"`
}

func lineOf(e postrider.Expunge) line {
	return line{ID: e.ID, Event: e.Event, Endpoint: e.Endpoint, Account: e.Account}
}

// appendTo adds a line to the list and syncs the file. Several servers may add to one list,
// so a line is one write at the end of the file. The write begins with a line break, since a
// crash may have cut the last line.
func appendTo(list string, l line) error {
	if list == "" {
		return nil
	}
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("add to the list of expunges: %w", err)
	}
	file, err := os.OpenFile(list, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", postrider.ErrExpungeList, err)
	}
	_, err = file.Write(slices.Concat([]byte{'\n'}, text, []byte{'\n'}))
	if err := errors.Join(err, file.Sync(), file.Close(), syncFolder(filepath.Dir(list))); err != nil {
		return fmt.Errorf("%w: %w", postrider.ErrExpungeList, err)
	}
	return nil
}

// CheckList returns an error if the list cannot be written. It changes nothing, and does not
// create a list that does not exist.
func CheckList(list string) error {
	file, err := os.OpenFile(list, os.O_APPEND|os.O_WRONLY, 0)
	switch {
	case err == nil:
		return file.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open the list: %w", err)
	}
	const writable = 2 // W_OK
	if err := syscall.Access(filepath.Dir(list), writable); err != nil {
		return fmt.Errorf("make the list in %s: %w", filepath.Dir(list), err)
	}
	return nil
}

// WatchList checks whether the list can be written, and adds running expunges that it lacks, at once
// and each Options.Every, until ctx ends. It is not a part of Run, because the disk of the list may hang, and
// Run must go on meanwhile.
func (r *Runner) WatchList(ctx context.Context) error {
	for {
		if r.opts.List != "" {
			begun := time.Now()
			err := CheckList(r.opts.List)
			if err != nil {
				r.opts.Log.WarnContext(ctx, "expunges are refused: the list of --expunge-list cannot be written", "error", err)
			} else if fault := r.complete(ctx); fault != nil && ctx.Err() == nil {
				r.opts.Log.WarnContext(ctx, "running expunges were not compared with the list", "error", fault)
			}
			r.triedList(begun, err)
		}
		if !batch.Sleep(ctx, r.opts.Every) {
			return nil
		}
	}
}

// complete adds running expunges to the list that it lacks. Example: the reply of the database to PutExpunge
// was lost, Begin withdrew the expunge, and the database has it all the same.
func (r *Runner) complete(ctx context.Context) error {
	var running []postrider.Expunge
	err := r.each(ctx, func(e postrider.Expunge) error {
		running = append(running, e)
		return nil
	})
	if err != nil || len(running) == 0 {
		return err
	}
	listed, err := readList(r.opts.List) // after the store, because Begin adds to the list first
	for _, e := range running {
		if err == nil && !slices.ContainsFunc(listed, func(l postrider.Expunge) bool { return l.ID == e.ID }) {
			err = appendTo(r.opts.List, lineOf(e))
		}
	}
	return err
}

// triedList reports a write or a check of the list to the observers.
func (r *Runner) triedList(begun time.Time, err error) {
	if r.opts.List != "" {
		r.opts.ChoreDone.Call(observe.ChoreDone{Name: "check expunge list", Took: time.Since(begun), Err: err})
	}
}

// syncFolder syncs a folder, so that the name of a new file survives a crash of the machine.
// Syncing a file does not sync the folder that names it. Tests replace syncFolder.
var syncFolder = func(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readList returns the expunges of the list that were not withdrawn, the oldest first; none if the list does not exist.
// It skips a line that a crash has cut, because the expunge of this line was not begun.
func readList(list string) (listed []postrider.Expunge, err error) {
	if list == "" {
		return nil, nil
	}
	file, err := os.Open(list)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the list of expunges: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 || !bytes.HasSuffix(text, []byte("}")) {
			continue
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil || l.ID.IsZero() || l.Account.IsZero() {
			return nil, fmt.Errorf("read the list of expunges: %s, line %d: must be an object with id and account", list, n)
		}
		if l.Withdrawn {
			listed = slices.DeleteFunc(listed, func(e postrider.Expunge) bool { return e.ID == l.ID })
			continue
		}
		listed = append(listed, postrider.Expunge{
			ID: l.ID, Event: l.Event, Endpoint: l.Endpoint, Account: l.Account, By: "the list of expunges", CreatedAt: l.ID.Time(),
		})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the list of expunges: %w", err)
	}
	return listed, nil
}
