package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
)

// The one row of portal.
const putPortalSQL = `
	update portal set name = @name, colour = @colour, frame_origins = @frame_origins, options = @options, updated_at = now()`

// PutPortal replaces the settings of the portal.
func (s *Store) PutPortal(ctx context.Context, p postrider.Portal) error {
	err := s.write(ctx, putPortalSQL, pgx.NamedArgs{
		"name": p.Name, "colour": p.Colour, "frame_origins": append([]string{}, p.FrameOrigins...), "options": p.Options,
	})
	if err != nil {
		return fmt.Errorf("put portal: %w", err)
	}
	return nil
}

// The one row of portal, without the bytes of the logo.
const portalSQL = `select name, colour, frame_origins, options, logo_hash, updated_at from portal`

// Portal returns the settings of the portal.
func (s *Store) Portal(ctx context.Context) (postrider.Portal, error) {
	portals, err := list(ctx, s, query{portalSQL, nil}, func(row pgx.CollectableRow) (p postrider.Portal, err error) {
		var hash []byte
		err = row.Scan(&p.Name, &p.Colour, &p.FrameOrigins, &p.Options, &hash, toTime(&p.UpdatedAt))
		copy(p.Logo[:], hash)
		return p, err
	})
	if err == nil && len(portals) == 0 { // somebody deleted the row
		err = postrider.ErrNotFound
	}
	if err != nil {
		return postrider.Portal{}, fmt.Errorf("read portal: %w", err)
	}
	return portals[0], nil
}

// The one row of portal.
const (
	putLogoSQL = `update portal set logo = @logo, logo_hash = @hash, updated_at = now()`
	logoSQL    = `select logo from portal where logo is not null`
)

// PutLogo replaces the logo of the portal.
func (s *Store) PutLogo(ctx context.Context, png []byte) error {
	var hash [32]byte
	if len(png) > 0 {
		hash = sha256.Sum256(png)
	}
	if err := s.write(ctx, putLogoSQL, pgx.NamedArgs{"logo": bytesOrNull(png), "hash": hashOrNull(hash)}); err != nil {
		return fmt.Errorf("put logo: %w", err)
	}
	return nil
}

// Logo returns the logo of the portal.
func (s *Store) Logo(ctx context.Context) ([]byte, error) {
	logos, err := list(ctx, s, query{logoSQL, nil}, pgx.RowTo[[]byte])
	if err == nil && len(logos) == 0 {
		err = postrider.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read logo: %w", err)
	}
	return logos[0], nil
}

// hashOrNull returns the hash as a parameter; the zero hash is null.
func hashOrNull(hash [32]byte) []byte {
	if hash == [32]byte{} {
		return nil
	}
	return hash[:]
}
