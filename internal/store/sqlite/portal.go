package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/postrider/postrider"
)

// The one row of portal.
const putPortalSQL = `
	update portal set name = @name, colour = @colour, frame_origins = @frame_origins, options = @options, updated_at = @now`

// PutPortal replaces the settings of the portal; see [store.PortalSettings].
func (s *Store) PutPortal(ctx context.Context, p postrider.Portal) error {
	origins, err := arrayOrNull(append([]string{}, p.FrameOrigins...))
	if err != nil {
		return s.explain("put portal", err)
	}
	options, err := arrayOrNull(p.Options)
	if err != nil {
		return s.explain("put portal", err)
	}
	return change(ctx, s, "put portal", func(ctx context.Context, tx *tx) error {
		return found(tx.count(ctx, putPortalSQL, sql.Named("name", p.Name), sql.Named("colour", p.Colour),
			sql.Named("frame_origins", origins), sql.Named("options", options), sql.Named("now", micros(tx.wall))))
	})
}

// The one row of portal, without the bytes of the logo.
const portalSQL = `select name, colour, frame_origins, options, logo_hash, updated_at from portal`

// Portal returns the settings of the portal; see [store.PortalSettings].
func (s *Store) Portal(ctx context.Context) (postrider.Portal, error) {
	portals, err := list(ctx, s, query{portalSQL, nil}, func(rows *sql.Rows, p *postrider.Portal) error {
		var origins, options string
		var hash []byte
		if err := rows.Scan(&p.Name, &p.Colour, &origins, toString(&options), &hash, toTime(&p.UpdatedAt)); err != nil {
			return err
		}
		copy(p.Logo[:], hash)
		if err := decodeArray(origins, &p.FrameOrigins); err != nil {
			return err
		}
		return decodeArray(options, &p.Options)
	})
	if err == nil && len(portals) == 0 { // somebody deleted the row
		err = postrider.ErrNotFound
	}
	if err != nil {
		return postrider.Portal{}, s.explain("read portal", err)
	}
	return portals[0], nil
}

// The one row of portal.
const (
	putLogoSQL = `update portal set logo = @logo, logo_hash = @hash, updated_at = @now`
	logoSQL    = `select logo from portal where logo is not null`
)

// PutLogo replaces the logo of the portal; see [store.PortalSettings].
func (s *Store) PutLogo(ctx context.Context, png []byte) error {
	var hash [32]byte
	if len(png) > 0 {
		hash = sha256.Sum256(png)
	}
	return change(ctx, s, "put logo", func(ctx context.Context, tx *tx) error {
		return found(tx.count(ctx, putLogoSQL, sql.Named("logo", bytesOrNull(png)), sql.Named("hash", hashOrNull(hash)), sql.Named("now", micros(tx.wall))))
	})
}

// Logo returns the logo of the portal; see [store.PortalSettings].
func (s *Store) Logo(ctx context.Context) ([]byte, error) {
	logos, err := list(ctx, s, query{logoSQL, nil}, func(rows *sql.Rows, png *[]byte) error { return rows.Scan(png) })
	if err == nil && len(logos) == 0 {
		err = postrider.ErrNotFound
	}
	if err != nil {
		return nil, s.explain("read logo", err)
	}
	return logos[0], nil
}

// hashOrNull returns the hash as an argument; the zero hash is null.
func hashOrNull(hash [32]byte) any {
	if hash == [32]byte{} {
		return nil
	}
	return hash[:]
}

// arrayOrNull returns the texts as an argument, a JSON array; nil is null.
func arrayOrNull(texts []string) (any, error) {
	if texts == nil {
		return nil, nil //nolint:nilnil // null is an argument
	}
	array, err := json.Marshal(texts)
	return string(array), err
}

// decodeArray reads a JSON array of texts; the empty string, which null becomes, is nil.
func decodeArray(array string, into *[]string) error {
	if array == "" {
		*into = nil
		return nil
	}
	if err := json.Unmarshal([]byte(array), into); err != nil {
		return fmt.Errorf("decode array: %w", err)
	}
	return nil
}
