// Package sources is the part of the API that serves sources: the outboxes of producers, from which a
// server reads events. All of it needs the scope admin.
//
//   - The password of a source is stored encrypted. No response, audit entry or log has it.
//   - A PUT connects to the database before it stores anything, unless it is told not to, and says what
//     is wrong.
//   - Rejected rows are read from the producer's database. They are not in the store.
package sources

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Sources is the method of store.Sources.
	Sources(ctx context.Context) ([]postrider.Source, error)
	// PutSource is the method of store.Sources.
	PutSource(ctx context.Context, s postrider.Source) error
	// PauseSource is the method of store.Sources.
	PauseSource(ctx context.Context, id postrider.SourceID, paused bool) error
	// DeleteSource is the method of store.Sources.
	DeleteSource(ctx context.Context, id postrider.SourceID) error
}

// Vault encrypts the passwords of sources.
type Vault interface {
	// EncryptSource encrypts the password and stores it in s. The id of s must be set.
	EncryptSource(ctx context.Context, s *postrider.Source, password string) error
}

// Outboxes connects to the databases of sources.
type Outboxes interface {
	// Open connects to the database of the source. The caller closes the result. The text of an error is
	// for operators; it has no password.
	Open(ctx context.Context, s postrider.Source) (*outbox.DB, error)
}

// Readers read the sources of this node.
type Readers interface {
	// Wake has the readers look at the sources at once, because some have changed.
	Wake()
}

// Routes serves sources.
type Routes struct {
	*rest.Shared

	Store    Store
	Vault    Vault
	Outboxes Outboxes
	Readers  Readers // nil: this process reads no sources
	// Convert makes an event of a row. Rejected rows of a table of the producer's own are found by it.
	Convert func(ctx context.Context, row *apitypes.EventCreate) (postrider.Event, error)
}

const (
	// connectTime is the time for which a request may wait for a producer's database, besides that for
	// the store.
	connectTime = 15 * time.Second
	// defaultKeep is how long the producer's database keeps rows that were read, if nobody says.
	defaultKeep = 24 * time.Hour
	// maxKeepHours is the greatest number of hours that they can be kept.
	maxKeepHours = 720
	maxURL       = 2 << 10
	maxPassword  = 1 << 10
	maxCA        = 64 << 10
)

// Register registers the routes of sources.
func (s *Routes) Register(rt *rest.Router) {
	const one = "/sources/{source}"
	admin := postrider.ScopeAdmin
	rest.Handle(rt, rest.Route{
		Name: "list-sources", Path: "GET /sources",
		Summary: "List sources, by name",
		Scope:   admin,
	}, s.list)
	rest.Handle(rt, rest.Route{
		Name: "get-source", Path: "GET " + one,
		Summary: "Get a source with what its reader knew last",
		Scope:   admin,
	}, s.get)
	rest.HandleBody(rt, rest.Route{
		Name: "put-source", Path: "PUT " + one,
		Summary: "Create or replace a source",
		Description: "The name in the path names it. If no source has the name, one is created. Otherwise it is replaced: a field that is left out gets its default; that it is paused stays. " +
			"An id replaces the source and keeps its name. The server connects to the database first, and stores nothing if it cannot use it. Repeated, it changes nothing more.",
		Codes: []string{"source_unusable", "too_many_sources", "conflict"}, ReceiverTime: connectTime,
		Scope: admin, Creates: true,
	}, s.put)
	rest.Handle(rt, rest.Route{
		Name: "delete-source", Path: "DELETE " + one,
		Summary:     "Delete a source",
		Description: "Nothing more is read from it. Its rows stay in the database of the producer. Those that were read are not read again by another source.",
		Scope:       admin, Status: 204,
	}, s.remove)
	rest.Handle(rt, rest.Route{
		Name: "pause-source", Path: "POST " + one + "/pause",
		Summary:     "Pause a source",
		Description: "Nothing is read until it is resumed; rows wait in the database of the producer. A batch that is being read may still be published.",
		Scope:       admin,
	}, s.setPaused(true))
	rest.Handle(rt, rest.Route{
		Name: "resume-source", Path: "POST " + one + "/resume",
		Summary: "Resume a paused source",
		Scope:   admin,
	}, s.setPaused(false))
	s.registerRows(rt)
}

// SourcePath names a source.
type SourcePath struct {
	Source string `path:"source" doc:"Name or id of the source."`
}

// view returns a source in the form of a response.
func view(s postrider.Source) apitypes.Source {
	at := s.State
	missing := &at.Missing
	if s.Table != nil {
		missing = nil
	}
	return apitypes.Source{
		ID: s.ID, Name: s.Name, DatabaseURL: s.URL, PasswordSet: s.Password != nil, CA: render.OrNull(s.CA), KeepHours: int(s.Keep / time.Hour),
		Table: (*apitypes.SourceTable)(s.Table), Paused: s.Paused, CreatedAt: render.Instant(s.CreatedAt),
		State: apitypes.SourceState{
			At: render.TimeOrNull(at.At), Node: at.Node, Error: render.OrNull(at.Error), ErrorSince: render.TimeOrNull(at.ErrorSince),
			Waiting: at.Waiting, OldestAt: render.TimeOrNull(at.Oldest), OpenSince: render.TimeOrNull(at.OpenSince), Rejected: at.Rejected,
			Missing: missing, Cycle: at.Cycle, MovedUntil: render.TimeOrNull(at.MovedUntil),
		},
	}
}

func (s *Routes) list(ctx context.Context, _ *rest.None) (*rest.Reply[apitypes.List[apitypes.Source]], error) {
	sources, err := s.Store.Sources(ctx)
	if err != nil {
		return nil, err
	}
	views := make([]apitypes.Source, len(sources))
	for i := range sources {
		views[i] = view(sources[i])
	}
	return rest.Respond(apitypes.List[apitypes.Source]{Data: views}), nil
}

func (s *Routes) get(ctx context.Context, in *SourcePath) (*rest.Reply[apitypes.Source], error) {
	return rest.RespondWith(view)(s.find(ctx, in.Source))
}

// find returns the source with this name or id, and notes it for the audit log.
func (s *Routes) find(ctx context.Context, name string) (postrider.Source, error) {
	sources, err := s.Store.Sources(ctx)
	if err != nil {
		return postrider.Source{}, err
	}
	for _, source := range sources {
		if source.Name == name || source.ID.String() == name {
			rest.InfoOf(ctx).Object(source.ID.String())
			return source, nil
		}
	}
	return postrider.Source{}, postrider.ErrNotFound
}

// put creates or replaces a source. Of two requests at once that create it, one is refused by the store
// and then finds the source of the other.
func (s *Routes) put(ctx context.Context, in *struct {
	SourcePath

	Check bool `query:"check" default:"true" doc:"false: the source is stored without a try to connect."`
}, body apitypes.SourcePut,
) (*rest.Reply[apitypes.Source], error) {
	reply, err := rest.RetryConflicts(func() (*rest.Reply[apitypes.Source], error) {
		was, err := s.find(ctx, in.Source)
		created := errors.Is(err, postrider.ErrNotFound)
		if created {
			was, err = postrider.Source{ID: store.NewID[postrider.SourceID](s.IDs), Name: in.Source, CreatedAt: s.Clock.Wall()}, checkName(in.Source)
		}
		if err != nil {
			return nil, err
		}
		is, err := s.changed(ctx, was, body)
		if err == nil && in.Check {
			err = s.try(ctx, is)
		}
		if err == nil {
			err = s.Store.PutSource(ctx, is)
		}
		if err != nil {
			return nil, err
		}
		s.wake() // to read the source as it is now
		if created {
			rest.InfoOf(ctx).Created()
		} else {
			rest.InfoOf(ctx).Changed(view(was), view(is))
		}
		return rest.Respond(view(is)), nil
	})
	if errors.Is(err, store.ErrTooMany) {
		err = rest.Conflict("too_many_sources", fmt.Sprintf("there are %d sources, as many as there may be", store.MaxSources))
	}
	return reply, err
}

// wake has this node read the sources as they are stored now.
func (s *Routes) wake() {
	if s.Readers != nil {
		s.Readers.Wake()
	}
}

// checkName returns the faults of the name of a new source.
func checkName(name string) error {
	err := rest.CheckUID(name)
	if strings.HasPrefix(name, "src_") { // an id of no source, or a name that looks like one
		err = postrider.ErrNotFound
	}
	for _, fault := range postrider.Faults(err) {
		fault.Field = "source"
	}
	return err
}

// changed returns a source with the settings of a request.
func (s *Routes) changed(ctx context.Context, was postrider.Source, body apitypes.SourcePut) (postrider.Source, error) {
	is := was
	stripped, password, err := splitURL(body.DatabaseURL)
	keep, given := body.KeepHours.Get()
	if given && (keep < 1 || keep > maxKeepHours) {
		err = errors.Join(err, postrider.OutOfRange("keep_hours", 1, maxKeepHours))
	}
	text, other := body.Password.Get()
	err = errors.Join(err, rest.CheckText("database_url", body.DatabaseURL, maxURL), rest.CheckText("password", text, maxPassword),
		checkCA(body.CA.Value()))
	switch {
	case err != nil:
		return is, err
	case other && password != "" && password != text:
		return is, rest.Invalid("password", postrider.FaultContradictory, "must be that of database_url, where both are there")
	case other:
		password = text
	}
	is.URL, is.CA, is.Keep, is.Table = stripped, body.CA.Value(), defaultKeep, nil
	if given {
		is.Keep = time.Duration(keep) * time.Hour
	}
	if table, own := body.Table.Get(); own {
		is.Keep, is.Table = 0, (*postrider.SourceTable)(&table)
		if err := s.checkTable(ctx, table, given); err != nil {
			return is, err
		}
	}
	stays := password == "" && body.Password.IsZero() && was.Password != nil
	switch {
	case stays && server(was.URL) == server(stripped):
		return is, nil
	case stays: // the stored one is not sent to another server
		return is, rest.Invalid("password", postrider.FaultRequired, "is required, because the role, the host or the port changes; null: none")
	}
	if password != "" {
		rest.InfoOf(ctx).Note("password", "set")
	}
	return is, s.Vault.EncryptSource(ctx, &is, password)
}

// checkCA returns a fault unless the text is empty or has certificates in PEM.
func checkCA(text string) error {
	if err := rest.CheckText("ca", text, maxCA); err != nil || text == "" {
		return err
	}
	for left := []byte(text); ; {
		var block *pem.Block
		if block, left = pem.Decode(left); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			return nil
		}
	}
	return rest.Invalid("ca", postrider.FaultMalformed, "must be the PEM of certificates")
}

// try refuses an outbox that another source reads, connects to its database, and asks it what a reader would.
func (s *Routes) try(ctx context.Context, source postrider.Source) error {
	err := s.alone(ctx, source)
	if err == nil {
		err = s.with(ctx, source, func(db *outbox.DB) error {
			_, err := db.Stats(ctx)
			return err
		})
	}
	if err != nil {
		return &rest.Error{Class: postrider.ErrInvalid, Code: "source_unusable", Detail: err.Error()}
	}
	return nil
}

// alone returns an error if another source reads the same outbox, as far as the texts of their URLs show it.
func (s *Routes) alone(ctx context.Context, source postrider.Source) error {
	all, err := s.Store.Sources(ctx)
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.ID != source.ID && database(other) == database(source) {
			return fmt.Errorf("the source %s reads this outbox already; if both did, each row would go to one of them", other.Name)
		}
	}
	return nil
}

// with calls do with the outbox of a source.
func (s *Routes) with(ctx context.Context, source postrider.Source, do func(*outbox.DB) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTime, errTooSlow)
	defer cancel()
	db, err := s.Outboxes.Open(ctx, source)
	if err != nil {
		return err
	}
	defer db.Close()
	return do(db)
}

var errTooSlow = errors.New("the database of the source does not respond in time")

func (s *Routes) remove(ctx context.Context, in *SourcePath) (*rest.None, error) {
	source, err := s.find(ctx, in.Source)
	if err != nil {
		return nil, err
	}
	if err := s.Store.DeleteSource(ctx, source.ID); err != nil {
		return nil, err
	}
	s.wake()
	return nil, nil // 204
}

// setPaused returns the handler that pauses or resumes a source.
func (s *Routes) setPaused(paused bool) func(context.Context, *SourcePath) (*rest.Reply[apitypes.Source], error) {
	return func(ctx context.Context, in *SourcePath) (*rest.Reply[apitypes.Source], error) {
		source, err := s.find(ctx, in.Source)
		if err != nil {
			return nil, err
		}
		err = s.Store.PauseSource(ctx, source.ID, paused)
		s.wake()
		source.Paused = paused
		return rest.RespondWith(view)(source, err)
	}
}
